"""Edits of a command's words where they stand in a file: a further item of a list, a further word of a shell line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence

from policy.launchers.found import FoundLaunch, Word
from policy.launchers.patching.text import Edits, PatchProblem
from policy.launchers.rewriting import Edit
from policy.records import dataclass

#: How many places are tried for new words.
ANCHORS = 8
#: A word of a shell line with its quotes.
_SHELL_WORD = re.compile(r"""(?:[^\s"'\\]|"[^"]*"|'[^']*'|\\\S)+""")
#: Characters that a word goes on with, so that a text found beside them is only a part of another word.
_WITHIN = re.compile(r"[\w-]")


@dataclass(frozen=True, slots=True)
class Token:
    """Where a word stands: line and columns from 0, and the quote around it (empty for none)."""

    line: int
    start: int
    end: int
    quote: str


def word_texts(text: str, found: FoundLaunch, edits: Sequence[Edit]) -> Iterator[str]:
    """The text with the edits, new words at the end of the command first, then after its earlier options."""
    anchors = _anchors(found, edits)
    for anchor in anchors:
        moved = [Edit(edit.kind, anchor if edit.kind == "insert" and edit.index == len(found.words) - 1 else edit.index, edit.words) for edit in edits]
        made = Edits(text)
        try:
            for edit in moved:
                _edit(made, found.words[edit.index], edit)
        except PatchProblem:
            if anchor == anchors[-1]:
                raise
            continue
        yield made.text()


def _anchors(found: FoundLaunch, edits: Sequence[Edit]) -> list[int]:
    """The words after which new ones may stand: the last of all, and the last ones of options in other lines."""
    last = len(found.words) - 1
    if not any(edit.kind == "insert" and edit.index == last for edit in edits):
        return [last]
    anchors = [last]
    for index in range(last - 1, 0, -1):
        word, following = found.words[index], found.words[index + 1]
        if following.text.startswith("-") and word.origin.line != found.words[anchors[-1]].origin.line:
            anchors.append(index)
    return anchors[:ANCHORS]


def token_of(lines: Sequence[str], word: Word) -> Token | None:
    """Where a word stands in the text; None where it does not stand there literally."""
    origin = word.origin
    if origin.line is None or not 0 < origin.line <= len(lines):
        return None
    number, line = origin.line - 1, lines[origin.line - 1]
    column = max(0, (origin.column or 1) - 1)
    written = [(quote + body + quote, quote) for quote in ('"', "'") for body in _bodies(word.text, quote)] + [(word.text, "")]
    for start in (column, column - 1, column + 1, *_later(line, column, word.text)):
        for form, quote in written:
            if form and start >= 0 and line.startswith(form, start) and (quote or _whole(line, start, start + len(form))):
                return Token(number, start, start + len(form), quote)
    return None


def _whole(line: str, start: int, end: int) -> bool:
    """Whether a text without quotes is a word by itself in its line."""
    before, after = line[start - 1 : start], line[end : end + 1]
    return not (_WITHIN.match(before) and _WITHIN.match(line[start])) and not (_WITHIN.match(after) and _WITHIN.match(line[end - 1]))


def anchor_of(lines: Sequence[str], word: Word) -> Token | None:
    """The place after which new words may stand: the word's own, or that of the shell word or list item it was made from."""
    token = token_of(lines, word)
    origin = word.origin
    if token is not None or origin.line is None or not 0 < origin.line <= len(lines):
        return token
    line, column = lines[origin.line - 1], max(0, (origin.column or 1) - 1)
    match = _SHELL_WORD.match(line, column)
    return Token(origin.line - 1, column, match.end(), match[0][0] if match[0][0] in "\"'" else "") if match is not None else None


def _bodies(text: str, quote: str) -> list[str]:
    return [text, text.replace('"', '\\"')] if quote == '"' else [text, text.replace("'", "''")]


def _later(line: str, column: int, text: str) -> list[int]:
    """Further places of the text in the line, where the place given is that of something around it."""
    found: list[int] = []
    start = line.find(text, column) if text else -1
    while start >= 0:
        found.extend((start - 1, start) if start else (start,))
        start = line.find(text, start + 1)
    return found


def _edit(made: Edits, word: Word, edit: Edit) -> None:
    if edit.kind == "insert":
        _insert(made, word, edit)
        return
    token = token_of(made.lines, word)
    if token is None:
        raise PatchProblem(f"`{word.text}` does not stand in the file as it is")
    if edit.kind == "remove":
        _remove(made, token)
    else:
        made.replace(token.line, token.start, token.end, " ".join(_quoted(made, one, token) for one in edit.words))


def _insert(made: Edits, word: Word, edit: Edit) -> None:
    token = anchor_of(made.lines, word)
    if token is None:
        raise PatchProblem("the command's words do not stand in the file as they are")
    line = made.lines[token.line]
    before, after = line[: token.start].strip(), line[token.end :].strip()
    if _is_item(before) and (not after or after.startswith("#")):
        margin = line[: line.index("-")] + before
        made.add_after(token.line, [f"{margin} {list_item(one, token.quote)}" for one in edit.words])
    elif after[:1] in (",", "]") and token.quote:
        made.replace(token.line, token.end, token.end, "".join(f", {json.dumps(one)}" for one in edit.words))
    else:
        made.replace(token.line, token.end, token.end, "".join(f" {_quoted(made, one, token)}" for one in edit.words))


def _is_item(before: str) -> bool:
    return before in ("-", "- -")


def list_item(word: str, quote: str = "") -> str:
    """A word as an item of a YAML list; in quotes where its neighbour is, or where YAML would read something else."""
    if quote == "'" and "'" not in word:
        return f"'{word}'"
    return word if not quote and re.fullmatch(r"-{1,2}[A-Za-z][\w./=+-]*", word) else json.dumps(word)


def _quoted(made: Edits, word: str, token: Token) -> str:
    """A word as its surroundings take it: an element of a list of the file, or a word of a shell line."""
    line = made.lines[token.line]
    before, after = line[: token.start].strip(), line[token.end :].strip()
    if _is_item(before) or (after[:1] in (",", "]") and token.quote):
        return list_item(word, token.quote)
    return shlex.quote(word)


def _remove(made: Edits, token: Token) -> None:
    line = made.lines[token.line]
    if line[: token.start].strip() == "-":
        made.replace(token.line, 0, len(line), "")
        return
    end = token.end
    if line[end:].lstrip()[:1] == ",":
        end += line[end:].index(",") + 1
    while end < len(line) and line[end] == " ":
        end += 1
    made.replace(token.line, token.start, end, "")
