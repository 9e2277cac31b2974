"""Where a run over a script stands, and what commands do to variables and files."""

from __future__ import annotations

import re
from collections.abc import Callable

from policy.launchers.containers.reading.shell_conditions import Condition
from policy.launchers.containers.reading.shell_expand import MAX_FIELDS, MAX_VALUE, Field, Place, Value, Variables, expand, is_default, text_in, text_of
from policy.launchers.containers.reading.shell_tree import Command, Sequence
from policy.launchers.shell_words import ShellWord, Token
from policy.records import dataclass, replace

Held = tuple[tuple[Condition, bool], ...]
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[[^\]]*\])?(\+?)=")


@dataclass(frozen=True, slots=True)
class Scope:
    """Variables, the places of the text that is run, how deep it is nested, and the conditions it stands under."""

    variables: Variables
    place: Callable[[int], Place]
    depth: int = 0
    held: Held = ()

    def under(self, condition: Condition | bool | None, holds: bool) -> Scope:
        """The same scope under one more condition."""
        return replace(self, held=(*self.held, (condition, holds))) if isinstance(condition, Condition) else self

    def deeper(self) -> Scope:
        """The scope of a construct inside."""
        return replace(self, depth=self.depth + 1)

    def fields(self, words: list[ShellWord]) -> list[Field]:
        """The fields that words become."""
        return [item for word in words[:MAX_FIELDS] for item in expand(word, self.variables, self.place)][:MAX_FIELDS]


def assigned(word: ShellWord) -> re.Match[str] | None:
    """The `NAME=` at the front of a word that is an assignment."""
    if not word.parts or word.parts[0].kind != "literal" or word.parts[0].quoted:
        return None
    return _ASSIGNMENT.match(word.parts[0].text)


def assign(word: ShellWord, match: re.Match[str], scope: Scope, exported: bool = False) -> None:
    """Carries out an assignment; single elements of arrays are left out."""
    if match[2]:
        return
    old = scope.variables.values.get(match[1])
    value = value_of(word, match, scope)
    value.exported = exported or (old is not None and old.exported)
    scope.variables.values[match[1]] = value


def value_of(word: ShellWord, match: re.Match[str], scope: Scope) -> Value:
    """What an assignment gives its variable, `+=` included."""
    old = scope.variables.values.get(match[1]) if match[3] else None
    if word.elements is not None:
        elements = scope.fields(list(word.elements))[:MAX_FIELDS]
        if old is not None:
            before = old.elements if old.elements is not None else [Field(old.text, old.place)] if old.text else []
            elements = (before + elements)[:MAX_FIELDS]
        return Value(" ".join(item.text for item in elements), scope.place(word.offset), elements)
    text = text_of(word, scope.variables)[len(match[0]) :]
    where = scope.place(word.offset + len(match[0]))
    if len(word.parts) == 2:
        inner = expand(ShellWord(word.parts[1:], word.offset), scope.variables, scope.place)
        where = inner[0].place if len(inner) == 1 and inner[0].text == text and inner[0].place[0] else where
    if old is not None and old.elements is not None:
        elements = [*old.elements[:MAX_FIELDS], Field(text, where)]
        return Value(" ".join(item.text for item in elements), old.place, elements)
    return Value((old.text + text)[:MAX_VALUE] if old is not None else text, where, default=is_default(word, scope.variables))


def declare(kind: str, words: list[ShellWord], scope: Scope) -> None:
    """`export`, `declare`, `local`, `readonly`."""
    exports = kind == "export" or any((word.bare or "").startswith("-") and "x" in (word.bare or "") for word in words)
    for word in words:
        match = assigned(word)
        if match is not None:
            assign(word, match, scope, exports)
        elif exports and word.bare in scope.variables.values and word.bare is not None:
            old = scope.variables.values[word.bare]
            scope.variables.values[word.bare] = Value(old.text, old.place, old.elements, True, old.default)


def fed(redirections: list[Token]) -> Token | None:
    """The here-document of a command."""
    return next((token for token in redirections if token.text in {"<<", "<<-"} and token.body is not None), None)


@dataclass(slots=True)
class Files:
    """What a script writes: files by name, and scripts among them with their places."""

    texts: dict[str, str]
    scripts: dict[str, Field]

    def write(self, fields: list[Field], redirections: list[Token], scope: Scope) -> None:
        """`cat > file <<EOF`, `tee file <<EOF`, `echo text > file`."""
        document = fed(redirections)
        name, appended = _target(fields, redirections, document, scope)
        if not name or name == "/dev/null":
            return
        if document is not None and document.body is not None and fields[0].text in {"cat", "tee", "sudo"}:
            text = _plain(text_in(document.body, scope.variables)) if document.expands else document.body
            if name.endswith((".sh", ".bash")) or text.startswith("#!"):
                self.scripts[name] = Field(text, scope.place(document.body_offset))
        elif fields[0].text in {"echo", "printf"}:
            text = (" ".join(item.text for item in fields[1:] if item.text not in {"-e", "-n"}) + "\n").replace("\\n", "\n")
        else:
            return
        self.texts[name] = (self.texts.get(name, "") if appended else "") + text

    def write_group(self, body: Sequence, redirections: list[Token], scope: Scope) -> None:
        """`{ echo a; echo b; } > file`"""
        target = next((token.word for token in redirections if token.text in {">", ">>"} and token.word is not None), None)
        if target is None:
            return
        echoes = [one for _, one in body.items if isinstance(one, Command) and one.words and one.words[0].bare == "echo"]
        lines = [" ".join(item.text for item in scope.fields(one.words[1:])) for one in echoes]
        self.texts[text_of(target, scope.variables)] = "\n".join(lines) + "\n"


def _target(fields: list[Field], redirections: list[Token], document: Token | None, scope: Scope) -> tuple[str, bool]:
    """The file that a command writes to, and whether it appends."""
    out = next((token for token in redirections if token.text in {">", ">>", ">|"} and token.word is not None), None)
    name = text_of(out.word, scope.variables) if out is not None and out.word is not None else ""
    if document is not None and "tee" in {item.text for item in fields[:2]} and name in {"", "/dev/null"}:
        name = next((item.text for item in fields[1:] if not item.text.startswith("-") and item.text != "tee"), "")
    return name, (out is not None and out.text == ">>") or "-a" in {item.text for item in fields[1:3]}


def _plain(text: str) -> str:
    """What a here-document leaves open, written so that YAML takes it as one value."""
    text = re.sub(r"\$\(\(.{0,300}?\)\)", lambda match: re.sub(r"\s", "", match.group(0)), text)
    text = re.sub(r"\$\((\S+)[^()]{0,300}\)(?!\))", r"$(\1)", text)
    return re.sub(r"\$\{(\w+)[^{}]{0,300}\}", r"$\1", text)
