"""systemd service units, and Podman's container units: what `ExecStart` (`Exec` in an image) starts."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import environment_of, merge_parts, words_of
from policy.launchers.containers.reading.programs import implicit
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Word
from policy.launchers.shell_words import tokens
from policy.launchers.yaml_places import Node, Places
from policy.origin import Origin

NAME = "systemd unit"
LOOKS_FOR = "ExecStart, or Exec of a container, that starts an engine"
YAML = False

_SECTION = re.compile(r"^\[(Unit|Service|Container|Install)\][ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]*(?P<key>\w+)[ \t]*=[ \t]*(?P<value>(?:[^\n]*\\\n(?:[ \t]*[#;][^\n]*\n)*)*[^\n]*)", re.MULTILINE)
_SPECIAL = re.compile(r"^[-@:+!|]+")


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    sections = {match[1] for match in _SECTION.finditer(text)}
    return 95 if sections & {"Service", "Container"} and re.search(r"^[ \t]*Exec(?:Start)?[ \t]*=", text, re.MULTILINE) and "```" not in text else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    places = Places.of_text(text)
    environment: dict[str, Field] = {}
    commands: list[tuple[str, str, int]] = []
    image: Field | None = None
    for match in _ENTRY.finditer(text):
        key, value, offset = match["key"], match["value"], match.start("value")
        place = (name, *places(offset))
        if key == "Environment":
            environment.update(_assignments(value, place))
        elif key == "Image":
            image = Field(value.strip(), place)
        elif key in ("ExecStart", "Exec") and value.strip():
            commands.append((key, value, offset))
    launches: list[FoundLaunch] = []
    for key, value, offset in commands:
        special = _SPECIAL.match(value) if key == "ExecStart" else None
        command = " " * special.end() + value[special.end() :] if special is not None else value
        found = read_script(command, name, places.shifted(offset), environment)
        if not found and key == "Exec" and image is not None:
            found = _in_image(command, name, places.shifted(offset), image)
        for launch in found:
            launch.environment = {**environment_of(environment), **launch.environment}
            if launch.image is None and image is not None:
                launch.image = Word(image.text, Origin("file", "Image", *image.place))
        launches += found
    return merge_parts(launches)


def _in_image(command: str, name: str, places: Places, image: Field) -> list[FoundLaunch]:
    """Arguments for the server that the image starts by itself."""
    words = [token.word for token in tokens(command) if token.word is not None and token.kind == "word"]
    fields = [Field(word.written, (name, *places(word.offset))) for word in words]
    started = implicit(image.text, fields, fields[0]) if fields else None
    return [] if started is None else [FoundLaunch(started.engine, words_of(started.words))]


def _assignments(text: str, place: tuple[str, int, int]) -> dict[str, Field]:
    """`NAME=value "OTHER=value with blanks"`."""
    words = [token.word.written for token in tokens(text) if token.word is not None and token.kind == "word"]
    return {key: Field(value, place) for key, equals, value in (word.partition("=") for word in words) if equals}
