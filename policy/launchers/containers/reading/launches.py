"""From what was read to `FoundLaunch`: words with origins, what of a launch is material, parts of one launch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, Stated, Word
from policy.launchers.yaml_places import Node
from policy.origin import Origin

#: Options that make two launches different launches: sizes, attention data parallelism, the model, fusions.
_MATERIAL = re.compile(
    r"^--?(?:tensor[-_]parallel[-_]size|tp(?:[-_]size)?|pipeline[-_]parallel[-_]size|pp(?:[-_]size)?|data[-_]parallel[-_]size|dp(?:[-_]size)?|"
    r"nnodes|enable[-_]dp[-_]attention|disaggregation[-_]mode|server[-_]role|[\w.-]*all_?reduce[-_][\w-]*|[\w.-]*pass_config[\w.]*)(?:=|$)"
)
_MODEL = re.compile(r"^--(?:model|model[-_]path|model[-_]dir|model[-_]id|model[-_]tag)(?:=|$)")
FUSIONS = re.compile(r"pass_config|all_?reduce[-_](?:fusion|rms|strategy|backend)|VLLM_ALLREDUCE_USE_FLASHINFER|VLLM_FLASHINFER_ALLREDUCE_\w+", re.IGNORECASE)


def program_length(texts: list[str]) -> int:
    """How many words name the program (`vllm serve`, `python3 -m sglang.launch_server`)."""
    if texts[1:2] == ["-m"]:
        return 4 if texts[3:4] == ["serve"] else 3
    if texts[:1] == ["-m"]:
        return 2
    if texts[1:2] == ["serve"] or (len(texts) > 1 and texts[1].endswith(".py")):
        return 2
    return 1


def words_of(fields: Iterable[Field]) -> tuple[Word, ...]:
    """Words of a command; `argument` counts them from 1."""
    return tuple(Word(item.text, Origin("argument", "", item.place[0], item.place[1], item.place[2], number)) for number, item in enumerate(fields, 1))


def fields_of(words: Iterable[Word]) -> list[Field]:
    """Words as fields again, to put others among them."""
    return [Field(word.text, (word.origin.file or "", word.origin.line or 1, word.origin.column or 1)) for word in words]


def environment_of(fields: Mapping[str, Field]) -> dict[str, Word]:
    """Variables of a launch."""
    return {name: Word(item.text, Origin("environment", name, *item.place)) for name, item in fields.items()}


def field_of(node: Node, text: str | None = None) -> Field:
    """A value of a file, or `text` at its place."""
    return Field(node.text if text is None else text, (node.source.name, node.line, node.column))


def word_of(node: Node, detail: str, text: str | None = None) -> Word:
    """A value of a file as a Word."""
    return Word(node.text if text is None else text, node.origin(detail))


def state(launch: FoundLaunch, fact: str, node: Node | None, detail: str, value: Any = None) -> None:
    """States `fact` with the node's value (whole numbers as numbers; anything else as written), unless it is null."""
    if node is None or node.kind != "scalar" or node.value is None:
        return
    launch.stated[fact] = Stated(number(node) if value is None else value, node.origin(detail))


def number(node: Node) -> Any:
    """The node's whole number, or its text."""
    if isinstance(node.value, bool) or not re.fullmatch(r"\d{1,9}", node.text.strip()):
        return node.value if isinstance(node.value, bool) else node.text
    return int(node.text)


def option_value(texts: list[str], pattern: re.Pattern[str]) -> str | None:
    """The value of the last option that matches (`--o V` or `--o=V`)."""
    found = None
    for at, text in enumerate(texts):
        if pattern.match(text):
            _, equals, value = text.partition("=")
            following = texts[at + 1] if at + 1 < len(texts) else ""
            found = value if equals else following if not following.startswith("--") else ""
    return found


def model_of(texts: list[str]) -> str | None:
    """The model that the words name, by an option or by position."""
    given = option_value(texts, _MODEL)
    if given:
        return given
    start = program_length(texts)
    if len(texts) > start and not texts[start].startswith("-") and texts[:1] and not texts[start - 1].endswith(".py"):
        return texts[start]
    return None


def signature(texts: list[str], environment: Mapping[str, str], files: Mapping[str, str], with_model: bool = True) -> tuple[str, ...]:
    """What of a launch is material; equal signatures are the same launch started again."""
    result: list[str] = []
    for at, text in enumerate(texts):
        following = texts[at + 1] if at + 1 < len(texts) and not texts[at + 1].startswith("--") else ""
        if _MATERIAL.match(text):
            result.append(text if "=" in text else f"{text}={following}")
        elif "pass_config" in text:
            result.append(text)
        if text in files or text.partition("=")[2] in files:
            body = files.get(text) or files.get(text.partition("=")[2]) or ""
            result += [line.strip() for line in body.splitlines() if _is_material(line)]
    result += [f"{name}={value}" for name, value in sorted(environment.items()) if FUSIONS.search(name)]
    if with_model:
        result.append(f"model={model_of(texts)}")
    return tuple(result)


