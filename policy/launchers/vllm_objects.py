"""`--compilation-config` of vLLM: its keys by release, as the release's own classes take them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from policy.launchers.catalogue import known, read_table, since
from policy.launchers.object_types import read_value
from policy.records import dataclass, field
from policy.versions import Version, line_start

_PIECEWISE_BACKENDS = ("", "eager", "inductor")


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about one key: `path` dotted from the configuration down."""

    kind: str
    path: str
    message: str
    remedy: str = ""


@dataclass(slots=True)
class Reading:
    """The object as the engine holds it after reading. `moved` says where a key of the result comes from when the
    release renames it: new path -> the path that was given."""

    value: dict[str, Any] = field(default_factory=dict)
    errors: list[Remark] = field(default_factory=list)
    notices: list[Remark] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)


def read_object(value: dict[str, Any], version: str | None, name: str = "compilation_config") -> Reading:
    """Reads the object; every key that the release refuses, ignores or renames is remarked."""
    reading = Reading()
    _read(value, name, "", known(version), reading, reading.value)
    if not reading.errors and name == "compilation_config":
        _check_together(reading, known(version))
    return reading


def fields_of(name: str, version: str | None) -> dict[str, dict[str, Any]]:
    """The keys of an object in a release, by name, with `type` and what else is known of them."""
    return {line["name"]: line for line in _fields(name, known(version))}


def _fields(name: str, version: Version | None) -> Iterator[dict[str, Any]]:
    for line in read_table("vllm", "objects")[name]:
        if version is None and "until" in line:
            continue
        if version is None or (_reached(line.get("since"), version) and not ("until" in line and _reached(line["until"], version))):
            yield line


def _reached(start: str | None, version: Version) -> bool:
    return start is None or line_start(Version(start)) <= version


def _read(given: dict[str, Any], name: str, prefix: str, version: Version | None, reading: Reading, into: dict[str, Any]) -> None:
    lines = {line["name"]: line for line in _fields(name, version)}
    renamed: list[dict[str, Any]] = []
    for key, raw in given.items():
        path = prefix + key
        line = lines.get(key)
        if line is None:
            _unknown_key(key, path, name, version, reading)
            continue
        kind = line["type"]
        try:
            if kind.startswith("object:"):
                if not isinstance(raw, dict):
                    raise ValueError("an object is expected")
                into[key] = {}
                _read(raw, kind[7:], f"{path}.", version, reading, into[key])
            else:
                into[key] = read_value(kind, raw, line.get("choices"))
        except ValueError as error:
            reading.errors.append(Remark("invalid-value", path, f"`{path}` does not take `{_json(raw)}`: {error}"))
            continue
        if line.get("deprecated") and version is not None and _reached(line["deprecated"], version) and into[key] is not None:
            renamed.append(line)
    for line in renamed:
        _rename(line, prefix, reading, into)


def _rename(line: dict[str, Any], prefix: str, reading: Reading, into: dict[str, Any]) -> None:
    """A key on its way out: its value goes to the keys that replace it, over a value of their own."""
    path, heirs = prefix + line["name"], line.get("becomes", [])
    value = into.pop(line["name"])
    for heir in heirs:
        if line.get("unless_given") and into.get(heir) is not None:
            reading.notices.append(Remark("lost-setting", path, f"`{path}` has no effect beside `{prefix}{heir}`", f"remove `{path}`"))
            return
        if into.get(heir) is not None and into[heir] != value:
            text = f"`{prefix}{heir}` is replaced by the older key `{path}`"
            reading.notices.append(Remark("lost-setting", prefix + heir, text, f"remove `{path}`"))
        into[heir] = value
        reading.moved[prefix + heir] = path
    if heirs:
        text = f"`{path}` is deprecated; it sets {' and '.join(f'`{prefix}{heir}`' for heir in heirs)}"
        reading.notices.append(Remark("deprecated-key", path, text, f"write {' and '.join(f'`{prefix}{heir}`' for heir in heirs)}"))
    else:
        into[line["name"]] = value
        reading.notices.append(Remark("deprecated-key", path, f"`{path}` is deprecated", f"remove `{path}`"))


def _unknown_key(key: str, path: str, name: str, version: Version | None, reading: Reading) -> None:
    refused = since(read_table("vllm", "objects")["unknown_keys"], version) == "refused"
    message, remedy = explain_key(key, name, version)
    prefix = path[: len(path) - len(key)]
    text = f"`{path}` is {'refused' if refused else 'ignored without a word'}: {message}"
    remark = Remark("unknown-key" if refused else "unknown-key-ignored", path, text, f"write `{prefix}{remedy}`" if remedy else "remove it")
    (reading.errors if refused else reading.notices).append(remark)


def explain_key(key: str, name: str, version: Version | None) -> tuple[str, str]:
    """Why a release does not know a key, and the key it has instead ("" where there is none)."""
    here = {line["name"] for line in _fields(name, version)}
    lines = [line for line in read_table("vllm", "objects")[name] if line["name"] == key]
    heirs = [heir for line in lines for heir in line.get("becomes", []) if heir in here]
    elders = [line["name"] for line in read_table("vllm", "objects")[name] if key in line.get("becomes", []) and line["name"] in here]
    instead = (heirs or elders or [""])[0]
    if lines and version is not None:
        first, last = lines[0].get("since"), lines[-1].get("until")
        if first is not None and not _reached(first, version):
            return f"the key came with {first}", instead
        return f"the key was removed in {last}", instead
    if lines:
        return f"the key was removed in {lines[-1].get('until')}", instead
    from difflib import get_close_matches  # only where something is wrong

    close = get_close_matches(key.replace("-", "_"), sorted(here), 1, 0.8)
    return "there is no such key", instead or (close[0] if close else "")


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _check_together(reading: Reading, version: Version | None) -> None:
    """What the release checks once all keys are read."""
    value = reading.value

    def refuse(path: str, message: str) -> None:
        reading.errors.append(Remark("invalid-value", path, message))

    operations = value.get("custom_ops", [])
    bases = [operation for operation in operations if operation in ("all", "none")]
    strict = since(read_table("vllm", "behaviour")["custom_ops_conflict"], version)
    for operation in operations:
        if operation not in bases and (operation[:1] not in ("+", "-") or (strict and len(operation) < 2)):
            refuse("custom_ops", f"`custom_ops` does not take `{operation}`: write `all`, `none`, `+NAME` or `-NAME`")
    if len(bases) > 1:
        refuse("custom_ops", "`custom_ops` takes one of `all` and `none`, once")
    clash = {operation[1:] for operation in operations if operation[:1] == "+"} & {operation[1:] for operation in operations if operation[:1] == "-"}
    if strict and clash:
        refuse("custom_ops", f"`custom_ops` both enables and disables {', '.join(f'`{operation}`' for operation in sorted(clash))}")
    if value.get("mode") == 3 and value.get("backend", "") not in _PIECEWISE_BACKENDS:
        refuse("backend", f"`backend` does not take `{value['backend']}` with mode VLLM_COMPILE: the choices are `eager` and `inductor`")
    for key in ("encoder_cudagraph_token_budgets", "decoder_replay_cudagraph_capture_sizes"):
        if any(size <= 0 for size in value.get(key) or []):
            refuse(key, f"`{key}` takes sizes above 0 only")
    if value.get("cudagraph_mm_encoder"):
        for key in ("encoder_cudagraph_max_vision_items_per_batch", "encoder_cudagraph_max_frames_per_batch"):
            if (value.get(key) or 0) < 0:
                refuse(key, f"`{key}` takes no negative number")
