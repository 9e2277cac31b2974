"""The command line of vLLM as a release of vLLM reads it: `vllm serve …` and `python -m vllm.entrypoints.openai.api_server …`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from policy.launchers.catalogue import Catalogue, catalogue_versions, known, read_table, since
from policy.launchers.command import Files, Occurrence, Parsed, fill, in_order, parse
from policy.launchers.config_file import Entry, as_yaml
from policy.launchers.converters import CONVERTERS, expand_integers, json_object
from policy.launchers.found import LaunchNotice, Word
from policy.launchers.lost_settings import lost_settings
from policy.launchers.object_types import integer
from policy.launchers.placed import Placed, origin_of, place, shown
from policy.launchers.settings import Setting, Settings, flat
from policy.launchers.unknown_flags import explain_unknown
from policy.launchers.versions_note import best_of
from policy.launchers.vllm_objects import Remark, explain_key, fields_of, read_object
from policy.launchers.vllm_words import Prepared, prepare
from policy.origin import Origin
from policy.records import replace

ENGINE = "vllm"
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_OBJECT = "compilation_config"


def read_command(words: Sequence[Word], version: str | None = None, files: Files = {}) -> Settings:  # noqa: B006 never written to
    """Reads one command. `words` begins with the program; `version` is vLLM's (None: the newest release that is known is
    assumed and that is said); `files` gives the text of a `--config FILE`. Nothing is raised for bad input: what vLLM
    refuses is in `errors`, what it loses in `notices`."""
    return best_of(ENGINE, version, lambda catalogue: _read(place(words), version, catalogue, files))


def entry_point(words: Sequence[Word]) -> tuple[str | None, int]:
    """Which of vLLM's entry points a command starts (`serve`, `api_server`, or None) and the index of the word after it."""
    for index, word in enumerate(words):
        text, after = word.text, words[index + 1].text if index + 1 < len(words) else ""
        if text.rsplit("/", 1)[-1] == "vllm" or (text == "-m" and after in ("vllm", "vllm.entrypoints.cli.main")):
            start = index + (2 if text == "-m" else 1)
            return ("serve", start + 1) if start < len(words) and words[start].text == "serve" else (None, start)
        if text == "-m" and after in _MODULES:
            return "api_server", index + 2
        if re.search(r"(^|/)vllm/entrypoints/(openai/)?api_server\.py$", text):
            return "api_server", index + 1
    return None, 0


def _read(words: list[Placed], version: str | None, catalogue: Catalogue, files: Files) -> Settings:
    settings = Settings(ENGINE, version, catalogue.version)
    entry, start = entry_point([Word(str(word), word.origin) for word in words])
    if entry is None:
        settings.errors.append(_no_entry(words))
        return settings
    prepared = prepare(words[start:], entry == "serve", catalogue, version, files)
    release = known(version)
    expand = since(read_table(ENGINE, "behaviour")["human_integers_in_objects"], release)
    converters = {**CONVERTERS, "object": lambda text: json_object(expand_integers(text) if expand else text)}
    parsed = parse(catalogue, prepared.words, "model_tag", converters, since(read_table(ENGINE, "behaviour")["null_among_choices"], release))
    _read_objects(parsed, version)
    unknown = [_unknown(catalogue, version, word, after) for word, after in parsed.unknown]
    settings.errors = in_order([*prepared.errors, *(_textual(notice, prepared) for notice in parsed.errors), *unknown])
    settings.notices = [*prepared.notices, *lost_settings(parsed.occurrences), *_deprecated(parsed), *_ignored_config(parsed)]
    fill(settings, parsed)
    _model(settings, parsed, entry)
    _level(settings, version)
    settings.notices += _dropped(prepared, settings, catalogue, entry)
    return settings


def _no_entry(words: Sequence[Placed]) -> LaunchNotice:
    origin = words[0].origin if words else Origin("unknown")
    return LaunchNotice("not-an-engine-command", "the command does not start vLLM's server", origin, "begin it with `vllm serve`")


