"""Edits of a text by line and column: parts of lines replaced, lines added; everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class PatchProblem(ValueError):
    """The file cannot be changed; the message says why."""


class Edits:
    """Edits of one text; lines and columns count from 0 and are those of the text as it was given."""

    def __init__(self, text: str) -> None:
        self.lines: Sequence[str] = text.split("\n")
        self._changes: list[tuple[int, int, int, str]] = []
        self._added: list[tuple[int, list[str]]] = []

    def replace(self, line: int, start: int, end: int, new: str) -> None:
        """Put `new` in place of the characters from `start` to `end`."""
        self._changes.append((line, start, end, new))

    def add_after(self, line: int, new: Iterable[str]) -> None:
        """Add whole lines after a line; -1 is the top of the text."""
        self._added.append((line, list(new)))

    def indent(self, line: int) -> str:
        """The white space that a line begins with."""
        text = self.lines[line]
        return text[: len(text) - len(text.lstrip())]

    def text(self) -> str:
        """The text with every edit made. Lines that an edit emptied are gone."""
        made = list(self.lines)
        # from the end, and of several at one place the last one first, so that they stand in the order they were made
        for line, start, end, new in [change for _, change in sorted(enumerate(self._changes), key=lambda one: (*one[1][:3], one[0]), reverse=True)]:
            made[line] = made[line][:start] + new + made[line][end:]
        removed = {line for line, _, _, new in self._changes if new == "" and not made[line].strip()}
        result: list[str] = [text for after, group in self._added if after < 0 for text in group]
        for number, text in enumerate(made):
            if number not in removed:
                result.append(text)
            for after, group in self._added:
                if after == number:
                    result.extend(group)
        return "\n".join(result)
