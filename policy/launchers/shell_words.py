"""Shell text -> tokens: words with their parts (literal text, parameters, substitutions, quoted or not), operators,
redirections with here-documents. A lexer that never refuses: what is left open ends with the text.

Two things that a shell would read differently are read as their authors mean them, because these are documents as much
as programs: `<placeholder>` is a word, not a redirection, and `{{ template }}` is one piece of text."""

from __future__ import annotations

import re

from policy.records import dataclass, field

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ARRAY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=$")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w./:\- ]{0,120}(?<! )>(?![>&])")
_OPERATORS = (";;&", ";;", ";&", "&&", "||", "|&", ";", "|", "&", "(", ")")
_REDIRECTION = re.compile(r"(?:\d*(?:<<<|<<-|<<|<>|<&|>>|>&|>\||<|>)|&>>|&>)")
MAX_TEMPLATE = 300  # characters of `{{ ... }}`
_BREAKS = " \t\n;|&()<>"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word. `kind`: `literal`, `parameter` (`$A`, `${A:-b}`), `command` (`$(...)`), `arithmetic`.
    `text` is the literal text, or the piece as written."""

    text: str
    kind: str = "literal"
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word; `offset` is where it begins in the text. `elements` holds the words of `NAME=(...)`."""

    parts: tuple[Part, ...]
    offset: int
    elements: tuple[ShellWord, ...] | None = None

    @property
    def written(self) -> str:
        """The word with its quotes undone and nothing expanded."""
        return "".join(part.text for part in self.parts)

    @property
    def bare(self) -> str | None:
        """The text of a word that is one unquoted literal, as keywords are."""
        if len(self.parts) == 1 and self.parts[0].kind == "literal" and not self.parts[0].quoted:
            return self.parts[0].text
        return None


@dataclass(slots=True)
class Token:
    """`kind`: `word`, `operator` (`\\n` among them) or `redirection` (`word` is its target, `body` a here-document's text)."""

    kind: str
    text: str
    offset: int
    word: ShellWord | None = None
    body: str | None = None
    body_offset: int = 0
    expands: bool = True  # a here-document whose delimiter is unquoted expands parameters


