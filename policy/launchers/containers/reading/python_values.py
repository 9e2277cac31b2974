"""Python's printed values, read without running anything: literals, objects as `Name(field=value)`, enumeration members
as `<Kind.MEMBER: 3>`, and texts that are cut or shortened with dots."""

from __future__ import annotations

import re
from typing import Any

from policy.records import dataclass

MAX_DEPTH = 50
_STRING = re.compile(r"[bru]*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
_MEMBER = re.compile(r"<([\w.]+): ([^<>]*)>")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)(?![\w.])")
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_WORD = re.compile(r"[^\s,()\[\]{}=]+")
_SPACE = re.compile(r"(?:\s|\.\.\.)*")
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_NAMED = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}


class Cut(Exception):
    """The text ends, or stops making sense, inside a value; what was read before holds."""


@dataclass(slots=True)
class Reader:
    """Reads values of `text` from `position` on."""

    text: str
    position: int = 0

    def mapping(self, closing: str, separator: str) -> dict[str, Any]:
        """Pairs up to `closing` (empty: to the end); `separator` is `:` in a dict, `=` in an object. Pairs before a cut
        are kept, the one that is cut is not."""
        result: dict[str, Any] = {}
        while True:
            self.skip(",")
            if self.position >= len(self.text):
                return result
            if closing and self.text.startswith(closing, self.position):
                self.position += len(closing)
                return result
            try:
                key = self.key()
                self.skip()
                if not self.text.startswith(separator, self.position):
                    raise Cut
                self.position += 1
                value = self.value()
            except Cut:
                self.position = len(self.text)
                return result
            if closing and self.position >= len(self.text) and self.text[-1:] not in {"'", '"', "]", ")", "}"}:
                return result  # a bare value that ends with the text may be cut itself
            result[key] = value

    def skip(self, more: str = "") -> None:
        """Passes blanks, dots of omission and the characters of `more`."""
        while True:
            match = _SPACE.match(self.text, self.position)
            self.position = match.end() if match else self.position
            if more and self.text[self.position : self.position + 1] and self.text[self.position] in more:
                self.position += 1
                continue
            return

    def key(self) -> str:
        """A name, quoted or not."""
        string = _STRING.match(self.text, self.position)
        if string is not None:
            self.position = string.end()
            return _unquoted(string.group(1))
        name = re.compile(r"[\w.-]+").match(self.text, self.position)
        if name is None:
            raise Cut
        self.position = name.end()
        return name.group(0)

    def value(self, depth: int = 0) -> Any:
        """The value at the position. Raises `Cut`."""
        self.skip()
        if depth > MAX_DEPTH or self.position >= len(self.text):
            raise Cut
        character = self.text[self.position]
        if character == "{":
            self.position += 1
            return self.pairs("}", depth)
        if character in "[(":
            self.position += 1
            return self.items("]" if character == "[" else ")", depth)
        string = _STRING.match(self.text, self.position)
        if string is not None:
            self.position = string.end()
            return _unquoted(string.group(1))
        if character in "'\"":
            raise Cut
        for pattern in (_MEMBER, _NUMBER):
            match = pattern.match(self.text, self.position)
            if match is not None:
                self.position = match.end()
                if pattern is _NUMBER:
                    return _number(match.group(0))
                return int(match.group(2)) if match.group(2).isdigit() else match.group(1).rpartition(".")[2]
        name = _NAME.match(self.text, self.position)
        if name is not None and self.text.startswith("(", name.end()):
            self.position = name.end() + 1
            return self.pairs(")", depth)
        word = _WORD.match(self.text, self.position)
        if word is None:
            raise Cut
        self.position = word.end()
        return _NAMED.get(word.group(0), word.group(0))

    def pairs(self, closing: str, depth: int) -> Any:
        """`key: value` or `key=value` pairs; a set or positional arguments give a list."""
        result: dict[str, Any] = {}
        alone: list[Any] = []
        while True:
            self.skip(",")
            if self.position >= len(self.text):
                return result or alone
            if self.text.startswith(closing, self.position):
                self.position += 1
                return result or (alone if alone else {})
            mark = self.position
            try:
                key = self.key()
                self.skip()
                paired = self.text[self.position : self.position + 1] in {":", "="} and self.position < len(self.text)
            except Cut:
                paired = False
            if paired:
                self.position += 1
                result[key] = self.value(depth + 1)
            else:
                self.position = mark
                alone.append(self.value(depth + 1))

    def items(self, closing: str, depth: int) -> list[Any]:
        """Values up to `closing`."""
        result: list[Any] = []
        while True:
            self.skip(",")
            if self.position >= len(self.text):
                return result
            if self.text.startswith(closing, self.position):
                self.position += 1
                return result
            result.append(self.value(depth + 1))


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match.group(1), match.group(0)), text[1:-1], flags=re.DOTALL)


def _number(text: str) -> int | float | str:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
