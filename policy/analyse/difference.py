"""Where a condition answers differently with one thing at a place than with another.

Negated parts are subtracted as they stand: spelling their opposites out would multiply the boxes.
"""

from __future__ import annotations

from policy.analyse.boxes import Box
from policy.analyse.space import Space
from policy.analyse.tree import Place, conjuncts, replaced
from policy.conditions import All, Condition


def difference(space: Space, condition: Condition, place: Place, one: Condition, other: Condition, may: bool = True) -> tuple[list[Box], list[Box]]:
    """Boxes, and boxes to subtract from them: what is left is where the condition with `one` at the place is answered
    otherwise than with `other`, as far as `one` makes the part around the place true. `may` counts releases that were not
    read. Raises `TooWideError`."""
    parts = list(conjuncts(condition))
    around = next((index for index, (here, _, _) in enumerate(parts) if place[: len(here)] == here), None)
    if around is None:
        return space.boxes(replaced(condition, place, one), may), space.boxes(replaced(condition, place, other))
    here, part, _ = parts[around]
    wanted = [held for index, (_, held, negated) in enumerate(parts) if index != around and not negated]
    denied = [box for index, (_, held, negated) in enumerate(parts) if index != around and negated for box in space.boxes(held)]
    inside, outside = replaced(part, place[len(here) :], one), replaced(part, place[len(here) :], other)
    return space.boxes(All((*wanted, inside)), may), [*denied, *space.boxes(outside)]