@dataclass(slots=True)
class _Lexer:
    text: str
    position: int = 0
    tokens: list[Token] = field(default_factory=list)
    waiting: list[Token] = field(default_factory=list)  # here-documents whose bodies begin after this line
    nested: bool = False  # inside an array, whose elements are no arrays

    def run(self) -> list[Token]:
        text, length = self.text, len(self.text)
        while self.position < length:
            character = text[self.position]
            if character == "\n":
                self.tokens.append(Token("operator", "\n", self.position))
                self.position += 1
                self.here_documents()
            elif character in " \t":
                self.position += 1
            elif character == "\\" and self.continuation():
                continue
            elif character == "#":
                end = text.find("\n", self.position)
                self.position = length if end < 0 else end
            elif self.redirection() or self.operator():
                continue
            else:
                start = self.position
                self.tokens.append(Token("word", "", start, self.word()))
                if self.position == start:  # nothing was taken: never stand still
                    self.position += 1
        return self.tokens

    def continuation(self) -> bool:
        """A backslash that joins lines; also `\\ ` before an option, which a folded YAML string leaves behind."""
        match = re.compile(r"\\\n|\\[ \t]+(?=\n|-|\\|$)").match(self.text, self.position)
        if match is None:
            return False
        self.position = match.end()
        return True

    def operator(self) -> bool:
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.position):
                self.tokens.append(Token("operator", operator, self.position))
                self.position += len(operator)
                return True
        return False

    def redirection(self) -> bool:
        if _PLACEHOLDER.match(self.text, self.position):
            return False
        match = _REDIRECTION.match(self.text, self.position)
        if match is None:
            return False
        token = Token("redirection", match.group(0).lstrip("0123456789"), self.position)
        self.position = match.end()
        if self.text.startswith("(", self.position):  # process substitution: >(tee log)
            self.position = self.closing(self.position, "(", ")")
            return True
        while self.position < len(self.text) and self.text[self.position] in " \t":
            self.position += 1
        token.word = self.word()
        self.tokens.append(token)
        if token.text in {"<<", "<<-"}:
            token.expands = not any(part.quoted for part in token.word.parts)
            self.waiting.append(token)
        return True

    def here_documents(self) -> None:
        for token in self.waiting:
            delimiter = token.word.written if token.word else ""
            token.body_offset = begin = self.position
            while True:
                end = self.text.find("\n", self.position)
                line = self.text[self.position : end if end >= 0 else len(self.text)]
                if line.lstrip("\t" if token.text == "<<-" else "").strip(" \r") == delimiter or (end < 0 and not line):
                    token.body = self.text[begin : self.position]
                    self.position = len(self.text) if end < 0 else end + 1
                    break
                if end < 0:
                    token.body = self.text[begin:]
                    self.position = len(self.text)
                    break
                self.position = end + 1
            if token.text == "<<-" and token.body:
                token.body = re.sub(r"^\t+", "", token.body, flags=re.MULTILINE)
        self.waiting = []

    def word(self) -> ShellWord:
        start, parts = self.position, []
        literal: list[str] = []

        def flush(quoted: bool = False) -> None:
            if literal:
                parts.append(Part("".join(literal), "literal", quoted))
                literal.clear()

        text, length = self.text, len(self.text)
        while self.position < length:
            character = text[self.position]
            foreign = self.foreign(character) if character in "<{" else 0
            if foreign:
                literal.append(text[self.position : foreign])
                self.position = foreign
            elif character == "(" and not parts and not self.nested and _ARRAY.match("".join(literal)):
                name = "".join(literal)
                return ShellWord((Part(name),), start, self.array())
            elif character in _BREAKS:
                break
            elif character == "\\":
                if text.startswith("\n", self.position + 1):
                    self.position += 2
                    continue
                flush()
                literal.append(text[self.position + 1 : self.position + 2])
                self.position += 2
                flush(quoted=True)
            elif character == "'" or text.startswith("$'", self.position):
                flush()
                self.position += 1 if character == "'" else 2
                end = text.find("'", self.position)
                end = length if end < 0 else end
                parts.append(Part(text[self.position : end], "literal", True))
                self.position = end + 1
            elif character == '"' or text.startswith('$"', self.position):
                flush()
                self.position += 1 if character == '"' else 2
                parts.extend(self.double_quoted())
            elif character in "$`":
                part = self.expansion(quoted=False)
                if part is None:
                    literal.append(character)
                    self.position += 1
                else:
                    flush()
                    parts.append(part)
            else:
                literal.append(character)
                self.position += 1
        flush()
        return ShellWord(tuple(parts), start)

    def foreign(self, character: str) -> int:
        """The end of a placeholder or of a template at the position, 0 where there is none."""
        if character == "<":
            match = _PLACEHOLDER.match(self.text, self.position)
            return match.end() if match is not None else 0
        if not self.text.startswith("{{", self.position):
            return 0
        end = self.text.find("}}", self.position, self.position + MAX_TEMPLATE)
        return 0 if end < 0 or "\n" in self.text[self.position : end] else end + 2

    def array(self) -> tuple[ShellWord, ...]:
        end = self.closing(self.position, "(", ")")
        inner = _Lexer(self.text[: end - (self.text[end - 1 : end] == ")")], self.position + 1, nested=True)
        words = tuple(token.word for token in inner.run() if token.kind == "word" and token.word is not None)
        self.position = end
        return words

    def double_quoted(self) -> list[Part]:
        parts: list[Part] = []
        literal: list[str] = []
        text, length = self.text, len(self.text)
        while self.position < length and text[self.position] != '"':
            character = text[self.position]
            if character == "\\" and self.position + 1 < length:
                following = text[self.position + 1]
                literal.append("" if following == "\n" else following if following in '$`"\\' else "\\" + following)
                self.position += 2
                continue
            part = self.expansion(quoted=True) if character in "$`" else None
            if part is None:
                literal.append(character)
                self.position += 1
                continue
            if literal:
                parts.append(Part("".join(literal), "literal", True))
                literal = []
            parts.append(part)
        self.position += 1
        if literal or not parts:
            parts.append(Part("".join(literal), "literal", True))
        return parts

    def expansion(self, quoted: bool) -> Part | None:
        """A parameter or a substitution at the position, or None where the `$` is only a `$`."""
        text, start = self.text, self.position
        if text[start] == "`":
            end = text.find("`", start + 1)
            self.position = len(text) if end < 0 else end + 1
            return Part(text[start : self.position], "command", quoted)
        if text.startswith("$((", start):
            self.position = self.closing(start + 1, "(", ")")
            return Part(text[start : self.position], "arithmetic", quoted)
        if text.startswith("$(", start):
            self.position = self.closing(start + 1, "(", ")")
            return Part(text[start : self.position], "command", quoted)
        if text.startswith("${", start):
            self.position = self.closing(start + 1, "{", "}")
            return Part(text[start : self.position], "parameter", quoted)
        name = _NAME.match(text, start + 1)
        end = name.end() if name else start + 2 if text[start + 1 : start + 2] and text[start + 1] in "@*#?$!-0123456789" else 0
        if not end:
            return None
        self.position = end
        return Part(text[start:end], "parameter", quoted)

    def closing(self, position: int, opening: str, closing: str) -> int:
        """Just after the bracket that closes the one at `position`; quotes inside are skipped."""
        depth, text, length = 0, self.text, len(self.text)
        while position < length:
            character = text[position]
            if character == "\\":
                position += 2
                continue
            if character in "'\"" and (character == '"' or opening == "("):
                end = position + 1
                while end < length and text[end] != character:
                    end += 2 if text[end] == "\\" and character == '"' else 1
                position = end + 1
                continue
            if character == "#" and opening == "(" and text[position - 1] in " \t\n":
                end = text.find("\n", position)
                position = length if end < 0 else end
                continue
            depth += (character == opening) - (character == closing)
            position += 1
            if depth == 0:
                return position
        return length


def tokens(text: str) -> list[Token]:
    """Every token of `text`, in order."""
    return _Lexer(text).run()


def word(text: str) -> ShellWord:
    """`text` as one word, as between double quotes: blanks do not end it, parameters are found."""
    lexer = _Lexer(text.replace('"', '\\"') + '"')
    return ShellWord(tuple(lexer.double_quoted()), 0)
