"""Shell tokens -> a small tree: commands, lists, if, case, loops, groups, functions. Total: any token sequence gives a
tree; a construct that is not closed ends with the text."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from policy.launchers.shell_words import Part, ShellWord, Token, tokens
from policy.records import dataclass, field

MAX_DEPTH = 60  # nested constructs; deeper ones are read as if they were not nested


@dataclass(slots=True)
class Command:
    """A simple command: assignments before it stay among the words."""

    words: list[ShellWord] = field(default_factory=list)
    redirections: list[Token] = field(default_factory=list)
    offset: int = 0
    end: int = 0


@dataclass(slots=True)
class Sequence:
    """Commands in order with the operator before each (`;`, `&&`, `||`, `|`)."""

    items: list[tuple[str, Tree]] = field(default_factory=list)


@dataclass(slots=True)
class If:
    """`if`, `elif`, `else`."""

    branches: list[tuple[Sequence, Sequence]]
    otherwise: Sequence | None = None


@dataclass(slots=True)
class Case:
    """`case`: patterns and what they lead to."""

    subject: ShellWord | None
    arms: list[tuple[list[ShellWord], Sequence]]


@dataclass(slots=True)
class Loop:
    """`for`, `while`, `until`, `select`."""

    kind: str  # for, while, until, select
    body: Sequence
    variable: str = ""
    values: list[ShellWord] | None = None
    condition: Sequence | None = None


@dataclass(slots=True)
class Group:
    """`{ }` or `( )`."""

    body: Sequence
    redirections: list[Token] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """A definition."""

    name: str
    body: Sequence


Tree: TypeAlias = Command | Sequence | If | Case | Loop | Group | Function


@lru_cache(maxsize=64)
def parse(text: str) -> Sequence:
    """The tree of a script, to be read only: a script is run several times."""
    return _Parser(tokens(text)).sequence(set())


def _operator(token: Token) -> ShellWord:
    """An operator among the words of a test."""
    return ShellWord((Part(token.text, "operator"),), token.offset)


class _Parser:
    def __init__(self, stream: list[Token]) -> None:
        self.stream, self.position, self.depth = stream, 0, 0
        compound: dict[str, Callable[[], Tree]] = {
            "if": self.if_,
            "case": self.case,
            "for": self.for_,
            "select": self.for_,
            "while": self.while_,
            "until": self.while_,
            "{": self.braces,
            "function": self.function,
        }
        self.compound = compound

    def peek(self) -> Token | None:
        return self.stream[self.position] if self.position < len(self.stream) else None

    def keyword(self) -> str | None:
        token = self.peek()
        return token.word.bare if token is not None and token.kind == "word" and token.word is not None else None

    def operator(self, *operators: str) -> bool:
        token = self.peek()
        return token is not None and token.kind == "operator" and token.text in operators

    def skip(self, *operators: str) -> None:
        while self.operator(*operators):
            self.position += 1

    def sequence(self, ends: set[str], closing: tuple[str, ...] = ()) -> Sequence:
        """Commands up to a keyword of `ends` or an operator of `closing`, which stays unread."""
        result, before = Sequence(), ";"
        while self.peek() is not None:
            if self.operator(*closing) or (ends and self.keyword() in ends):
                break
            if self.operator(";", "\n", "&", "&&", "||", "|", "|&", ";;", ";&", ";;&", ")"):
                before = self.stream[self.position].text
                before = ";" if before not in {"&&", "||", "|", "|&"} else before
                self.position += 1
                if before != ";":
                    self.skip("\n")
                continue
            start = self.position
            result.items.append((before, self.one()))
            before = ";"
            if self.position == start:
                self.position += 1
        return result

    def one(self) -> Tree:
        keyword = self.keyword()
        if self.depth < MAX_DEPTH:
            handler = self.compound.get(keyword or "")
            if handler is not None or self.operator("("):
                self.depth += 1
                try:
                    return handler() if handler is not None else self.parentheses()
                finally:
                    self.depth -= 1
            following = self.stream[self.position + 1 : self.position + 3]
            if keyword and len(following) == 2 and following[0].text == "(" and following[1].text == ")" and following[0].kind == "operator":
                self.position += 3
                return self.function_body(keyword)
        elif self.operator("("):
            self.position += 1
        return self.command()

    def command(self) -> Command:
        command = Command(offset=self.stream[self.position].offset if self.peek() else 0)
        while (token := self.peek()) is not None:
            if token.kind == "operator":
                if token.text == "(" and command.words and command.words[-1].bare in {"((", "[["}:
                    self.position += 1
                    continue
                if command.words and command.words[0].bare == "[[" and token.text in {"&&", "||", "|", "(", ")", "\n"}:
                    self.position += 1
                    command.words.append(_operator(token))
                    continue
                break
            self.position += 1
            if token.kind == "redirection":
                if command.words and command.words[0].bare == "[[" and token.word is not None:
                    command.words += [_operator(token), token.word]
                    continue
                command.redirections.append(token)
            elif token.word is not None:
                command.words.append(token.word)
                if token.word.bare == "]]" and command.words[0].bare == "[[":
                    break
        command.end = self.stream[self.position - 1].offset if self.position else 0
        return command

    def if_(self) -> Tree:
        branches: list[tuple[Sequence, Sequence]] = []
        otherwise: Sequence | None = None
        while self.keyword() in {"if", "elif"}:
            self.position += 1
            condition = self.sequence({"then", "fi"})
            if self.keyword() == "then":
                self.position += 1
            branches.append((condition, self.sequence({"elif", "else", "fi"})))
        if self.keyword() == "else":
            self.position += 1
            otherwise = self.sequence({"fi"})
        if self.keyword() == "fi":
            self.position += 1
        return If(branches, otherwise)

    def case(self) -> Tree:
        self.position += 1
        token = self.peek()
        subject = token.word if token is not None and token.kind == "word" else None
        self.position += 1
        self.skip("\n")
        if self.keyword() == "in":
            self.position += 1
        arms: list[tuple[list[ShellWord], Sequence]] = []
        while self.peek() is not None:
            self.skip("\n", ";;", ";&", ";;&", "(")
            if self.keyword() == "esac" or self.peek() is None:
                break
            patterns: list[ShellWord] = []
            start = self.position
            while (token := self.peek()) is not None and not self.operator(")", "\n"):
                if token.kind == "word" and token.word is not None:
                    patterns.append(token.word)
                self.position += 1
            self.position += 1
            arms.append((patterns, self.sequence({"esac"}, (";;", ";&", ";;&"))))
            if self.position == start:
                self.position += 1
        if self.keyword() == "esac":
            self.position += 1
        return Case(subject, arms)

    def for_(self) -> Tree:
        kind = self.keyword() or "for"
        self.position += 1
        variable, values = self.keyword() or "", None
        if self.operator("("):  # for ((i = 0; ...))
            while self.peek() is not None and self.keyword() != "do":
                self.position += 1
        else:
            self.position += 1
            self.skip("\n")
            if self.keyword() == "in":
                self.position += 1
                values = []
                while (token := self.peek()) is not None and token.kind == "word" and token.word is not None:
                    values.append(token.word)
                    self.position += 1
        return Loop(kind, self.body(), variable, values)

    def while_(self) -> Tree:
        kind = self.keyword() or "while"
        self.position += 1
        condition = self.sequence({"do", "done"})
        return Loop(kind, self.body(), condition=condition)

    def body(self) -> Sequence:
        self.skip(";", "\n")
        if self.keyword() == "do":
            self.position += 1
        body = self.sequence({"done"})
        if self.keyword() == "done":
            self.position += 1
        self.trailing()
        return body

    def braces(self) -> Tree:
        self.position += 1
        body = self.sequence({"}"})
        if self.keyword() == "}":
            self.position += 1
        return Group(body, self.trailing())

    def parentheses(self) -> Tree:
        self.position += 1
        token = self.peek()
        if token is not None and self.operator("(") and token.offset == self.stream[self.position - 1].offset + 1:
            self.position += 1  # ((arithmetic)): one command whose words are the expression
            opening = self.stream[self.position - 1]
            command = Command([_operator(Token("operator", "((", opening.offset))], offset=opening.offset)
            while (token := self.peek()) is not None and not self.operator(")", "\n"):
                if token.kind == "redirection":  # here it is a comparison
                    command.words.append(ShellWord((Part(token.text),), token.offset))
                if token.word is not None:
                    command.words.append(token.word)
                self.position += 1
            for _ in range(2):
                self.position += self.operator(")")
            return command
        body = self.sequence(set(), (")",))
        self.position += self.operator(")")
        return Group(body, self.trailing())

    def trailing(self) -> list[Token]:
        redirections = []
        while (token := self.peek()) is not None and token.kind == "redirection":
            redirections.append(token)
            self.position += 1
        return redirections

    def function(self) -> Tree:
        self.position += 1
        name = self.keyword() or ""
        self.position += 1
        while self.operator("(", ")"):
            self.position += 1
        return self.function_body(name)

    def function_body(self, name: str) -> Tree:
        self.skip("\n")
        body = self.one() if self.peek() is not None else Sequence()
        return Function(name, body.body if isinstance(body, Group) else Sequence([(";", body)]))
