"""Cases made from a condition: for every comparison, launches on both sides of each of its constants in which it decides.

A case states every fact that the condition asks for, traits and derived facts too, so that it tests the condition and
not the tables behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.analyse.boxes import Box, TooWideError, meet, outside
from policy.analyse.cells import MOST_NAMES, representatives
from policy.analyse.concrete import known_values, written
from policy.analyse.difference import difference
from policy.analyse.lookup import exactly
from policy.analyse.lowering import PROBED
from policy.analyse.space import Space
from policy.analyse.tree import Place, atoms_with_places
from policy.conditions import ALWAYS, NEVER, Atom, Condition, Truth
from policy.facts import Fact
from policy.pack import Pack
from policy.records import dataclass
from policy.values import Discrete, Values


@dataclass(frozen=True, slots=True)
class Point:
    """One value for each fact of a condition; also a lookup for it."""

    held: Mapping[str, Values]
    facts: Mapping[str, Any]

    def values(self, fact: str) -> Values:
        """The value of a fact as a set."""
        return self.held[fact]

    def launch(self) -> dict[str, Any]:
        """The facts as one writes them."""
        return written(self.facts)


@dataclass(frozen=True, slots=True)
class GeneratedCase:
    """A launch for a condition. `about` is the comparison that decides it."""

    condition: Condition
    point: Point
    about: str

    @property
    def truth(self) -> Truth:
        """What the condition says of the launch: true or false."""
        return self.condition.truth(self.point)


def generated(pack: Pack, condition: Condition) -> list[GeneratedCase]:
    """Cases on both sides of every constant of a condition. A comparison that never decides gives none."""
    space = Space(pack, PROBED)
    space.add(condition)
    space.freeze()
    known = Known(pack, condition)
    found: dict[tuple[tuple[str, Any], ...], GeneratedCase] = {}
    for place, atom in atoms_with_places(condition):
        for facts in _around(space, condition, place, atom, known):
            key = tuple(sorted(facts.items(), key=lambda one: one[0]))
            if key not in found:
                point = Point({name: known.exactly(space, name, value) for name, value in facts.items()}, facts)
                found[key] = GeneratedCase(condition, point, f"{atom.fact} {atom.text}")
    return list(found.values())


def _around(space: Space, condition: Condition, place: Place, atom: Atom, known: Known) -> Iterator[dict[str, Any]]:
    """Launches in which one comparison decides, with its fact at the ends of every cell."""
    sides = []
    for one, other in ((ALWAYS, NEVER), (NEVER, ALWAYS)):
        try:
            sides.append(difference(space, condition, place, one, other, may=False))
        except TooWideError:
            continue
    for number, cell in enumerate(space.cells(atom.fact)):
        box = next((found for boxes, denied in sides if (found := _in_cell(space, boxes, denied, atom.fact, 1 << number)) is not None), None)
        if box is None:
            continue
        rest = {name: _one(space, name, box, known) for name in space.full if name != atom.fact}
        for value in _values(space.fact(atom.fact), cell, known(atom.fact)):
            yield {**rest, atom.fact: value}


def _in_cell(space: Space, boxes: Sequence[Box], denied: Sequence[Box], fact: str, bit: int) -> Box | None:
    """A part of the boxes outside the denied ones in which one fact is in one cell."""
    for box in boxes:
        met = meet(box, {fact: bit})
        found = outside(met, denied, space.full) if met is not None else None
        if found is not None:
            return found
    return None


def _values(fact: Fact, cell: Values, known: Sequence[Any]) -> list[Any]:
    """Values at the ends of a cell: known ones, and the constants themselves; every small set of names."""
    if fact.type == "set":
        return (cell.points(1 << MOST_NAMES) or [])[:16]
    values = representatives(fact, cell, known)
    return list(dict.fromkeys([*values, *representatives(fact, cell)])) if fact.type == "version" and known else values


class Known:
    """Known values of facts, with the engine's releases where the condition names one engine."""

    def __init__(self, pack: Pack, condition: Condition) -> None:
        self.pack = pack
        names = [atom.accepted for atom in condition.atoms() if atom.fact == "engine.name" and isinstance(atom.accepted, Discrete)]
        engines = [product for product in pack.products.values() if product.role == "engine" and (not names or any(product.name in one for one in names))]
        self.engine = next((product.releases for product in engines if product.releases), ())
        self._held: dict[str, Sequence[Any]] = {"engine.version": self.engine}
        self._first: dict[tuple[str, int], Any] = {}
        self._exactly: dict[tuple[str, type, Any], Values] = {}

    def __call__(self, name: str) -> Sequence[Any]:
        """The known values of one fact."""
        held = self._held.get(name)
        if held is None:
            held = self._held[name] = known_values(self.pack, name)
        return held

    def exactly(self, space: Space, name: str, value: Any) -> Values:
        """The set of one value of a fact, one and the same for equal ones."""
        key = (name, type(value), value)
        held = self._exactly.get(key)
        if held is None:
            held = self._exactly[key] = exactly(space.fact(name), value)
        return held

    def first(self, space: Space, name: str, number: int) -> Any:
        """A value of one cell of a fact."""
        if (name, number) not in self._first:
            self._first[name, number] = representatives(space.fact(name), space.cells(name)[number], self(name))[0]
        return self._first[name, number]


def _one(space: Space, name: str, box: Mapping[str, int], known: Known) -> Any:
    mask = box.get(name, space.full[name])
    return known.first(space, name, (mask & -mask).bit_length() - 1)
