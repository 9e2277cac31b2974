"""What vLLM does to the words of a command before argparse sees them: the model's place, `--config FILE`, underscores,
`-O`, and dotted keys that become one JSON object a spelling. The order of these steps is the engine's."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from policy.launchers.catalogue import Catalogue, known, read_table, since
from policy.launchers.command import Files
from policy.launchers.config_file import Entry, pull_config
from policy.launchers.converters import human_int
from policy.launchers.found import LaunchNotice
from policy.launchers.placed import Placed, origin_of, shown
from policy.records import dataclass, field

_LEVELS = ("0", "1", "2", "3")
_KEY = re.compile(r"(?<=--)[^.]*")


@dataclass(slots=True)
class Prepared:
    """The words as argparse gets them, without `serve`. `stopped` means that the engine ends before argparse."""

    words: list[Placed] = field(default_factory=list)
    errors: list[LaunchNotice] = field(default_factory=list)
    notices: list[LaunchNotice] = field(default_factory=list)
    dropped: list[Entry] = field(default_factory=list)  # keys of the file whose `false` the engine drops
    textual: list[Entry] = field(default_factory=list)  # mappings of the file that become Python text, which no option reads


def prepare(words: Sequence[Placed], serve: bool, catalogue: Catalogue, version: str | None, files: Files) -> Prepared:
    """The words after the engine's own preparation. `serve` tells `vllm serve` from the API server's module."""
    table, release = read_table("vllm", "behaviour"), known(version)
    prepared = Prepared(list(words))
    if serve:
        _move_model(prepared, since(table["model_option"], release), since(table["served_name_needs_model"], release))
    if any(word == "--config" for word in prepared.words):
        _pull_config(prepared, serve, catalogue, since(table["nested_config"], release), since(table["false_in_config"], release), files)
    level = since(table["level_option"], release)
    prepared.words = _levels(_dashes(prepared.words), level, since(table["dotted_level_option"], release), prepared.notices)
    prepared.words = _dotted(prepared, since(table["human_integers_in_objects"], release))
    return prepared


def _fail(prepared: Prepared, kind: str, message: str, word: Placed, remedy: str = "") -> None:
    prepared.errors.append(LaunchNotice(kind, message, origin_of(word), remedy))


def _move_model(prepared: Prepared, behaviour: str, served_name_needs_model: bool) -> None:
    """`--model NAME` after `serve` is moved to the front as the positional model."""
    words = prepared.words
    pattern = r"--model(=.+|$)" if behaviour == "moved_unless_empty" else r"--model(=|$)"
    position = next((index for index, word in enumerate(words) if re.match(pattern, word)), None)
    if position is not None and behaviour == "refused" and words[position] == "--model":
        word = words.pop(position)
        _fail(prepared, "invalid-value", "`vllm serve` of this release does not take `--model`", word, "write the model right after `serve`")
        if position < len(words):
            words.insert(0, words.pop(position))
    elif position is not None and behaviour != "refused":
        word = words.pop(position)
        if word != "--model":
            words.insert(0, word.with_text(word.removeprefix("--model=")))
        elif position < len(words):
            model = words.pop(position)
            words.insert(0, Placed(model, word.origin, f"{word.written} {model.written}", "--model"))
        else:
            _fail(prepared, "missing-value", "`--model` needs a value", word)
    named = any(re.match(r"--served[-_]model[-_]name(=.+|$)", word) for word in words)
    if served_name_needs_model and named and words[0].startswith("-") and not any(re.match(r"--config(=.+|$)", word) for word in words):
        word = next(word for word in words if word.startswith("--served"))
        _fail(prepared, "missing-model", "`--served-model-name` is given without a model", word, "write the model right after `serve`")


def _pull_config(prepared: Prepared, serve: bool, catalogue: Catalogue, nested: str, false: str, files: Files) -> None:
    """The file's keys become options in front of the command's own, so that the command's win."""
    pulled = pull_config(prepared.words, files, lambda name: name.split(".")[-1] in ("yaml", "yml"), empty=False)
    words, added = pulled.rest, list[Placed]()
    for entry in pulled.file.entries:
        try:
            made = _entry_words(entry, serve, catalogue, nested, false)
        except (TypeError, ValueError):
            text = f"`{entry.key}` cannot be turned into an option"
            remedy = "write names as keys, and words, numbers, lists or mappings as values"
            pulled.file.errors.append(LaunchNotice("config-file-invalid", text, entry.origin, remedy))
            continue
        added += made
        if isinstance(entry.value, dict) and nested == "text":
            prepared.textual.append(entry)
        if entry.value is False and not made:
            prepared.dropped.append(entry)
    front = bool(words) and pulled.index > 0 and not words[0].startswith("-")
    if serve and not front and not any(word == "--model" for word in added) and not pulled.file.errors:
        pulled.fail("missing-model", "no model is given, neither after `serve` nor in the file", "write the model right after `serve`")
    prepared.errors += pulled.file.errors
    prepared.notices += pulled.file.notices
    prepared.words = [*words[: int(front)], *added, *words[int(front) :]]