def _is_material(line: str) -> bool:
    """Whether a line of a configuration file is material."""
    return bool(_MATERIAL.match("--" + line.strip().replace(":", "=")) or FUSIONS.search(line) or "enable_attention_dp" in line)


def options_from(node: Node, dashes: bool = True, negate: bool = False, skip: Iterable[str] = ()) -> tuple[list[Field], dict[str, Node]]:
    """A mapping of options as words, the way the engines' own configuration readers do it: true is the flag alone, a
    mapping is one JSON word, a list follows its flag; null is nothing. False is nothing (or `--no-flag` with `negate`);
    the second result holds those."""
    fields: list[Field] = []
    off: dict[str, Node] = {}
    skipped = set(skip)
    for key, value in node.items():
        if key in skipped or (value.kind == "scalar" and value.value is None):
            continue
        line, column = node.keys.get(key, (value.line, value.column))
        place = (node.source.name, line, column)
        option = "--" + (key.replace("_", "-") if dashes else key)
        if value.kind == "scalar" and isinstance(value.value, bool):
            if value.value:
                fields.append(Field(option, place))
            elif negate:
                fields.append(Field("--no-" + option[2:], place))
            else:
                off[key] = value
        elif value.kind == "mapping":
            fields += [Field(option, place), Field(json.dumps(value.plain(), default=str), (node.source.name, value.line, value.column))]
        elif value.kind == "sequence":
            fields.append(Field(option, place))
            for element in value.elements():
                text = element.text if element.kind == "scalar" else json.dumps(element.plain(), default=str)
                fields.append(Field(text, (node.source.name, element.line, element.column)))
        else:
            fields += [Field(option, place), field_of(value)]
    return fields, off


_ROLES = {"prefill": "prefill", "context": "prefill", "kv_producer": "prefill", "decode": "decode", "generation": "decode", "kv_consumer": "decode"}


def role_of_words(texts: list[str]) -> str | None:
    """`prefill` or `decode` where the command says so."""
    given = option_value(texts, re.compile(r"^--(?:disaggregation[-_]mode|server[-_]role)(?:=|$)"))
    if given and given.lower() in _ROLES:
        return _ROLES[given.lower()]
    for flag, role in (("--is-prefill-worker", "prefill"), ("--is-decode-worker", "decode")):
        if flag in texts:
            return role
    for text in texts:
        match = re.search(r"[\"']kv_role[\"']\s*:\s*[\"'](kv_producer|kv_consumer)[\"']", text)
        if match is not None:
            return _ROLES[match.group(1)]
    return None


def role_of_name(name: str | None) -> str | None:
    """`prefill` or `decode` where a name of a role, service or workload says exactly one of them."""
    if not name:
        return None
    lower = name.lower()
    said = {role for word, role in (("prefill", "prefill"), ("decode", "decode")) if word in lower}
    return said.pop() if len(said) == 1 else None


def merge_parts(launches: list[FoundLaunch]) -> list[FoundLaunch]:
    """One engine, several commands: nodes that join a launch (`--headless`, `--node-rank 1`) belong to the command that
    leads it, where that one is in the same file."""
    result: list[FoundLaunch] = []
    for launch in launches:
        if joins(launch) and any(_leads(other, launch) for other in launches if other is not launch):
            continue
        result.append(launch)
    return result


def joins(launch: FoundLaunch) -> bool:
    """Whether a command starts a further node of a launch that another command leads."""
    texts = [word.text for word in launch.words]
    if "--headless" in texts:
        return True
    rank = option_value(texts, re.compile(r"^--node[-_]rank(?:=|$)"))
    start = option_value(texts, re.compile(r"^(?:--data[-_]parallel[-_]start[-_]rank|-dpr)(?:=|$)"))
    return any(value is not None and re.fullmatch(r"[1-9]\d*", value) is not None for value in (rank, start))


def _leads(leader: FoundLaunch, part: FoundLaunch) -> bool:
    texts, joining = [word.text for word in leader.words], [word.text for word in part.words]
    if joins(leader) or leader.engine != part.engine or leader.role != part.role:
        return False
    model, other = model_of(texts), model_of(joining)
    return model == other or model is None or other is None