def _model(settings: Settings, parsed: Parsed, entry: str) -> None:
    """The positional model wins over `--model` under `vllm serve`; the API server's module never looks at it."""
    word = parsed.positional
    if word is None:
        return
    if entry == "api_server" and not parsed.unknown:  # else the word may be the value of an unknown option
        text = f"the model `{word}` is ignored: this module takes the model from `--model` alone, and serves a default without it"
        settings.notices.append(LaunchNotice("lost-setting", text, origin_of(word), f"write `--model {word}`, or start it with `vllm serve`"))
    if entry == "serve" or "model" not in settings.values:
        settings.values["model"] = Setting(str(word), origin_of(word), word.spelling if word.spelling == "--model" else "")


def _level(settings: Settings, version: str | None) -> None:
    """`--optimization-level` is a word for the parser and an integer for the engine."""
    given = settings.values.get("optimization_level")
    if given is None:
        return
    levels = read_table(ENGINE, "behaviour")["levels"]
    try:
        level = integer(given.value)
        if level not in levels:
            raise ValueError
        settings.values["optimization_level"] = replace(given, value=level)
    except ValueError:
        del settings.values["optimization_level"]
        remedy = ""
        if str(given.value).startswith("."):
            remedy = f"write `{since(read_table(ENGINE, 'behaviour')['short_compilation_config'], known(version))}{given.value}`"
        text = f"`{given.spelling}` does not take `{shown(str(given.value))}`: the levels are {', '.join(str(one) for one in levels)}"
        settings.errors.append(LaunchNotice("invalid-value", text, given.origin, remedy))


def _read_objects(parsed: Parsed, version: str | None) -> None:
    """Reads every `--compilation-config` as the release's classes do; each one counts, also one that is replaced later."""
    kept: list[Occurrence] = []
    for occurrence in parsed.occurrences:
        if occurrence.option.dest != _OBJECT:
            kept.append(occurrence)
            continue
        given = occurrence.setting
        reading = read_object(given.value, version)
        for remark in reading.errors:
            parsed.errors.append(_notice(remark, given))
        parsed.remarks += [(occurrence, _notice(remark, given)) for remark in reading.notices]
        if not reading.errors:
            leaves = {".".join(path): _leaf(".".join(path), value, given, reading.moved) for path, value in flat(reading.value) if path}
            occurrence.setting = Setting(reading.value, given.origin, given.spelling, leaves)
            kept.append(occurrence)
    parsed.occurrences = kept


def _leaf(path: str, value: Any, given: Setting, moved: dict[str, str]) -> Setting:
    source = given.leaves.get(moved.get(path, path))
    return Setting(value, source.origin if source else given.origin, source.spelling if source else given.spelling)


def _notice(remark: Remark, given: Setting) -> LaunchNotice:
    leaf = given.leaves.get(remark.path) or next((inner for path, inner in given.leaves.items() if path.startswith(f"{remark.path}.")), None)
    return LaunchNotice(remark.kind, remark.message, leaf.origin if leaf else given.origin, remark.remedy)


def _textual(notice: LaunchNotice, prepared: Prepared) -> LaunchNotice:
    """Older releases make Python text, not JSON, of a mapping in the file."""
    entry = next((entry for entry in prepared.textual if (entry.origin.file, entry.origin.line) == (notice.origin.file, notice.origin.line)), None)
    if entry is None:
        return notice
    text = f"`{entry.key}` is a mapping, which this release cannot read from a file"
    return replace(notice, message=text, remedy=f"write it as JSON in quotes: `{entry.key}: '{as_yaml(entry.value)}'`")


def _deprecated(parsed: Parsed) -> list[LaunchNotice]:
    """Options on their way out, and what was remarked about the keys of the object that counts."""
    notices = []
    for occurrence in parsed.occurrences:
        if occurrence.option.instead is not None:
            text = f"`{occurrence.setting.spelling}` is deprecated"
            remedy = f"write `{occurrence.option.instead}`" if occurrence.option.instead else "remove it"
            notices.append(LaunchNotice("deprecated-flag", text, occurrence.setting.origin, remedy))
    last = {occurrence.option.dest: occurrence for occurrence in parsed.occurrences}
    return notices + [notice for occurrence, notice in parsed.remarks if last.get(_OBJECT) is occurrence]


def _ignored_config(parsed: Parsed) -> list[LaunchNotice]:
    """`--config=FILE`: argparse takes it, and nothing ever reads it."""
    return [
        LaunchNotice(
            "config-file-ignored",
            f"`{shown(occurrence.setting.origin.detail)}` is never read: the engine looks for the word `--config` alone",
            occurrence.setting.origin,
            f"separate the name: `--config {occurrence.text}`",
        )
        for occurrence in parsed.occurrences
        if occurrence.option.dest == "config"
    ]