def _entry_words(entry: Entry, serve: bool, catalogue: Catalogue, nested: str, false: str) -> list[Placed]:
    """One key of the file as the words that the engine makes of it."""
    if not isinstance(entry.key, str):
        raise TypeError
    flag = entry.word("--" + entry.key)
    if isinstance(entry.value, bool):
        negative = entry.word("--no-" + entry.key)
        # under `serve` the parser that reads the file is the one above it, which knows no `--no-…`
        return [flag] if entry.value else [negative] if false == "negated" and not serve and negative in catalogue.by_flag else []
    if isinstance(entry.value, list):
        return [flag, *(entry.word(str(item)) for item in entry.value)] if entry.value else []
    if isinstance(entry.value, dict) and nested == "json":
        return [flag, entry.word(json.dumps(entry.value), leaves=True)]
    return [flag, entry.word(str(entry.value))]


def _dashes(words: Sequence[Placed]) -> list[Placed]:
    """Underscores are dashes in names, up to the first dot and the equals sign."""
    made = []
    for word in words:
        if word.startswith("--help="):
            word = word.with_text("--help")
        elif word.startswith("--"):
            key, equals, value = word.partition("=")
            word = word.with_text(_KEY.sub(lambda match: match.group(0).replace("_", "-"), key, count=1) + equals + value)
        made.append(word)
    return made


def _levels(words: Sequence[Placed], level: str, dotted: str, notices: list[LaunchNotice]) -> list[Placed]:
    """The forms of `-O`."""
    made: list[Placed] = []
    for index, word in enumerate(words):
        if word == "-O" and index + 1 < len(words) and words[index + 1] in _LEVELS:
            made.append(word.with_text("--optimization-level" if level == "optimization_level" else f"-O.{level}"))
        elif not word.startswith("-O") or word == "-O":
            made.append(word)
        elif word[2] == "." and dotted != "level":
            if dotted == "deprecated":
                remedy = f"write `{shown(f'-cc{word.written[2:]}')}`"
                notices.append(LaunchNotice("deprecated-flag", "the form `-O.KEY` is deprecated", origin_of(word), remedy))
                made.append(word.with_text("-cc" + word[2:]))
            else:
                made.append(word)
        else:
            value = word[3:] if word[2] == "=" else word[2:]
            word = Placed(word, word.origin, word.written, "-O")
            if level == "optimization_level":
                made += [word.with_text("--optimization-level"), word.with_text(value)]
            else:
                made.append(word.with_text(f"-O.{level}={value}"))
    return made


def _dotted(prepared: Prepared, human: bool) -> list[Placed]:
    """`--key.a.b V` and `--key.a.b=V` are collected for each spelling of `--key` and put at the end as one JSON object."""
    kept: list[Placed] = []
    objects: dict[str, dict[str, Any]] = {}
    places: dict[str, dict[tuple[str, ...], Placed]] = {}
    words = iter(prepared.words)
    for word in words:
        key, equals, text = word.partition("=")
        if not word.startswith("-") or "." not in key:
            kept.append(word)
            continue
        if not equals:
            value = next(words, None)
            if value is None:
                _fail(prepared, "missing-value", f"`{word.written}` needs a value", word)
                continue
            text = str(value)
            word = Placed(word, word.origin, f"{word.written} {value.written}", word.spelling)
        if key.endswith("+"):
            key, text = key[:-1], json.dumps(text.split(","))
        name, *path = key.split(".")
        update = _dotted_value(text, human)
        for step in reversed(path):
            update = {step: update}
        _merge(objects.setdefault(name, {}), update, word, places.setdefault(name, {}), prepared.notices)
    for name, merged in objects.items():
        first = next(iter(places[name].values()))
        written = " ".join(dict.fromkeys(word.written for word in places[name].values()))
        spelling = first.spelling.split(".", 1)[0]
        kept.append(Placed(name, first.origin, written, spelling))
        kept.append(Placed(json.dumps(merged), first.origin, written, spelling, places[name]))
    return kept


def _dotted_value(text: str, human: bool) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        try:
            return human_int(text) if human else text
        except ValueError:
            return text


_Places = dict[tuple[str, ...], Placed]  # path -> the word that set it


def _merge(target: dict[str, Any], update: dict[str, Any], word: Placed, leaves: _Places, notices: list[LaunchNotice], prefix: tuple[str, ...] = ()) -> None:
    """Dictionaries merge, lists join, anything else replaces what stood there."""
    for key, value in update.items():
        path, there = (*prefix, key), target.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            _merge(there, value, word, leaves, notices, path)
            continue
        if isinstance(value, list) and isinstance(there, list):
            value = there + value
        elif key in target and there != value and (earlier := _setter(leaves, path)) is not None:
            text = f"`{shown(earlier.written)}` is replaced by `{shown(word.written)}`"
            notices.append(LaunchNotice("duplicate-setting", text, origin_of(earlier), "keep one of them: the last one counts"))
        target[key] = value
        leaves[path] = word


def _setter(leaves: _Places, path: tuple[str, ...]) -> Placed | None:
    return leaves.get(path) or next((word for other, word in leaves.items() if other[: len(path)] == path), None)
