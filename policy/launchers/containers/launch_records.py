"""Launch records: one JSON object a line (or one object, or a list of them) with `argv`, `command`, `cmd` or `commands`,
and the environment beside it."""

from __future__ import annotations

import json
import re
from typing import Any

from policy.launchers.containers.reading.launches import environment_of, merge_parts, role_of_words, words_of
from policy.launchers.containers.reading.programs import find_program
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Word
from policy.launchers.shell_words import tokens
from policy.launchers.yaml_places import Node, Places
from policy.origin import Origin

NAME = "launch records"
LOOKS_FOR = "JSON objects with argv, command or commands"
YAML = False
_COMMANDS = ("argv", "command", "cmd", "commands", "args", "cmdline")
_ENVIRONMENTS = ("environment", "env")
_NAMES = ("id", "name", "job", "host")


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    start = text.lstrip()[:1]
    if start not in {"{", "["}:
        return 0
    records = _records(text[:1_000_000], [], name, first_only=True)
    return 98 if any(_is_record(record) for record, _ in records) else 0


def _is_record(record: Any) -> bool:
    if not isinstance(record, dict) or "apiVersion" in record:
        return False
    return any(isinstance(record.get(key), (str, list)) for key in _COMMANDS)


def _records(text: str, problems: list[LaunchNotice], name: str, first_only: bool = False) -> list[tuple[Any, int]]:
    """(object, line) for every record; a line that is no JSON is a problem."""
    result: list[tuple[Any, int]] = []
    if not first_only or text.count("\n") < 2000:
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return [(one, 1) for one in whole] if isinstance(whole, list) else [(whole, 1)]
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            result.append((json.loads(line), number))
        except (ValueError, RecursionError) as error:
            column = getattr(error, "colno", 1)
            problems.append(LaunchNotice("unparsable-json", "not a JSON object", Origin("file", file=name, line=number, column=column)))
        if first_only and result:
            break
    return result


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for record, line in _records(text, problems, name):
        if _is_record(record):
            launches += _of_record(record, name, line)
        else:
            problems.append(LaunchNotice("no-launch", "a record without argv or command", Origin("file", file=name, line=line, column=1)))
    return launches


def _of_record(record: dict[str, Any], name: str, line: int) -> list[FoundLaunch]:
    place = (name, line, 1)
    environment = _environment(next((record[key] for key in _ENVIRONMENTS if key in record), None), place)
    given = next(record[key] for key in _COMMANDS if isinstance(record.get(key), (str, list)))
    found: list[FoundLaunch] = []
    if isinstance(given, list) and _is_argv(given, place):
        found = _of_words([Field(str(one), place) for one in given], environment)
    else:
        for command in [given] if isinstance(given, str) else given:
            if isinstance(command, list):
                found += _of_words([Field(str(one), place) for one in command], environment)
            elif isinstance(command, str):
                found += read_script(command, name, _one_line(line), environment)
    label = next((str(record[key]) for key in _NAMES if isinstance(record.get(key), (str, int))), "")
    for launch in found:
        launch.environment = {**environment_of(environment), **launch.environment}
        launch.name = launch.name or label
        for key, attribute in (("image", "image"), ("version", "version")):
            if isinstance(record.get(key), str) and getattr(launch, attribute) is None:
                setattr(launch, attribute, Word(record[key], Origin("file", key, *place)))
    return merge_parts(found)


def _is_argv(given: list[Any], place: tuple[str, int, int]) -> bool:
    """Whether a list is one command word by word, not several commands."""
    if not given or not all(isinstance(one, (str, int, float)) for one in given):
        return False
    return " " not in str(given[0]) or find_program(_fields(str(given[0]), place)) is None


def _of_words(fields: list[Field], environment: dict[str, Field]) -> list[FoundLaunch]:
    started = find_program(fields)
    if started is None:
        return []
    if started.script is not None:
        return read_script(started.script.text, started.script.place[0], _one_line(started.script.place[1]), environment, started.positional or None)
    if not started.engine:
        return []
    launch = FoundLaunch(started.engine, words_of(started.words), environment_of(started.environment))
    launch.role = role_of_words([word.text for word in launch.words])
    if started.image is not None:
        launch.image = Word(started.image.text, Origin("file", "image", *started.image.place))
    return [launch]


def _fields(text: str, place: tuple[str, int, int]) -> list[Field]:
    return [Field(token.word.written, place) for token in tokens(text) if token.kind == "word" and token.word is not None]


def _environment(given: Any, place: tuple[str, int, int]) -> dict[str, Field]:
    """A mapping, or assignments as a list of `NAME=value` words; of a longer line only the assignments before its command."""
    if isinstance(given, dict):
        return {str(key): Field(str(value), place) for key, value in given.items() if isinstance(value, (str, int, float))}
    result: dict[str, Field] = {}
    for entry in given if isinstance(given, list) else []:
        for token in tokens(str(entry)) if isinstance(entry, str) else []:
            match = re.match(r"([A-Za-z_]\w*)=(.*)", token.word.written, re.DOTALL) if token.word is not None and token.kind == "word" else None
            if match is None or token.word is None or token.word.elements is not None:
                break
            result[match.group(1)] = Field(match.group(2), place)
    return result


def _one_line(line: int) -> Places:
    """A command inside a record has the record's line; its columns count inside the command."""
    return Places([(0, line, 1)])