def _dropped(prepared: Prepared, settings: Settings, catalogue: Catalogue, entry: str) -> list[LaunchNotice]:
    """`KEY: false` in the file sets nothing, unless the default or the command says the same."""
    notices = []
    for key in prepared.dropped:
        notice = _dropped_key(key, settings, catalogue, entry)
        if notice is not None:
            notices.append(notice)
    return notices


def _dropped_key(key: Entry, settings: Settings, catalogue: Catalogue, entry: str) -> LaunchNotice | None:
    name, dot, _ = str(key.key).partition(".")
    flag = "--" + name.replace("_", "-")
    option = catalogue.by_flag.get(flag)
    text = f"`{key.key}: false` is dropped: {'`vllm serve`' if entry == 'serve' else 'the engine'} makes no option of it"
    origin = replace(key.origin, detail=f"{key.key}: false")
    if option is not None and dot:
        return LaunchNotice("false-dropped", text, origin, f"write the word in quotes: `{key.key}: 'false'`")
    if option is None:
        unknown = explain_unknown(catalogue, key.word(flag), ())
        return LaunchNotice("false-dropped", f"{text}; {unknown.message}", origin, unknown.remedy)
    meant = flag in option.negative  # `no-x: false` asks for x
    if option.dest in settings.values or (option.action in ("boolean", "true") and option.default is meant):
        return None
    if option.action != "boolean":
        return LaunchNotice("false-dropped", text, origin, f"remove it: `{flag}` takes no `false`")
    right = option.flags[0] if meant else next((negative for negative in option.negative if negative.startswith("--no-")), option.negative[0])
    return LaunchNotice("false-dropped", text, origin, f"write `{right[2:]}: true`")


def _unknown(catalogue: Catalogue, version: str | None, word: Placed, after: Sequence[Placed]) -> LaunchNotice:
    """A word that no option takes. Keys of `--compilation-config` are often taken for options of their own."""
    notice = explain_unknown(catalogue, word, after)
    short = since(read_table(ENGINE, "behaviour")["short_compilation_config"], known(version))
    flag, _, glued = str(word).partition("=")
    if flag in ("-O", "-cc", "--cc") and notice.kind != "unexpected-word":
        value = f" '{shown(after[0])}'" if after else ""
        if word.origin.kind == "file":
            return replace(notice, kind="unknown-flag", remedy="write `compilation-config`")
        return replace(notice, kind="unknown-flag", remedy=f"write `{short}{value}` or `--compilation-config{value}`")
    name = flag.lstrip("-").replace("-", "_").removeprefix("no_")
    if word.startswith("--") and (path := _key_path(name, version)) is not None:
        value = "false" if flag.startswith("--no-") else glued or (str(after[0]) if after else "true")
        text = f"{notice.message.partition(';')[0]}; no release has such an option, it is a key of `--compilation-config`"
        return LaunchNotice("unknown-flag", text, notice.origin, f"write `{short}.{path}={value}`")
    return notice


def _key_path(name: str, version: str | None) -> str | None:
    """The dotted path of a key of `--compilation-config` under the name that the release has for it."""
    for holder, prefix in (("pass_config", "pass_config."), (_OBJECT, "")):
        if name in fields_of(holder, version):
            return prefix + name
        if any(line["name"] == name for line in read_table(ENGINE, "objects")[holder]):
            instead = explain_key(name, holder, known(version))[1]
            return prefix + instead if instead else None
    return None


def pass_config(settings: Settings, platform: str = "cuda") -> dict[str, Any]:
    """`pass_config` as the release holds it after start on a platform (`cuda`, `rocm`, `xpu`, `cpu`): every key of the
    release with its default; a fusion that the platform does not have is off however it was asked for."""
    version = settings.version if known(settings.version) is not None else catalogue_versions(ENGINE)[-1]
    given = settings.values[_OBJECT].value.get("pass_config", {}) if _OBJECT in settings.values else {}
    result = {}
    for name, line in fields_of("pass_config", version).items():
        value = given.get(name, line.get("default", False if line["type"] == "bool" else None))
        result[name] = False if value and platform not in line.get("platforms", (platform,)) else value
    return result
