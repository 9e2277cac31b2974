"""Makes `rules/products/ENGINE/flags/VERSION.json` from a dump of the release's own argument parser.

    python tests/make_flag_catalogue.py DUMP.json ... [--to FOLDER]

A dump is what `conformance/vllm_flags/` and `conformance/sglang_flags/` hold: {engine, version, options}, each option with
`options` (spellings), `dest`, `action` (argparse class), `type` (name of the converter), `nargs`, `choices`, `default`.
The catalogue keeps what parsing needs, one option a line, and leaves out what is the same for most:

* `flags`: spellings; `dest` where it is not the first spelling with underscores;
* `not`: spellings that store false (`--no-x`), also those that the release accepts without showing;
* `action`: `store` (left out), `true`, `boolean`, `append`, `help`, `ignore` (accepted, no effect), `constant`, `refuse`;
* `type`: `str` (left out) or a name of `policy/launchers/converters.py`; `opt:T` reads "" and "None" as null;
* `nargs`, `choices`, `constant`, `instead` (the option is deprecated; what to write), `default` (null is left out, {} for an object).

A converter that cannot be told by its name alone is looked up in `flag_types.json`; an unknown one is an error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TYPES = {
    None: "str", "str": "str", "int": "int", "float": "float", "bool": "bool", "loads": "json", "_parse_type": "json", "union_dict_and_str": "json_or_str",
    "parse_dataclass": "object", "human_readable_int_or_auto": "human_int_or_auto", "parse_reasoning_parser": "reasoning_parser",
    "json_list_type": "json", "nullable_str": "opt:str", "parse_cuda_graph_config_arg": "object", "parse_cuda_graph_backend_arg": "str",
}  # fmt: skip
HUMAN = {"vllm": "human_int", "sglang": "si_int"}
ACTIONS = {
    "_StoreAction": "store", "_StoreTrueAction": "true", "BooleanOptionalAction": "boolean", "EnableDisableAction": "boolean", "_AppendAction": "append",
    "LoRAParserAction": "store", "LoRAPathAction": "store", "_HelpAction": "help", "DeprecatedAction": "ignore", "DeprecatedLogConfigFileAction": "store",
    "DeprecatedStoreTrueAction": "true", "DeprecatedStoreConstAction": "constant", "DeprecatedAliasStoreAction": "store",
}  # fmt: skip
LORA = {"LoRAParserAction": "opt:lora_module", "LoRAPathAction": "lora_path"}
INVERSE = {"--enable-": "--disable-", "--disable-": "--enable-"}


def split_flags(option: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The spellings that store true (or a value) and those that store false."""
    flags, own = list(option["options"]), "--" + option["dest"].replace("_", "-")
    if ACTIONS[option["action"]] != "boolean":
        return flags, []
    negative = [flag for flag in flags if flag.startswith("--no-")]
    if option["action"] == "EnableDisableAction":
        for prefix, inverse in INVERSE.items():
            if own.startswith(prefix) and inverse + own.removeprefix(prefix) in flags:
                negative += [inverse + own.removeprefix(prefix), "--no-" + own[2:]]  # the latter is accepted and not shown
    return [flag for flag in flags if flag not in negative], list(dict.fromkeys(negative))


def type_of(option: dict[str, Any], engine: str, table: dict[str, Any]) -> str:
    """The name of the converter."""
    if option["type"] == "human_readable_int":
        return HUMAN[engine]
    if option["action"] in LORA:
        return LORA[option["action"]]
    for name, dests in table["types"].items():
        if option["dest"] in dests and option["type"] in ("_optional_type", "lambda"):
            return str(name)
    if option["type"] not in TYPES:
        raise SystemExit(f"{engine}: the converter `{option['type']}` of `{option['dest']}` is not in flag_types.json")
    return TYPES[option["type"]]


def compact(option: dict[str, Any], engine: str, table: dict[str, Any]) -> dict[str, Any]:
    """One line of the catalogue."""
    flags, negative = split_flags(option)
    retired = option["action"].startswith("Deprecated")
    action = "refuse" if retired and flags[0] in table["refused"] else ACTIONS[option["action"]]
    line: dict[str, Any] = {"flags": flags}
    if (dest := table["fields"].get(option["dest"], option["dest"])) != flags[0].lstrip("-").replace("-", "_"):
        line["dest"] = dest
    if negative:
        line["not"] = negative
    if action != "store":
        line["action"] = action
    if (kind := type_of(option, engine, table)) != "str":
        line["type"] = kind
    if option["nargs"] not in (None, 0):
        line["nargs"] = option["nargs"]
    if option["choices"] is not None:
        whole = kind.removeprefix("opt:") == "int"  # a dump holds words, whatever the type
        line["choices"] = sorted(int(choice) for choice in option["choices"]) if whole else option["choices"]
    if flags[0] in table["constants"] and (action == "constant" or option["nargs"] == "?"):
        line["constant"] = table["constants"][flags[0]]
        if action == "constant" and option["nargs"] is None:
            line["nargs"] = 1
    if retired:
        line["instead"] = table["instead"].get(flags[0], "")
    default = option["default"]
    if default is not None and default != "==SUPPRESS==":
        line["default"] = {} if isinstance(default, dict) else default
    return line


def catalogue(dump: dict[str, Any]) -> str:
    """The text of the catalogue of one dump."""
    table = json.loads((HERE / "flag_types.json").read_text(encoding="utf-8"))[dump["engine"]]
    lines = [json.dumps(compact(option, dump["engine"], table), separators=(",", ":")) for option in dump["options"]]
    return f'{{"engine":"{dump["engine"]}","version":"{dump["version"]}","options":[\n' + ",\n".join(lines) + "\n]}\n"


def main(arguments: list[str]) -> int:
    """Writes the catalogue of every dump; the folder is the repository's own unless `--to` names another one."""
    target = Path(arguments[arguments.index("--to") + 1]) if "--to" in arguments else None
    for name in arguments[: arguments.index("--to")] if target else arguments:
        dump = json.loads(Path(name).read_text(encoding="utf-8"))
        folder = target or HERE.parent / "rules" / "products" / dump["engine"] / "flags"
        (folder / f"{dump['version']}.json").write_text(catalogue(dump), encoding="utf-8")
        print(folder / f"{dump['version']}.json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
