"""The nouns of rewriting: a change of one setting, and an edit of one word of a command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from policy.records import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """One setting or environment variable to change. `words` say it from nothing; `path` is the setting's dotted name."""

    path: str
    value: Any
    words: tuple[str, ...] = ()
    variable: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """What is done to one word of the command, by its index: `replace` it, `remove` it, or `insert` words after it."""

    kind: str
    index: int
    words: tuple[str, ...] = ()


def applied(words: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """The words after the edits; indices are those of the given words."""
    made: list[str] = []
    replaced = {edit.index: edit.words for edit in edits if edit.kind == "replace"}
    removed = {edit.index for edit in edits if edit.kind == "remove"}
    for index, word in enumerate(words):
        if index in replaced:
            made.extend(replaced[index])
        elif index not in removed:
            made.append(word)
        for edit in edits:
            if edit.kind == "insert" and edit.index == index:
                made.extend(edit.words)
    return made
