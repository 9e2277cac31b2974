"""Edits of a launch's environment where its file states it: a value replaced, an entry beside the others, `env` of the
container, or an `export` above a shell command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from policy.launchers.found import FoundLaunch
from policy.launchers.patching.nodes import add_items, add_keys, mappings_in, set_scalar
from policy.launchers.patching.text import Edits, PatchProblem
from policy.launchers.patching.words import Token, token_of
from policy.launchers.yaml_places import Node

#: Keys that make a mapping a container, and the key of its variables.
_CONTAINER = ({"args", "command", "entrypoint"}, {"image", "name", "resources", "build", "volumeMounts", "workingDir", "ports"})


def variable_texts(text: str, documents: Sequence[Node], found: FoundLaunch, variables: Mapping[str, str]) -> Iterator[str]:
    """The text with the variables, in each place that fits."""
    changed = {name: value for name, value in variables.items() if name in found.environment}
    new = {name: value for name, value in variables.items() if name not in found.environment}
    for write in (_beside, _in_container, _before_command):
        edits = Edits(text)
        try:
            for name, value in changed.items():
                _replace(edits, documents, found, name, value)
            if new:
                write(edits, documents, found, new)
        except PatchProblem:
            continue
        yield edits.text()
        if not new:
            return


def _replace(edits: Edits, documents: Sequence[Node], found: FoundLaunch, name: str, value: str) -> None:
    held = found.environment[name]
    place = (held.origin.line, held.origin.column)
    for document in documents:
        for _, node in document.walk():
            if node.kind == "scalar" and (node.line, node.column) == place:
                if node.text == held.text:
                    set_scalar(edits, node, value)
                    return
                if node.text.startswith(f"{name}="):
                    set_scalar(edits, node, f"{name}={value}")
                    return
    token = token_of(edits.lines, held)
    if token is None:
        raise PatchProblem(f"the value of `{name}` does not stand in the file as it is")
    edits.replace(token.line, token.start, token.end, f"{token.quote}{value}{token.quote}" if token.quote else shlex.quote(value))


def _beside(edits: Edits, documents: Sequence[Node], found: FoundLaunch, variables: Mapping[str, str]) -> None:
    """Next to the variables that the launch has already, in their style."""
    places = {(word.origin.line, word.origin.column) for word in found.environment.values()}
    for document in reversed(documents):
        for _, node in document.walk():
            if node.kind == "mapping" and any((value.line, value.column) in places and key in found.environment for key, value in node.value.items()):
                add_keys(edits, node, variables)
                return
            if node.kind == "sequence" and any(_entry_place(one) in places for one in node.value):
                last = node.value[-1]
                if last.kind == "mapping":
                    add_items(edits, node, _entries(variables))
                else:
                    add_items(edits, node, _assignments(variables), quoted=last.source.text[last.start : last.start + 1] == '"')
                return
    raise PatchProblem("no variable of the launch stands in a list or mapping of the file")


def _entries(variables: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def _assignments(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in variables.items()]


def _entry_place(entry: Node) -> tuple[int, int]:
    value = entry.at("value")
    node = value if value is not None else entry
    return node.line, node.column


def _in_container(edits: Edits, documents: Sequence[Node], found: FoundLaunch, variables: Mapping[str, str]) -> None:
    """`env` (or `environment`) of the container that the command stands in."""
    lines = {word.origin.line for word in found.words if word.origin.line}
    for mapping in reversed(list(mappings_in(documents))):
        keys = set(mapping.value)
        inside = any(mapping.line <= line <= _end(mapping) for line in lines)
        if not inside or not keys & _CONTAINER[0] or not keys & _CONTAINER[1]:
            continue
        compose = (
            "build" in keys
            or "entrypoint" in keys
            or "environment" in keys
            or "services" in (documents[0].value if documents and documents[0].kind == "mapping" else {})
        )
        key = "environment" if compose else "env"
        held = mapping.at(key)
        if held is None:
            add_keys(edits, mapping, {key: dict(variables) if compose else _entries(variables)})
        elif held.kind == "mapping":
            add_keys(edits, held, variables)
        elif held.kind == "sequence":
            add_items(edits, held, _assignments(variables) if compose else _entries(variables))
        else:
            raise PatchProblem(f"`{key}` is neither a list nor a mapping")
        return
    raise PatchProblem("the command stands in no container")


def _end(mapping: Node) -> int:
    line, _ = mapping.source.places(max(mapping.start, mapping.end - 1))
    return line


def _before_command(edits: Edits, documents: Sequence[Node], found: FoundLaunch, variables: Mapping[str, str]) -> None:
    """`export` lines above the shell command."""
    token = next((token for word in found.words if (token := token_of(edits.lines, word)) is not None), None)
    if token is None:
        raise PatchProblem("no word of the command stands in the file as it is")
    if not _is_shell(edits, token):
        raise PatchProblem("the command is no line of a shell script")
    start = token.line
    while start > 0 and edits.lines[start - 1].rstrip().endswith("\\"):
        start -= 1
    line = edits.lines[start]
    head = line[: token.start] if start == token.line else line
    if re.match(r"\s*(-\s|[\w.-]+:\s)", head):
        raise PatchProblem("the command stands in one line with its key")
    edits.add_after(start - 1, [f"{edits.indent(start)}export {name}={shlex.quote(value)}" for name, value in variables.items()])


def _is_shell(edits: Edits, token: Token) -> bool:
    line = edits.lines[token.line]
    return line[: token.start].strip() not in ("-", "- -") and not (token.quote and line[token.end :].strip()[:1] in (",", "]"))
