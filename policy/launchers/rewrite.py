"""A command with some settings changed: one form of each object, the user's spelling kept, everything else untouched.

The result is read again by the engine's own reader before it is handed out: exactly the wanted settings differ.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from policy.launchers.command import Files
from policy.launchers.found import Word
from policy.launchers.read import READERS
from policy.launchers.settings import Setting, Settings
from policy.origin import Origin

#: A program and a model that let a switch's words be read as a command of their own.
STARTS = {"vllm": ("vllm", "serve", "m"), "sglang": ("python", "-m", "sglang.launch_server", "--model-path", "m")}
#: Settings that are objects, with the options that set them, in dashes.
OBJECTS = {"vllm": {"compilation_config": ("--compilation-config", "-cc", "-O")}, "sglang": {}}


@dataclass(frozen=True, slots=True)
class Change:
    """One setting or environment variable to change. `words` say it from nothing; `path` is the setting's dotted name."""

    path: str
    value: Any
    words: tuple[str, ...] = ()
    variable: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """What is done to one word of the command, by its index: `replace` it, `remove` it, or `insert` words after it."""

    kind: str
    index: int
    words: tuple[str, ...] = ()


@dataclass(slots=True)
class Rewritten:
    """A changed command. `problem` says why it could not be written (the words are then those that were given)."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    problem: str = ""


def changes_of(engine: str, version: str | None, switches: Iterable[tuple[str, str]]) -> list[Change]:
    """Switches (kind, text) as changes: flags are read by the engine's own reader, variables are `NAME=VALUE`."""
    changes: list[Change] = []
    for kind, text in switches:
        if kind == "env":
            for part in shlex.split(text):
                name, _, value = part.partition("=")
                changes.append(Change(name, value, (part,), True))
        elif engine in READERS:
            words = tuple(shlex.split(text))
            settings = _read(engine, version, [*STARTS[engine], *words])
            start = {"model", "model_path", "model_tag"}
            for name, setting in settings.values.items():
                if name in start:
                    continue
                leaves = setting.leaves if name in OBJECTS[engine] else {}
                changes.extend(Change(f"{name}.{leaf}", one.value, words) for leaf, one in leaves.items())
                if not leaves:
                    changes.append(Change(name, setting.value, words))
    return changes


def rewritten(engine: str, version: str | None, words: Sequence[str], changes: Sequence[Change], files: Files | None = None) -> Rewritten:
    """The command with every change made. `words` begin with the engine's program."""
    result = Rewritten(list(words))
    for change in changes:
        if change.variable:
            result.environment[change.path] = str(change.value)
    flags = [change for change in changes if not change.variable]
    if not flags:
        return result
    if engine not in READERS:
        result.problem = f"the command line of {engine} cannot be written"
        return result
    before = _read(engine, version, words, files)
    edits: list[Edit] = []
    for name in dict.fromkeys(change.path.partition(".")[0] for change in flags):
        mine = [change for change in flags if change.path.partition(".")[0] == name]
        if name in OBJECTS[engine]:
            edits.extend(_object_edits(words, OBJECTS[engine][name], before.values.get(name), mine))
        else:
            edits.extend(edit for change in mine for edit in _plain_edits(words, before.values.get(name), change))
    made = applied(words, edits)
    problem = _wrong(before, _read(engine, version, made, files), flags)
    if problem:
        result.problem = problem
        return result
    result.words, result.edits = made, edits
    return result


def applied(words: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """The words after the edits; indices are those of the given words."""
    made: list[str] = []
    replaced = {edit.index: edit.words for edit in edits if edit.kind == "replace"}
    removed = {edit.index for edit in edits if edit.kind == "remove"}
    for index, word in enumerate(words):
        if index in replaced:
            made.extend(replaced[index])
        elif index not in removed:
            made.append(word)
        for edit in edits:
            if edit.kind == "insert" and edit.index == index:
                made.extend(edit.words)
    return made


def _read(engine: str, version: str | None, words: Sequence[str], files: Files | None = None) -> Settings:
    placed = [Word(word, Origin("argument", word, argument=number)) for number, word in enumerate(words, 1)]
    settings: Settings = import_module(READERS[engine]).read_command(placed, version, files or {})
    return settings


def _wrong(before: Settings, after: Settings, changes: Sequence[Change]) -> str:
    """Why the new command is not the old one with the changes; empty where it is."""
    for change in changes:
        setting = after.get(change.path)
        if setting is None or setting.value != change.value:
            return f"`{change.path}` could not be set in this command; add `{shlex.join(change.words)}` by hand"
    if len(after.errors) > len(before.errors):
        return f"the engine would refuse the changed command: {after.errors[-1].message}"
    changed = {change.path for change in changes}
    old, new = _leaves(before), _leaves(after)
    for path in sorted({*old, *new} - changed):
        if old.get(path) != new.get(path) and not any(path.startswith(f"{one}.") or one.startswith(f"{path}.") for one in changed):
            return f"the change would also touch `{path}`; add `{' '.join(shlex.join(change.words) for change in changes)}` by hand"
    return ""


def _leaves(settings: Settings) -> dict[str, Any]:
    return {path: value for name, setting in settings.values.items() for path, value in _flat(name, setting.value)}


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}", inner)
    else:
        yield prefix, value


