"""Parameter expansion: shell words -> fields, with what the script itself sets. What it does not set stays as written."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from functools import lru_cache

from policy.launchers.containers.reading.shell_arithmetic import arithmetic
from policy.launchers.shell_words import Part, ShellWord, Token, tokens
from policy.launchers.shell_words import word as as_word
from policy.records import dataclass, field

Place = tuple[str, int, int]  # file, line, column

MAX_VALUE = 100_000  # characters; a value that grows beyond this is left as written
_DEPTH = 12
_PARAMETER = re.compile(
    r"\$(?:\{(?P<length>#)?(?P<braced>[A-Za-z_]\w*|[@*#?0-9])(?P<index>\[[^\]]*\])?(?P<rest>.*)\}|(?P<name>[A-Za-z_]\w*|[@*#?$!0-9-]))$",
    re.DOTALL,
)
_FIELD = re.compile(r"(?:\$\([^()]{0,300}(?:\([^()]{0,300}\)[^()]{0,300}){0,5}\)|\$\{[^}]{0,300}\}|\{\{[^{}\n]{0,300}\}\}|\S)+")
_PIECE = re.compile(r"\S+")
MAX_FIELDS = 5_000  # of one word or array


@dataclass(frozen=True, slots=True)
class Field:
    """One field after expansion, with the place of what it says."""

    text: str
    place: Place


@dataclass(slots=True)
class Value:
    """What a variable holds: a text, or the elements of an array."""

    text: str
    place: Place
    elements: list[Field] | None = None
    exported: bool = False
    default: bool = False  # a default that the environment of the script may replace


@dataclass(slots=True)
class Variables:
    """The variables of a script and its positional parameters (None: not known)."""

    values: dict[str, Value] = field(default_factory=dict)
    positional: list[Field] | None = None

    def copy(self) -> Variables:
        """The same variables, to be changed apart."""
        return Variables(dict(self.values), None if self.positional is None else list(self.positional))

    def get(self, name: str) -> Value | None:
        """What a name or a positional parameter holds."""
        if name in {"@", "*"}:
            if self.positional is None:
                return None
            rest = self.positional[1:]
            return Value(" ".join(item.text for item in rest), rest[0].place if rest else ("", 1, 1), rest)
        if name.isdigit():
            if self.positional is None or int(name) >= len(self.positional):
                return None
            item = self.positional[int(name)]
            return Value(item.text, item.place)
        return self.values.get(name)


def split(text: str, place: Place) -> list[Field]:
    """Field splitting of an unquoted value; substitutions that stand in it as written are not torn."""
    pattern = _FIELD if len(text) < 20_000 and ("$" in text or "{{" in text) else _PIECE
    return [Field(match.group(0), place) for match in pattern.finditer(text)][:MAX_FIELDS]


def expand(word: ShellWord, variables: Variables, place: Callable[[int], Place], depth: int = 0) -> list[Field]:
    """The fields that `word` becomes."""
    here = place(word.offset)
    fields: list[Field] = []
    buffer: list[str] = []
    started = False
    where: Place | None = None
    alone = len(word.parts) == 1

    def finish() -> None:
        nonlocal started, where
        if started:
            fields.append(Field("".join(buffer)[:MAX_VALUE], where or here))
        buffer.clear()
        started, where = False, None

    for part in word.parts:
        if part.kind == "literal":
            text = part.text
            if part is word.parts[0] and not part.quoted and (text == "~" or text.startswith("~/")):
                text = text.replace("~", "$HOME", 1)
            buffer.append(text)
            started = started or bool(part.text) or part.quoted
            continue
        value = evaluate(part, variables, depth)
        if value is None:
            buffer.append(open_text(part))
            started = True
        elif value.elements is not None and part.quoted and any(one.kind == "literal" and " " in one.text for one in word.parts):
            buffer.append(" ".join(item.text for item in value.elements))  # inside a longer text, as in bash -c "..."
            started = True
        elif value.elements is not None and (is_all(part) or not part.quoted):
            items = value.elements if part.quoted else [piece for item in value.elements[:MAX_FIELDS] for piece in split(item.text, item.place)]
            for index, item in enumerate(items):
                if index:
                    finish()
                buffer.append(item.text)
                started = True
                where = item.place if len(items) > 1 or alone else None
        elif part.quoted:
            buffer.append(value.text)
            started = True
            where = value.place if alone else where
        else:
            pieces = split(value.text, value.place)
            if value.text[:1].isspace():
                finish()
            for index, item in enumerate(pieces):
                if index:
                    finish()
                buffer.append(item.text)
                started = True
                where = item.place if len(pieces) > 1 or alone else None
            if pieces and value.text[-1:].isspace():
                finish()
    finish()
    return fields[:MAX_FIELDS]


def text_of(word: ShellWord, variables: Variables, depth: int = 0) -> str:
    """`word` as one text, as in an assignment: no field splitting."""
    result = []
    for part in word.parts:
        value = None if part.kind == "literal" else evaluate(part, variables, depth)
        result.append(open_text(part) if value is None else value.text)
    return "".join(result)[:MAX_VALUE]


def open_text(part: Part) -> str:
    """An expansion that is not known, as written; of `${NAME:?message}` only the name."""
    required = re.match(r"\$\{(\w+):?\?", part.text) if part.kind == "parameter" else None
    return f"${required.group(1)}" if required is not None else part.text


def text_in(text: str, variables: Variables) -> str:
    """`text` with its parameters expanded, as in a here-document."""
    return text_of(as_word(text), variables) if "$" in text or "`" in text else text


def is_default(word: ShellWord, variables: Variables) -> bool:
    """Whether something in `word` is only a default."""
    return any(value is not None and value.default for part in word.parts if part.kind == "parameter" for value in (evaluate(part, variables, 0),))


def is_all(part: Part) -> bool:
    """Whether an expansion gives every element apart (`"${A[@]}"`)."""
    return part.text in {"$@", "${@}"} or part.text.endswith("[@]}") or "[@]:" in part.text


def evaluate(part: Part, variables: Variables, depth: int) -> Value | None:
    """What an expansion gives, or None where the script does not say."""
    if depth > _DEPTH:
        return None
    if part.kind == "arithmetic":
        return number_of(part.text[3:-2], variables)
    if part.kind == "command":
        return substitution(part.text, variables, depth)
    match = _PARAMETER.match(part.text)
    if match is None:
        return None
    name = match["braced"] or match["name"]
    value = variables.get(name)
    if value is not None and match["index"] not in {None, "[@]", "[*]"}:
        index = match["index"][1:-1]
        elements = value.elements or [Field(value.text, value.place)]
        if not index.lstrip("-").isdigit() or not -len(elements) <= int(index) < len(elements):
            return None
        value = Value(elements[int(index)].text, elements[int(index)].place)
    elif value is not None and value.elements and name not in {"@", "*"} and match["index"] is None:
        value = Value(value.elements[0].text, value.elements[0].place)
    if match["length"]:
        if value is None:
            return None
        return Value(str(len(value.elements) if value.elements is not None and match["index"] else len(value.text)), value.place)
    rest = match["rest"] or ""
    return _modified(value, rest, name, variables, depth) if rest else value


def _modified(value: Value | None, rest: str, name: str, variables: Variables, depth: int) -> Value | None:
    where: Place = value.place if value else ("", 1, 1)
    operation = re.match(r":?[-=+?]", rest)
    if operation is not None:
        sign, argument = operation.group(0)[-1], rest[operation.end() :]
        given = value is not None and (bool(value.text) or bool(value.elements) or ":" not in operation.group(0))
        if sign == "+":
            return Value(_inner(argument, variables, depth), where) if given else Value("", where)
        if given or sign == "?":
            return value
        result = Value(_inner(argument, variables, depth), where, default=True)
        if sign == "=":
            variables.values[name] = result
        return result
    if value is None:
        return None
    text = value.text
    if rest[0] in "#%":
        longest = rest[:2] in {"##", "%%"}
        return Value(_cut(text, _inner(rest[1 + longest :], variables, depth), rest[0] == "#", longest), where)
    if rest[0] == "/":
        pattern, _, replacement = rest.lstrip("/#%").partition("/")
        if any(sign in pattern for sign in "*?["):
            return None
        return Value(text.replace(pattern, _inner(replacement, variables, depth), -1 if rest.startswith("//") else 1) if pattern else text, where)
    if rest in {",,", "^^", ",", "^"}:
        changed = text.lower() if rest[0] == "," else text.upper()
        return Value(changed if len(rest) == 2 else changed[:1] + text[1:], where)
    slice_ = re.match(r":\s*(-?\d+)(?::(-?\d+))?$", rest)
    if slice_ is not None and value.elements is None:
        start, length = int(slice_[1]), slice_[2]
        cut = text[start:]
        return Value(cut if length is None else cut[: int(length)], where)
    return None


def _inner(argument: str, variables: Variables, depth: int) -> str:
    if len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\"":
        argument = argument[1:-1]
    return text_of(as_word(argument), variables, depth + 1)


def _cut(text: str, pattern: str, front: bool, longest: bool) -> str:
    if len(text) > 500 or len(pattern) > 100:
        return text
    expression = re.compile(translate(pattern))
    spans = range(len(text) + 1)
    hits = [n for n in spans if expression.match(text[:n] if front else text[n:])]
    if not hits:
        return text
    if front:
        return text[max(hits) if longest else min(hits) :]
    return text[: min(hits) if longest else max(hits)]


@lru_cache(maxsize=512)
def _tokens(text: str) -> tuple[Token, ...]:
    return tuple(tokens(text))


def number_of(expression: str, variables: Variables) -> Value | None:
    """What `$((expression))` gives."""

    def look_up(name: str) -> str | None:
        value = variables.get(name)
        return None if value is None else value.text

    result = arithmetic(expression, look_up)
    return None if result is None else Value(str(result), ("", 1, 1))


def substitution(text: str, variables: Variables, depth: int = 0) -> Value | None:
    """`$(echo X)`, `$(basename X)` and `$(dirname X)` of what is known; anything else has to run to be known."""
    inner = text[2:-1] if text.startswith("$(") else text.strip("`")
    if inner in variables.values:  # Kubernetes replaces $(NAME) before the shell sees it
        return variables.values[inner]
    parsed = _tokens(inner[:2000])
    if any(token.kind != "word" for token in parsed):
        return None
    place: Callable[[int], Place] = lambda offset: ("", 1, 1)  # noqa: E731
    fields = [item.text for token in parsed if token.word is not None for item in expand(token.word, variables, place, depth + 1)]
    if len(fields) < 2 or any("$" in item or "`" in item for item in fields):
        return None
    if fields[0] == "echo" and not fields[1].startswith("-"):
        return Value(" ".join(fields[1:]), ("", 1, 1))
    if fields[0] in {"basename", "dirname"} and len(fields) == 2:
        head, _, tail = fields[1].rstrip("/").rpartition("/")
        return Value(tail if fields[0] == "basename" else head or ".", ("", 1, 1))
    return None
