"""YAML and JSON text to plain data with the place of every node; every defect is a problem, nothing is guessed.

Read from parser events, without recursion: libyaml's parser where PyYAML was built with it, the pure one otherwise.
Scalars are read as YAML 1.2 does (`true`, `false`, decimal numbers, `null`); the words that YAML 1.1 turns into
booleans (`on`, `off`, `yes`, `no`) are refused unquoted, because two readers would disagree about them. Aliases, tags
and duplicate keys are refused: none of them has a use in a pack.
"""

from __future__ import annotations

import json
import re
from pathlib import Path as FilePath
from typing import Any

from policy.problems import Problem, Span
from policy.records import dataclass, field

Path = tuple[str | int, ...]

MAX_BYTES = 2_000_000
MAX_NODES = 200_000
MAX_DEPTH = 40

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_AMBIGUOUS = {"on", "off", "yes", "no", "y", "n"}


class WrittenNumber(float):
    """A number with a point, which remembers how it was written (`0.10`)."""

    text: str

    def __new__(cls, text: str) -> WrittenNumber:
        """The number that `text` is."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class Document:
    """One file as data: `value`, and the place of every value and key by its path in the data."""

    file: str
    lines: list[str]
    value: Any = None
    values: dict[Path, Span] = field(default_factory=dict)
    keys: dict[Path, Span] = field(default_factory=dict)
    unplaced: bool = False

    def span(self, path: Path, key: bool = False) -> Span:
        """The place of the value at `path` (of its key where `key`), or of the nearest enclosing one."""
        if self.unplaced:
            self._find_places()
        here = tuple(path)
        places = self.keys if key else self.values
        while here:
            found = places.get(here) or self.values.get(here)
            if found is not None:
                return found
            here = here[:-1]
        return self.values.get((), Span(self.file))

    def _find_places(self) -> None:
        """JSON is YAML as far as places go; they are only looked for where there is a problem to place."""
        self.unplaced = False
        placed, _ = read_yaml("\n".join(self.lines), self.file)
        self.values, self.keys = placed.values, placed.keys

    def problem(self, path: Path, message: str, help: str = "", key: bool = False) -> Problem:
        """A problem at a place of this document."""
        return self.at(self.span(path, key), message, help)

    def at(self, span: Span, message: str, help: str = "") -> Problem:
        """A problem at a span of this document."""
        text = self.lines[span.line - 1] if 0 < span.line <= len(self.lines) else ""
        return Problem(message, span, help, text)


def read_text(path: FilePath, name: str) -> tuple[str | None, list[Problem]]:
    """The text of a file, or the problem that keeps it from being read."""
    try:
        with open(path, "rb") as stream:
            held = stream.read(MAX_BYTES + 1)
        if len(held) > MAX_BYTES:
            return None, [Problem(f"the file has more than the {MAX_BYTES} bytes that are read", Span(name))]
        return held.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        return None, [Problem(f"the file is not UTF-8 (byte {error.start})", Span(name), "save it as UTF-8")]
    except IsADirectoryError:
        return None, [Problem("this is a folder, not a file", Span(name))]
    except OSError as error:
        return None, [Problem(f"cannot be read: {(error.strerror or str(error)).lower()}", Span(name))]


def read_yaml(text: str, name: str) -> tuple[Document, list[Problem]]:
    """One YAML document as data with places. With any problem the data is not to be used."""
    document = Document(name, text.splitlines())
    if len(text) > MAX_BYTES:
        return document, [Problem(f"the text has {len(text)} characters, more than the {MAX_BYTES} that are read", Span(name))]
    return document, _Composer(document).compose(text)


def read_json(text: str, name: str) -> tuple[Document, list[Problem]]:
    """One JSON document as data."""
    document = Document(name, text.splitlines(), unplaced=True)
    duplicates: list[str] = []

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in found:
            if key in seen:
                duplicates.append(key)
            seen[key] = value
        return seen

    try:
        document.value = json.loads(text, object_pairs_hook=pairs, parse_float=WrittenNumber)
    except json.JSONDecodeError as error:
        return document, [document.at(Span(name, error.lineno, error.colno), f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]}")]
    except (RecursionError, ValueError) as error:
        return document, [Problem(f"this JSON cannot be read: {str(error)[:120].lower() or 'nested too deeply'}", Span(name))]
    if "\\u" in text and not _encodable(json.dumps(document.value, ensure_ascii=False)):
        return document, [Problem("half of a character (a lone surrogate)", Span(name), "write the character itself")]
    if not duplicates:
        return document, []
    placed = [problem for problem in read_yaml(text, name)[1] if problem.message.endswith("stands twice")]
    return document, placed or [Problem(f"the key `{key}` stands twice", Span(name), "keep one of them") for key in duplicates]


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Composer:
    """Builds one document from parser events."""

    def __init__(self, document: Document) -> None:
        self.document, self.problems = document, list[Problem]()
        self.nodes = 0
        self.aliases: set[str] = set()

    def compose(self, text: str) -> list[Problem]:
        import yaml

        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            self._read(yaml.parse(text, Loader=loader))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            span = Span(self.document.file, mark.line + 1, mark.column + 1) if mark else Span(self.document.file)
            said = f"this is no YAML: {error.problem or error.context}"
            if "nesting depth" in said:
                # newer releases of libyaml look further ahead than this reader gets
                said = f"nested more than {MAX_DEPTH} deep"
            self.problems.append(self.document.at(span, said, self._hint(span)))
        except yaml.YAMLError as error:
            self.problems.append(Problem(f"this is no YAML: {str(error).splitlines()[0].lower()}", Span(self.document.file)))
        return self.problems

    def _hint(self, span: Span) -> str:
        line = self.document.lines[span.line - 1] if 0 < span.line <= len(self.document.lines) else ""
        if re.search(r":\s*[<>=!]", line):
            return 'write version ranges in quotes: `">=0.6.10"`'
        if "\t" in line:
            return "indent with spaces, not tabs"
        return ""

    def _read(self, events: Any) -> None:
        import yaml

        stack: list[list[Any]] = []  # [container, path, pending key or None, key span]
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._complain(event, "a second document in one file", "write one document a file")
                    return
                continue
            if isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                stack.pop()
                continue
            if isinstance(event, yaml.AliasEvent):
                if str(event.anchor) not in self.aliases:
                    self._complain(event, f"the alias `*{event.anchor}`", "write the value out: packs take no aliases")
                self.aliases.add(str(event.anchor))
                value: Any = None
            elif isinstance(event, yaml.ScalarEvent):
                value = self._scalar(event)
            elif isinstance(event, yaml.SequenceStartEvent):
                value = []
            elif isinstance(event, yaml.MappingStartEvent):
                value = {}
            else:
                continue
            self.nodes += 1
            if self.nodes > MAX_NODES:
                self._complain(event, f"more than {MAX_NODES} values in one file", "")
                return
            if isinstance(event, yaml.NodeEvent) and not isinstance(event, yaml.AliasEvent):
                if event.anchor:
                    self._complain(event, f"the anchor `&{event.anchor}`", "write the value out: packs take no aliases")
                tag = getattr(event, "tag", None)
                if tag is not None and not (isinstance(event, yaml.ScalarEvent) and tag == "!"):
                    self._complain(event, f"the tag `{tag}`", "packs take no tags")
            self._place(stack, value, event)
            if isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent) and len(stack) >= MAX_DEPTH:
                self._complain(event, f"nested more than {MAX_DEPTH} deep", "")
                return

    def _place(self, stack: list[list[Any]], value: Any, event: Any) -> None:
        span = self._span(event)
        if not stack:
            self.document.value, path = value, ()
        else:
            container, parent, key, _ = stack[-1]
            if isinstance(container, list):
                path = (*parent, len(container))
                container.append(value)
            elif key is None:
                self._key(stack[-1], value, span)
                if isinstance(value, list | dict):
                    stack.append([value, (*parent, stack[-1][2]), None, None])
                return
            else:
                path = (*parent, key)
                if key in container:
                    self.problems.append(
                        self.document.at(
                            stack[-1][3], f"the key `{key}` stands twice", f"keep one of them; the first is in line {self.document.keys[path].line}"
                        )
                    )
                else:
                    container[key] = value
                    self.document.keys[path] = stack[-1][3]
                stack[-1][2] = None
        self.document.values.setdefault(path, span)
        if isinstance(value, list | dict):
            stack.append([value, path, None, None])

    def _key(self, frame: list[Any], value: Any, span: Span) -> None:
        if isinstance(value, list | dict) or value is None:
            self.problems.append(self.document.at(span, "a key must be text", ""))
            value = f"?{self.nodes}"
        elif not isinstance(value, str):
            value = str(value).lower() if isinstance(value, bool) else str(value)
        frame[2], frame[3] = value, span

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if not text.isascii() and not _encodable(text):
            self._complain(event, "half of a character (a lone surrogate)", "write the character itself")
        if event.style:
            return text
        lowered = text.lower()
        if lowered in ("", "~", "null"):
            return None
        if lowered in ("true", "false"):
            return lowered == "true"
        if lowered in _AMBIGUOUS:
            self._complain(event, f"`{text}` without quotes is a boolean to some readers of YAML and text to others", f'write `"{text}"`, or `true` or `false`')
            return text
        if _INTEGER.fullmatch(text):
            return int(text) if len(text) < 20 else text
        return WrittenNumber(text) if _NUMBER.fullmatch(text) else text

    def _span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        width = end.column - start.column if end.line == start.line else 1
        return Span(self.document.file, start.line + 1, start.column + 1, max(1, width))

    def _complain(self, event: Any, message: str, help: str) -> None:
        self.problems.append(self.document.at(self._span(event), message, help))
