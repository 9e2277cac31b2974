"""A condition as a nested Markdown list, named conditions with their titles."""

from __future__ import annotations

from policy.conditions import All, AnyOf, Atom, Condition, Named, Not
from policy.pack import Pack


def lines(condition: Condition, pack: Pack, indent: int = 0, inline: frozenset[str] = frozenset()) -> list[str]:
    """One list item a part."""
    pad = "  " * indent + "- "
    if isinstance(condition, Atom):
        return [f"{pad}`{condition.fact}` {condition.text}"]
    if isinstance(condition, Named):
        title = pack.condition_titles.get(condition.name, "")
        return [f"{pad}**{condition.name}**{': ' + title if title else ''}", *lines(condition.body, pack, indent + 1)]
    if isinstance(condition, Not):
        return [f"{pad}not", *lines(condition.part, pack, indent + 1)]
    if not condition.parts:
        return [f"{pad}{'always' if isinstance(condition, All) else 'never'}"]
    word = "all of" if isinstance(condition, All) else "any of"
    assert isinstance(condition, All | AnyOf)
    return [f"{pad}{word}", *(line for part in condition.parts for line in lines(part, pack, indent + 1))]
