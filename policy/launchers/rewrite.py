"""A command with some settings changed: one form of each object, the user's spelling kept, everything else untouched.

The result is read again by the engine's own reader before it is handed out: exactly the wanted settings differ.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from policy.launchers.catalogue import choose
from policy.launchers.command import Files
from policy.launchers.found import Word
from policy.launchers.read import READERS
from policy.launchers.rewrite_objects import object_edits
from policy.launchers.rewriting import Change, Edit, applied
from policy.launchers.settings import Setting, Settings
from policy.origin import Origin
from policy.records import dataclass, field

#: A program and a model that let a switch's words be read as a command of their own.
STARTS = {"vllm": ("vllm", "serve", "m"), "sglang": ("python", "-m", "sglang.launch_server", "--model-path", "m")}
#: What those words set themselves.
_START_SETTINGS = {"model", "model_path", "model_tag"}
#: Settings that are objects: a change names one of their leaves.
OBJECTS = {"vllm": ("compilation_config",), "sglang": ()}


@dataclass(slots=True)
class Rewritten:
    """A changed command. `problem` says why it could not be written (the words are then those that were given); `release`
    is the one that it was read as: the engine's, or, where that is not in the catalogue, one beside it."""

    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    problem: str = ""
    release: str | None = None


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
            for name, setting in read_words(engine, version, [*STARTS[engine], *words]).values.items():
                if name in _START_SETTINGS:
                    continue
                leaves = setting.leaves if name in OBJECTS[engine] else {}
                changes.extend(Change(f"{name}.{leaf}", one.value, words) for leaf, one in leaves.items())
                if not leaves:
                    changes.append(Change(name, setting.value, _own(words, name, engine, version)))
    return changes


def _own(words: tuple[str, ...], name: str, engine: str, version: str | None) -> tuple[str, ...]:
    """Of the words of several options those that set one: an option up to the next."""
    starts = [index for index, word in enumerate(words) if word.startswith("-")]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        if name in read_words(engine, version, [*STARTS[engine], *words[start:end]]).values:
            return words[start:end]
    return words


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
    for release in dict.fromkeys((version, *choose(engine, version))):
        result.problem = _write(result, engine, release, words, flags, files)
        if not result.problem:
            break
    return result


def _write(result: Rewritten, engine: str, version: str | None, words: Sequence[str], flags: Sequence[Change], files: Files | None) -> str:
    """Write the changes as one release takes them; why that is not possible, or nothing."""
    before = read_words(engine, version, words, files)
    if any(error.kind == "not-an-engine-command" for error in before.errors):
        return f"`{shlex.join(words[:3])}` is no command of {engine} that can be written; {by_hand(flags)}"
    edits: list[Edit] = []
    for name in dict.fromkeys(change.path.partition(".")[0] for change in flags):
        mine = [change for change in flags if change.path.partition(".")[0] == name]
        if name in OBJECTS[engine]:
            edits.extend(object_edits(words, before.values.get(name), mine, version))
        else:
            edits.extend(edit for change in mine for edit in _plain_edits(words, before.values.get(name), change))
    made = applied(words, edits)
    problem = difference(*read_both(engine, version, (words, files), (made, files)), flags)
    if not problem:
        result.words, result.edits, result.release = made, edits, version
    return problem


def read_words(engine: str, version: str | None, words: Sequence[str], files: Files | None = None) -> Settings:
    """The words of a command as the engine reads them."""
    placed = [Word(word, Origin("argument", word, argument=number)) for number, word in enumerate(words, 1)]
    settings: Settings = import_module(READERS[engine]).read_command(placed, version, files or {})
    return settings


def read_both(engine: str, version: str | None, old: tuple[Sequence[str], Files | None], new: tuple[Sequence[str], Files | None]) -> tuple[Settings, Settings]:
    """Two commands, each with its files, read by the same release: between two releases the nearer one that knows the
    options is taken, which a further option may change."""
    before, after = (read_words(engine, version, words, files) for words, files in (old, new))
    if before.catalogue_version != after.catalogue_version:
        before, after = (read_words(engine, after.catalogue_version, words, files) for words, files in (old, new))
    return before, after


def by_hand(changes: Iterable[Change]) -> str:
    """What to do where the words cannot be written for the user."""
    texts = dict.fromkeys(change.words[0] if change.variable else shlex.join(change.words) for change in changes)
    return f"add {' and '.join(f'`{text}`' for text in texts)} by hand"


def difference(before: Settings, after: Settings, changes: Sequence[Change]) -> str:
    """Why the new command is not the old one with the changes; empty where it is."""
    for change in changes:
        setting = after.get(change.path)
        if setting is None or setting.value != change.value:
            if before.errors:
                return f"the engine refuses the command as it stands ({before.errors[0].message}), so that `{change.path}` could not be set"
            return f"`{change.path}` could not be set in this command; {by_hand([change])}"
    if len(after.errors) > len(before.errors):
        return f"the engine would refuse the changed command: {after.errors[-1].message}"
    changed = {change.path for change in changes}
    old, new = leaves(before), leaves(after)
    for path in sorted({*old, *new} - changed):
        if old.get(path) != new.get(path):
            return f"the change would also touch `{path}`; {by_hand(changes)}"
    return ""


def leaves(settings: Settings) -> dict[str, Any]:
    """Every setting by its dotted name; an empty object sets nothing."""
    return {path: value for name, setting in settings.values.items() for path, value in _flat(name, setting.value)}


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}", inner)
    else:
        yield prefix, value


def _plain_edits(words: Sequence[str], given: Setting | None, change: Change) -> list[Edit]:
    """Replace the value where the option stands, else add the option."""
    if given is not None and given.value == change.value:
        return []
    option, value = change.words[0], change.words[1:]
    index = (given.origin.argument or 0) - 1 if given is not None and given.origin.kind == "argument" else -1
    if 0 <= index < len(words) and value and words[index].startswith("-"):
        if "=" in words[index]:
            return [Edit("replace", index, (f"{words[index].partition('=')[0]}={value[0]}",))]
        if index + 1 < len(words):
            return [Edit("replace", index + 1, (value[0],))]
    if 0 <= index < len(words) and not value and given is not None and isinstance(given.value, bool) and "=" not in words[index]:
        return [Edit("replace", index, (option,))]
    return [Edit("insert", len(words) - 1, (option, *value))]