# --- plain settings ---


def _plain_edits(words: Sequence[str], given: Setting | None, change: Change) -> list[Edit]:
    """Replace the value where the option stands, else add the option."""
    if given is not None and given.value == change.value:
        return []
    option, value = change.words[0], change.words[1:]
    index = (given.origin.argument or 0) - 1 if given is not None and given.origin.kind == "argument" else -1
    if 0 <= index < len(words) and value:
        if "=" in words[index]:
            return [Edit("replace", index, (f"{words[index].partition('=')[0]}={value[0]}",))]
        if index + 1 < len(words):
            return [Edit("replace", index + 1, (value[0],))]
    return [Edit("insert", len(words) - 1, (option, *value))]


# --- objects ---


@dataclass(frozen=True, slots=True)
class _Form:
    """One place where an object is set: as JSON, or one dotted leaf. `end` is the index of its last word."""

    start: int
    end: int
    spelling: str
    leaf: str | None
    text: str
    joined: bool


def _forms(words: Sequence[str], options: Sequence[str]) -> list[_Form]:
    forms = []
    for index, word in enumerate(words):
        head, equals, tail = word.partition("=")
        base, dot, leaf = head.partition(".")
        dashed = base.replace("_", "-") if base.startswith("--") else base
        if dashed not in options or (dashed == "-O" and not dot and not (tail or (words[index + 1 : index + 2] or [""])[0]).lstrip().startswith("{")):
            continue
        joined = bool(equals)
        if not joined and index + 1 >= len(words):
            continue
        forms.append(_Form(index, index if joined else index + 1, base, leaf if dot else None, tail if joined else words[index + 1], joined))
    return forms


def _object_edits(words: Sequence[str], options: Sequence[str], given: Setting | None, changes: Sequence[Change]) -> list[Edit]:
    """Merge the changes into the one form the user has, or make one."""
    leaves = {change.path.partition(".")[2]: change for change in changes}
    forms = _forms(words, options)
    if not forms:
        if given is not None and given.origin.kind == "file" and isinstance(given.value, dict):
            # an option of the command would replace the file's object as a whole, so that it has to hold all of it
            return [Edit("insert", len(words) - 1, ("--compilation-config", _json(given.value, leaves)))]
        return [Edit("insert", len(words) - 1, tuple(word for change in changes for word in change.words))]
    whole = [form for form in forms if form.leaf is None]
    dotted = [form for form in forms if form.leaf is not None]
    if whole and not dotted and len(whole) == 1:
        form = whole[0]
        try:
            held = json.loads(form.text)
        except ValueError:
            return []
        return [_put(form, _json(held, leaves))]
    if dotted and not whole and len({form.spelling for form in dotted}) == 1:
        edits = [Edit("replace", form.end, (f"{words[form.start].partition('=')[0]}={_word(leaves[form.leaf].value)}" if form.joined else _word(leaves[form.leaf].value),)) for form in dotted if form.leaf in leaves]
        new = [path for path in leaves if path not in {form.leaf for form in dotted}]
        last = dotted[-1]
        if new:
            edits.append(Edit("insert", last.end, tuple(f"{last.spelling}.{path}={_word(leaves[path].value)}" for path in new)))
        return edits
    # several forms: the engine keeps the last and forgets the rest, so that one form with what counts takes their place
    kept = forms[-1]
    effective = given.value if given is not None and isinstance(given.value, dict) else {}
    spelling = kept.spelling if kept.spelling != "-O" else "--compilation-config"
    edits = [Edit("remove", index) for form in forms if form is not kept for index in range(form.start, form.end + 1)]
    text = _json(effective, leaves)
    if kept.joined:
        return [*edits, Edit("replace", kept.start, (f"{spelling}={text}",))]
    return [*edits, Edit("replace", kept.start, (spelling,)), Edit("replace", kept.end, (text,))]


def _put(form: _Form, text: str) -> Edit:
    return Edit("replace", form.end, (f"{form.spelling}={text}" if form.joined else text,))


def _json(held: dict[str, Any], leaves: dict[str, Change]) -> str:
    merged = json.loads(json.dumps(held))
    for path, change in leaves.items():
        *folders, last = path.split(".")
        inside = merged
        for folder in folders:
            if not isinstance(inside.get(folder), dict):
                inside[folder] = {}
            inside = inside[folder]
        inside[last] = change.value
    return json.dumps(merged)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else json.dumps(value)
