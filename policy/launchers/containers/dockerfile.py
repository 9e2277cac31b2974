"""Dockerfiles: what a container of a stage starts, with the image it is built from, its variables and what it installs."""

from __future__ import annotations

import json
import re

from policy.launchers.containers.reading.launches import environment_of, words_of
from policy.launchers.containers.reading.programs import Started, find_program, implicit
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field, Value, Variables, text_in
from policy.launchers.containers.reading.shell_run import Run
from policy.launchers.found import FoundLaunch, LaunchNotice, Word
from policy.launchers.shell_words import tokens
from policy.launchers.yaml_places import Node, Places
from policy.origin import Origin
from policy.records import dataclass, field

NAME = "Dockerfile"
LOOKS_FOR = "ENTRYPOINT and CMD that start an engine"
YAML = False

_INSTRUCTION = re.compile(r"^[ \t]*(FROM|ARG|ENV|RUN|CMD|ENTRYPOINT|COPY|ADD)[ \t]+", re.IGNORECASE)
_NAMED = re.compile(r"(?:^|/)(?:[\w.-]*[._-])?(?:Dockerfile|Containerfile)[^/]*$", re.IGNORECASE)
_HERE = re.compile(r"<<-?[\"']?(\w+)[\"']?")


@dataclass(slots=True)
class _Stage:
    """One stage. `entry` and `command` are (text of the instruction, offset of it); a stage inherits those of an earlier one."""

    image: Field
    name: str = ""
    variables: dict[str, Field] = field(default_factory=dict)
    exported: dict[str, Field] = field(default_factory=dict)
    entry: tuple[str, int] | None = None
    command: tuple[str, int] | None = None
    own: bool = False
    versions: dict[str, Field] = field(default_factory=dict)


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    if re.search(r"^[ \t]*FROM[ \t]+\S", text, re.MULTILINE | re.IGNORECASE) is None or "```" in text:
        return 0
    if _NAMED.search(name):
        return 98
    begins = next((line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    return 85 if re.match(r"\s*(?:FROM|ARG)\s", begins) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    places, stages = Places.of_text(text), list[_Stage]()
    arguments: dict[str, Field] = {}
    for instruction, body, offset in _instructions(text):
        place = (name, *places(offset))
        if instruction == "FROM":
            stages.append(_stage(body, place, stages, arguments))
        elif not stages:
            arguments.update(_assignments(body, place, arguments) if instruction == "ARG" else {})
        elif instruction in ("ARG", "ENV"):
            stage = stages[-1]
            made = _assignments(body, place, {**arguments, **stage.variables})
            stage.variables.update(made)
            if instruction == "ENV":
                stage.exported.update(made)
        elif instruction == "RUN":
            run = Run()
            run.script(body, name, places.shifted(offset), Variables({key: Value(item.text, item.place) for key, item in stages[-1].variables.items()}))
            stages[-1].versions.update(run.versions)
        elif instruction == "ENTRYPOINT":
            stages[-1].entry, stages[-1].command, stages[-1].own = (body, offset), None, True  # it also clears an inherited CMD
        elif instruction == "CMD":
            stages[-1].command, stages[-1].own = (body, offset), True
    return [launch for stage in stages if stage.own for launch in _of_stage(stage, name, places)]


def _stage(body: str, place: tuple[str, int, int], stages: list[_Stage], arguments: dict[str, Field]) -> _Stage:
    words = [word for word in body.split() if not word.startswith("--")]
    image = _filled(words[0] if words else "", arguments)
    stage = _Stage(Field(image, place), words[2] if len(words) > 2 and words[1].lower() == "as" else "")
    base = next((one for one in stages if one.name and one.name.lower() == image.lower()), None)
    if base is not None:
        stage.image, stage.entry, stage.command = base.image, base.entry, base.command
        stage.exported, stage.versions = dict(base.exported), dict(base.versions)
        stage.variables = dict(base.exported)
    return stage


def _of_stage(stage: _Stage, name: str, places: Places) -> list[FoundLaunch]:
    entry, command = _words(stage.entry, name, places), _words(stage.command, name, places)
    launches: list[FoundLaunch] = []
    shell = next((one for one in (stage.entry, stage.command) if one is not None and _listed(one[0]) is None), None)
    if shell is not None and (shell is stage.entry or not entry):  # the shell form of an entry point takes no CMD
        launches = read_script(shell[0], name, places.shifted(shell[1]), stage.exported)
    else:
        fields = entry + command
        started = find_program(fields) or (implicit(stage.image.text, fields, fields[0]) if fields and not entry else None)
        launches = _of_program(started, stage) if started is not None else []
    for launch in launches:
        launch.environment = {**environment_of(stage.exported), **launch.environment}
        launch.name = launch.name or stage.name
        if launch.image is None:
            launch.image = Word(stage.image.text, Origin("file", "image", *stage.image.place))
        pinned = stage.versions.get(launch.engine)
        if pinned is not None and launch.version is None:
            launch.version = Word(pinned.text, Origin("file", f"{launch.engine}=={pinned.text}", *pinned.place))
    return launches


def _of_program(started: Started, stage: _Stage) -> list[FoundLaunch]:
    if started.script is not None:
        return read_script(started.script.text, started.script.place[0], Places([(0, *started.script.place[1:])]), stage.exported, started.positional or None)
    return [FoundLaunch(started.engine, words_of(started.words), environment_of(started.environment))] if started.engine else []


def _words(instruction: tuple[str, int] | None, name: str, places: Places) -> list[Field]:
    """The words of the list form, each at its place; those of the shell form are one script."""
    listed = _listed(instruction[0]) if instruction is not None else None
    if instruction is None or listed is None:
        return []
    fields, at = list[Field](), 0
    for one in listed:
        written = json.dumps(one, ensure_ascii=False)
        at = max(instruction[0].find(written, at), at)
        fields.append(Field(one, (name, *places(instruction[1] + at))))
    return fields


def _listed(body: str) -> list[str] | None:
    """The list form: JSON, also over several lines that end in a backslash."""
    try:
        value = json.loads(re.sub(r"\\[ \t]*\n", "\n", body))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else None


def _assignments(body: str, place: tuple[str, int, int], known: dict[str, Field]) -> dict[str, Field]:
    """`NAME=value …` of ENV and ARG, and the old form `NAME value`."""
    made: dict[str, Field] = {}
    words = [token.word.written for token in tokens(body) if token.word is not None and token.kind == "word"]
    if words and "=" not in words[0]:
        return {words[0]: Field(_filled(" ".join(words[1:]), known), place)} if len(words) > 1 else {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            made[key] = Field(_filled(value, {**known, **made}), place)
    return made


def _filled(text: str, known: dict[str, Field]) -> str:
    return text_in(text, Variables({key: Value(item.text, item.place) for key, item in known.items()})) if "$" in text else text


def _instructions(text: str) -> list[tuple[str, str, int]]:
    """(instruction, its text as written, offset of that text), with lines that go on and here-documents."""
    found, at, lines = list[tuple[str, str, int]](), 0, text.split("\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    while at < len(lines):
        match = _INSTRUCTION.match(lines[at])
        end = at
        while end + 1 < len(lines) and (lines[end].rstrip().endswith("\\") or (end > at and lines[end].lstrip().startswith("#"))):
            end += 1
        here = _HERE.search("\n".join(lines[at : end + 1])) if match is not None and match[1].upper() in ("RUN", "COPY", "ADD") else None
        if here is not None:
            end = next((number for number in range(end + 1, len(lines)) if lines[number].strip() == here[1]), end)
        if match is not None:
            body = "\n".join(lines[at : end + 1])[match.end() :]
            if here is None:  # a comment between the lines of an instruction is no part of it
                body = re.sub(r"(?m)^[ \t]*#.*$", lambda comment: " " * (len(comment.group()) - 1) + "\\", body)
            found.append((match[1].upper(), body, offsets[at] + match.end()))
        at = end + 1
    return found
