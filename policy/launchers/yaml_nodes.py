"""Values of a YAML text with their places in the file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from policy.origin import Origin
from policy.records import dataclass, field

BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_LOOKAHEAD = 8  # characters an escape or a quote may put between two characters of a value


class Places:
    """Offset in a text -> (line, column) in the file it stands in, both from 1. Kept as segments
    `(offset, line, column)`; inside a segment columns run along."""

    __slots__ = ("_offsets", "_segments")

    def __init__(self, segments: list[tuple[int, int, int]]) -> None:
        self._segments = segments or [(0, 1, 1)]
        self._offsets = [segment[0] for segment in self._segments]

    @classmethod
    def of_text(cls, text: str) -> Places:
        """Places of a text that is the whole file."""
        starts = [0] + [match.end() for match in BREAK.finditer(text)]
        return cls([(start, number, 1) for number, start in enumerate(starts, 1)])

    def shifted(self, start: int) -> Places:
        """Places of the text that begins at `start` of this one."""
        line, column = self(start)
        return Places([(0, line, column)] + [(segment[0] - start, segment[1], segment[2]) for segment in self._segments if segment[0] > start])

    def __call__(self, offset: int) -> tuple[int, int]:
        """The line and the column of the character at `offset`."""
        start, line, column = self._segments[max(0, bisect_right(self._offsets, offset) - 1)]
        return line, column + offset - start


@dataclass(frozen=True, slots=True)
class Source:
    """A YAML text, the offsets of its lines, and where it stands."""

    text: str
    starts: list[int]
    places: Places
    name: str

    def offset(self, mark: Any) -> int:
        """The offset of one of the parser's marks."""
        start: int = self.starts[min(mark.line, len(self.starts) - 1)]
        return start + int(mark.column)


@dataclass(slots=True)
class Node:
    """One value. `kind` is `mapping`, `sequence` or `scalar`; `value` is a dict of Nodes (keys as written), a list of
    Nodes, or the scalar; `text` is the scalar as written without its quotes; `line` and `column` count from 1."""

    kind: str
    value: Any
    text: str
    line: int
    column: int
    source: Source
    start: int = 0
    end: int = 0
    quoted: bool = False
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)  # places of the keys of a mapping
    size: int = 1

    def at(self, *path: str | int) -> Node | None:
        """The node below `path`, or None."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            if node.kind == "mapping" and isinstance(step, str):
                node = node.value.get(step)
            elif node.kind == "sequence" and isinstance(step, int) and -len(node.value) <= step < len(node.value):
                node = node.value[step]
            else:
                return None
        return node

    def string(self, *path: str | int) -> str | None:
        """The scalar below `path` as written, or None where there is none, it is null or not a scalar."""
        node = self.at(*path)
        if node is None or node.kind != "scalar" or node.value is None:
            return None
        return node.text

    def items(self, *path: str | int) -> Iterator[tuple[str, Node]]:
        """Keys and values of the mapping below `path`; none where there is no mapping."""
        node = self.at(*path)
        if node is not None and node.kind == "mapping":
            yield from node.value.items()

    def elements(self, *path: str | int) -> list[Node]:
        """The elements of the sequence below `path`; none where there is no sequence."""
        node = self.at(*path)
        return list(node.value) if node is not None and node.kind == "sequence" else []

    def plain(self) -> Any:
        """The value without places."""
        if self.kind == "mapping":
            return {key: node.plain() for key, node in self.value.items()}
        if self.kind == "sequence":
            return [node.plain() for node in self.value]
        return self.value

    def origin(self, detail: str = "", kind: str = "file") -> Origin:
        """Where the value stands."""
        return Origin(kind=kind, detail=detail, file=self.source.name, line=self.line, column=self.column)

    def walk(self) -> Iterator[tuple[tuple[str | int, ...], Node]]:
        """Every node with its path, itself first, in the order of the file."""
        stack: list[tuple[tuple[str | int, ...], Node]] = [((), self)]
        while stack:
            path, node = stack.pop()
            yield path, node
            if node.kind == "mapping":
                stack.extend([((*path, key), child) for key, child in reversed(node.value.items())])
            elif node.kind == "sequence":
                stack.extend([((*path, index), child) for index, child in reversed(list(enumerate(node.value)))])

    def places(self) -> Places:
        """Places of this scalar's characters: quotes, escapes, folding and indentation are undone by matching the
        value against the written text."""
        written, pointer, last = self.source.text, self.start, None
        segments: list[tuple[int, int, int]] = []
        if written[pointer : pointer + 1] in {"|", ">"} and self.quoted:  # the header of a block
            pointer = max(pointer, written.find("\n", pointer))
        for offset, character in enumerate(self.text):
            if character == "\n":
                last = None
            if character.isspace():
                continue
            while pointer < self.end and written[pointer].isspace():
                pointer += 1
            found = written.find(character, pointer, min(pointer + _LOOKAHEAD, self.end))
            if found < 0:
                continue
            if last is None or found - offset != last:
                segments.append((offset, *self.source.places(found)))
                last = found - offset
            pointer = found + 1
        if not segments or segments[0][0] > 0:
            segments.insert(0, (0, self.line, self.column))
        return Places(segments)
