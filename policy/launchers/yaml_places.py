"""YAML text -> values that know where they stand, for files that other people wrote.

Built on the parser's events, not on its composer: events come without recursion, so depth, size and aliases can be
capped before any tree exists. Scalars are read as YAML 1.1 does, which is how Go's and Python's consumers of these
files read them (`yes` is true, `010` is 8). Nothing here raises for bad input; problems are returned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import yaml

from policy.launchers.found import LaunchNotice
from policy.launchers.yaml_nodes import BREAK, Node, Places, Source
from policy.origin import Origin
from policy.records import dataclass, field, replace

__all__ = ["Documents", "Node", "Places", "read_documents"]

MAX_CHARACTERS = 4_000_000
MAX_NODES = 300_000  # after expanding aliases
MAX_DEPTH = 100
MAX_DOCUMENTS = 5_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Documents:
    """The documents of a stream that could be read, and what was wrong. `repaired` says what was left out to read it."""

    documents: list[Node] = field(default_factory=list)
    problems: list[LaunchNotice] = field(default_factory=list)
    repaired: str = ""


class _Refused(Exception):
    def __init__(self, message: str, mark: Any, kind: str = "unparsable-yaml") -> None:
        super().__init__(message)
        self.message, self.mark, self.kind = message, mark, kind


@dataclass(slots=True)
class _Open:
    node: Node
    anchor: str | None
    key: Node | None = None


class _Composer:
    def __init__(self, source: Source, report: Callable[[str, str, int, int], None]) -> None:
        self.source, self.report = source, report
        self.constructor: Any = yaml.SafeLoader("")
        self.anchors: dict[str, Node | None] = {}
        self.count = 0

    def document(self, events: Iterator[Any]) -> Node | None:
        """The next document; None where it is empty. Raises `_Refused` and what the parser raises."""
        self.anchors = {}
        stack: list[_Open] = []
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentEndEvent):
                return root
            node = self.node(event, stack)
            if node is None:
                continue
            if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
                if len(stack) >= MAX_DEPTH:
                    raise _Refused(f"nested deeper than {MAX_DEPTH} levels", event.start_mark, "too-large")
                if event.anchor:
                    self.anchors[event.anchor] = None  # open: an alias to it would be a loop
                stack.append(_Open(node, event.anchor))
                continue
            if stack:
                self.add(stack[-1], node, event)
            else:
                root = node
        return root

    def node(self, event: Any, stack: list[_Open]) -> Node | None:
        if isinstance(event, yaml.ScalarEvent):
            node = self.scalar(event)
            if event.anchor:
                self.anchors[event.anchor] = node
            return node
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise _Refused(f"undefined alias `*{event.anchor}`", event.start_mark)
            target = self.anchors[event.anchor]
            if target is None:
                raise _Refused(f"the alias `*{event.anchor}` contains itself", event.start_mark)
            return target
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self.check_tag(event)
            kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            return self.made(kind, {} if kind == "mapping" else [], "", event)
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = stack.pop()
            done.node.end = self.source.offset(event.end_mark)
            if done.node.kind == "mapping":
                self.merge(done.node)
            if done.anchor:
                self.anchors[done.anchor] = done.node
            return done.node
        return None

    def made(self, kind: str, value: Any, text: str, event: Any, quoted: bool = False) -> Node:
        self.count += 1
        if self.count > MAX_NODES:
            raise _Refused(f"more than {MAX_NODES} values", event.start_mark, "too-large")
        start = self.source.offset(event.start_mark)
        line, column = self.source.places(start)
        return Node(kind, value, text, line, column, self.source, start, self.source.offset(event.end_mark), quoted)

    def check_tag(self, event: Any) -> None:
        if event.tag and "python/" in event.tag:
            raise _Refused(f"the tag `{event.tag}` asks for a Python object", event.start_mark)

    def scalar(self, event: Any) -> Node:
        self.check_tag(event)
        text, value = event.value, event.value
        plain = event.style is None or event.style == ""
        if plain and (event.tag is None or event.tag.startswith("tag:yaml.org,2002:")):
            tag = event.tag or self.constructor.resolve(yaml.ScalarNode, text, (True, False))
            value = self.construct(tag, text)
        elif event.tag in {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool"}:
            value = self.construct(event.tag, text)
        return self.made("scalar", value, text, event, quoted=not plain)

    def construct(self, tag: str, text: str) -> Any:
        kind = tag.rpartition(":")[2]
        if kind not in {"null", "bool", "int", "float"}:
            return text
        try:
            return getattr(self.constructor, f"construct_yaml_{kind}")(yaml.ScalarNode(tag, text))
        except (ValueError, KeyError, yaml.YAMLError, OverflowError):
            return text

    def add(self, parent: _Open, node: Node, event: Any) -> None:
        parent.node.size += node.size
        if parent.node.size > MAX_NODES:
            raise _Refused(f"aliases expand to more than {MAX_NODES} values", event.start_mark, "too-large")
        if parent.node.kind == "sequence":
            parent.node.value.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            key, parent.key = parent.key, None
            name = key.text if key.kind == "scalar" else self.source.text[key.start : max(key.start, key.end)]
            if name in parent.node.value and name != "<<":
                self.report("duplicate-key", f"the key `{name}` stands twice; the later one counts", key.line, key.column)
            if name == "<<" and name in parent.node.value:
                name = f"<<{len(parent.node.value)}"
            parent.node.value[name] = node
            parent.node.keys[name] = (key.line, key.column)

    def merge(self, mapping: Node) -> None:
        """`<<: *base` gives what the mapping itself does not."""
        for name in [key for key in mapping.value if key.startswith("<<") and not key[2:].strip("0123456789")]:
            given = mapping.value[name]
            bases = [given] if given.kind == "mapping" else [node for node in given.value if node.kind == "mapping"] if given.kind == "sequence" else []
            if not bases:
                continue
            del mapping.value[name]
            for base in bases:
                for key, node in base.value.items():
                    if key not in mapping.value:
                        mapping.value[key] = node
                        mapping.keys[key] = base.keys.get(key, (node.line, node.column))


def read_documents(text: str, name: str = "-", places: Places | None = None) -> Documents:
    """Every document of a YAML stream. What cannot be parsed is tried again without the usual foreign matter (tabs at
    the ends of lines, merge conflict markers, template directives); documents that are sound are kept either way."""
    from policy.launchers.yaml_repair import repairs

    outer = places or Places.of_text(text)
    if len(text) > MAX_CHARACTERS:
        notice = LaunchNotice("too-large", f"more than {MAX_CHARACTERS} characters of YAML: not read", Origin("file", file=name))
        return Documents(problems=[notice])
    first = _read(text, name, outer)
    if not any(problem.kind == "unparsable-yaml" for problem in first.problems):
        return first
    for what, repaired, line_numbers in repairs(text):
        inner = Places([(offset, *outer(original)) for offset, original in line_numbers])
        again = _read(repaired, name, inner)
        if not any(problem.kind == "unparsable-yaml" for problem in again.problems):
            told = [replace(problem, remedy=f"it was read without its {what}") for problem in first.problems if problem.kind == "unparsable-yaml"]
            again.problems = told + again.problems
            again.repaired = what
            return again
    return _read_one_by_one(text, name, outer, first)


def _read_one_by_one(text: str, name: str, outer: Places, first: Documents) -> Documents:
    """Each document between `---` lines by itself, so that one broken document costs only itself."""
    result = Documents(problems=list(first.problems))
    cuts = [0] + [match.start() for match in re.finditer(r"^---(?=\s|$)", text, re.MULTILINE)] + [len(text)]
    for begin, end in pairwise(cuts):
        piece = text[begin:end]
        if piece.strip().strip("-"):
            shifted = Places([(offset, *outer(begin + offset)) for offset in [0] + [match.end() for match in BREAK.finditer(piece)]])
            read = _read(piece, name, shifted)
            if not any(problem.kind == "unparsable-yaml" for problem in read.problems):
                result.documents += read.documents
    return result


def _read(text: str, name: str, places: Places) -> Documents:
    result = Documents()

    def report(kind: str, message: str, line: int | None, column: int | None) -> None:
        result.problems.append(LaunchNotice(kind, message, Origin("file", file=name, line=line, column=column)))

    source = Source(text, [0] + [match.end() for match in BREAK.finditer(text)], places, name)
    composer = _Composer(source, report)
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if len(result.documents) >= MAX_DOCUMENTS:
                    raise _Refused(f"more than {MAX_DOCUMENTS} documents", event.start_mark, "too-large")
                document = composer.document(events)
                if document is not None:
                    result.documents.append(document)
    except _Refused as refused:
        report(refused.kind, refused.message, *places(source.offset(refused.mark)))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = " ".join(part for part in (error.problem, error.context) if part)
        report("unparsable-yaml", f"not valid YAML: {said}", *(places(source.offset(mark)) if mark else (None, None)))
    except yaml.reader.ReaderError as error:
        report("unparsable-yaml", f"not valid YAML: {error.reason}", *places(error.position))
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
        report("unparsable-yaml", f"not valid YAML: {type(error).__name__}", 1, 1)
    return result
