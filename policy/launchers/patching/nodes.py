"""Edits of YAML values at their places: a key added to a mapping, an item to a list, a scalar replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from policy.launchers.patching.text import Edits, PatchProblem
from policy.launchers.yaml_places import Node, read_documents

#: Words that YAML reads as they stand.
_PLAIN = re.compile(r"-{0,2}[A-Za-z][\w./=+-]*(:[\w./=+-]+)*")
_NOT_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def documents_in(text: str, name: str) -> list[Node]:
    """The YAML documents of a text, and those that stand as text inside its values."""
    found = list(read_documents(text, name).documents)
    for document in list(found):
        for _, node in document.walk():
            if node.kind == "scalar" and isinstance(node.value, str) and "\n" in node.text and ":" in node.text:
                found.extend(one for one in read_documents(node.text, name, node.places()).documents if one.kind == "mapping")
    return found


def mappings_in(documents: Sequence[Node]) -> Iterator[Node]:
    """Every mapping of the documents."""
    for document in documents:
        yield from (node for _, node in document.walk() if node.kind == "mapping")


def is_flow(node: Node) -> bool:
    """Whether a mapping or a list is written in braces or brackets."""
    return node.source.text[node.start : node.start + 1] in ("{", "[")


def last_line(node: Node) -> int:
    """The last line, from 0, that a value stands in; comments and empty lines after it are not part of it."""
    written = node.source.text[node.start : max(node.start, node.end)]
    if node.kind == "scalar" or is_flow(node):
        return node.line - 1 + written.rstrip().count("\n")
    children = list(node.value.values()) if node.kind == "mapping" else node.value
    own = [last_line(child) for child in children if child.line >= node.line]
    keys = [line - 1 for line, _ in node.keys.values() if line >= node.line]
    return max([node.line - 1, *own, *keys])


def add_keys(edits: Edits, mapping: Node, entries: Mapping[str, Any]) -> None:
    """Add entries as the last ones of a mapping."""
    if is_flow(mapping):
        text = ", ".join(f"{key}: {_flow(value)}" for key, value in entries.items())
        _before_end(edits, mapping, text)
        return
    column = min((column for line, column in mapping.keys.values() if line >= mapping.line), default=mapping.column) - 1
    indent = _margin(edits, mapping, column)
    edits.add_after(last_line(mapping), [indent + text for key, value in entries.items() for text in block_lines(key, value)])


def add_items(edits: Edits, sequence: Node, values: Sequence[Any], quoted: bool = False) -> None:
    """Add values as the last ones of a list."""
    if is_flow(sequence):
        _before_end(edits, sequence, ", ".join(_flow(value, quoted or isinstance(value, str)) for value in values))
        return
    indent = _margin(edits, sequence, sequence.column - 1)
    lines: list[str] = []
    for value in values:
        if isinstance(value, Mapping):
            inside = [text for key, held in value.items() for text in block_lines(key, held)]
            lines += [f"- {text}" if number == 0 else f"  {text}" for number, text in enumerate(inside)]
        else:
            lines.append(f"- {json.dumps(value) if quoted else scalar(value)}")
    edits.add_after(last_line(sequence), [indent + text for text in lines])


def _before_end(edits: Edits, node: Node, text: str) -> None:
    """Put text before the closing brace or bracket."""
    line, column = node.source.places(node.end - 1)
    held = edits.lines[line - 1][: column - 1].rstrip()
    comma = bool(node.value) and not held.endswith(",")
    edits.replace(line - 1, len(held) if held.strip() and node.value else column - 1, column - 1, f"{',' if comma else ''}{' ' if node.value else ''}{text}")


def _margin(edits: Edits, node: Node, column: int) -> str:
    """What stands before a line of a block: spaces, or those of a line that has been seen."""
    line = edits.lines[node.line - 1]
    return line[:column] if line[:column].isspace() else " " * column


def set_scalar(edits: Edits, node: Node, value: Any) -> None:
    """Replace a scalar, its quotes kept where the new value is text."""
    written = node.source.text[node.start : node.end]
    line, column = node.line - 1, node.column - 1
    head, block = written[:1], node.quoted and written[:1] in ("|", ">")
    if block or "\n" in written.rstrip():
        end = last_line(node)
        edits.replace(line, column, len(edits.lines[line]), _quoted(value, "'"))
        for number in range(line + 1, end + 1):
            edits.replace(number, 0, len(edits.lines[number]), "")
        return
    if not edits.lines[line].startswith(written, column):
        raise PatchProblem(f"`{node.text}` does not stand in the file as it is")
    text = _quoted(value, head) if isinstance(value, str) and head in ("'", '"') else scalar(value)
    edits.replace(line, column, column + len(written), text if written else f" {text}")


def _quoted(value: Any, quote: str) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text, ensure_ascii=False) if quote == '"' else "'" + text.replace("'", "''") + "'"


def scalar(value: Any) -> str:
    """A value as YAML writes it in one line; in quotes where it would be read as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return _quoted(value, "'") if '"' in value else json.dumps(value, ensure_ascii=False)


def block_lines(key: str, value: Any) -> list[str]:
    """An entry of a block mapping."""
    if isinstance(value, Mapping) and value:
        return [f"{key}:", *(f"  {text}" for inner, held in value.items() for text in block_lines(inner, held))]
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return [f"{key}:", *yaml.safe_dump(value, sort_keys=False, width=10_000).rstrip().split("\n")]
    if isinstance(value, list) and value:
        return [f"{key}:", *(f"- {scalar(one)}" for one in value)]
    return [f"{key}: {scalar(value)}"]


def _flow(value: Any, quoted: bool = False) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_flow(one) for one in value) + "]"
    return json.dumps(value) if quoted or (isinstance(value, str) and re.search(r"[,\[\]{}]", value)) else scalar(value)
