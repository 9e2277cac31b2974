"""Words that know where they come from while an engine's parser takes them apart and puts them together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policy.launchers.found import Word
from policy.origin import Origin
from policy.records import replace

_SHOWN = 100


class Placed(str):
    """A word with its origin. `written` is what the user wrote for it, `spelling` the option's name in that. A word that
    holds JSON made of several others has `leaves`: path -> the word that set it."""

    origin: Origin
    written: str
    spelling: str
    leaves: Mapping[tuple[str, ...], Placed]

    def __new__(
        cls, text: str, origin: Origin, written: str | None = None, spelling: str | None = None, leaves: Mapping[tuple[str, ...], Placed] | None = None
    ) -> Placed:
        """A word; what is not given follows from the text."""
        made = super().__new__(cls, text)
        made.origin = origin
        made.written = text if written is None else written
        made.spelling = made.written.split("=", 1)[0] if spelling is None else spelling
        made.leaves = leaves or {}
        return made

    def with_text(self, text: str) -> Placed:
        """Another text at the same place, still shown as it was written."""
        return Placed(text, self.origin, self.written, self.spelling, self.leaves)


def place(words: Sequence[Word]) -> list[Placed]:
    """The words of a command. Each is an argument, wherever the command stands: a manifest's words too come before the
    keys of a configuration file."""
    placed = []
    for number, word in enumerate(words, 1):
        origin = word.origin
        if origin.argument is None:
            kind = "argument" if origin.kind in ("file", "unknown") else origin.kind
            origin = replace(origin, kind=kind, argument=number)
        placed.append(Placed(word.text, origin))
    return placed


def shown(text: str) -> str:
    """A word short enough for a message."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def origin_of(option: Placed, values: Sequence[str] = ()) -> Origin:
    """The origin of a setting: where its option stands, with the words as they were written."""
    if option.origin.kind == "file":
        return replace(option.origin, detail=shown(option.written))
    apart = [value.written for value in values if isinstance(value, Placed) and value is not option and value.origin != option.origin]
    named = f"{option.origin.detail}: " if option.origin.detail and option.origin.kind != "argument" else ""  # the variable it stands in
    return replace(option.origin, detail=shown(named + " ".join([option.written, *apart])))


def tagged(parts: Any, word: str) -> Any:
    """The result of argparse's look-up of a word, each text in it placed where the word stands; argparse hands these
    texts on to the actions."""
    if not isinstance(word, Placed):
        return parts
    if isinstance(parts, list):
        return [tagged(part, word) for part in parts]
    if isinstance(parts, tuple):
        return (parts[0], *(word.with_text(part) if isinstance(part, str) else part for part in parts[1:]))
    return parts
