"""Which boxes hold a launch at all.

A derived number is a dimension of its own. Whether a box agrees with the facts that the number is computed from is
asked of the functions of `policy.derive`, lifted to sets. What they show to be impossible is kept as a box, so that it
is never asked twice and takes part in the next subtraction. The functions give supersets: nothing possible is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from policy.analyse.boxes import Box, TooWideError, inside, outside
from policy.analyse.concrete import known_values, launch_in
from policy.analyse.lookup import BOUND, BoxLookup, all_inputs
from policy.analyse.lowering import TABULATED
from policy.analyse.relevant import inputs_of
from policy.analyse.space import Space
from policy.pack import REQUEST_PREFIX, TRAIT_PREFIX
from policy.records import dataclass, field
from policy.values import Discrete, Interval, Ordered

ONE = Ordered.exactly(1, 1)
SEVERAL = Ordered((Interval(2, True, None, False),), False, 1)
#: Boxes that are tried before a region counts as too wide to be made concrete, and once one way to state it is known.
TRIES, MORE_TRIES = 4000, 24


def declare(space: Space) -> None:
    """Make dimensions of whatever derived dimensions are computed from; sizes of the parallelism are cut at one and
    several."""
    for name in [one for one in space.dimensions if one in BOUND]:
        for one in all_inputs(space, name):
            if one.startswith(TRAIT_PREFIX) and space.traits == TABULATED:
                _cut_by_trait(space, one)
            else:
                space.cut(one, *((ONE, SEVERAL) if one.startswith("parallel.") and space.fact(one).type == "integer" else ()))


def _cut_by_trait(space: Space, name: str) -> None:
    for product in space.pack.products.values():
        trait = product.traits.get(name)
        for interval, _ in trait.breakpoints.segments() if trait is not None else ():
            space.cut(product.version_fact, Ordered((interval,)))


@dataclass(slots=True)
class Feasible:
    """Asks of boxes whether launches lie in them. `impossible` are the boxes found to hold none."""

    space: Space
    impossible: list[Box] = field(default_factory=list)
    _bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _usual: dict[str, int] = field(default_factory=dict)
    _known: dict[str, list[Any]] = field(default_factory=dict)
    _inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _reach: dict[tuple[str | int | None, ...], int] = field(default_factory=dict)
    _tries: int = 0
    _sure: bool = True
    _fallback: Box | None = None

    def part(self, region: Box, boxes: Sequence[Box], sure: bool = True) -> Box | None:
        """A part of the region outside the boxes that holds a launch, narrowed so that derived facts agree; None where
        there is none. Raises `TooWideError`."""
        while True:
            found = outside(region, [*boxes, *self.impossible], self.space.full)
            if found is None:
                return None
            narrowed = self.narrowed(found, sure)
            if narrowed is not None:
                return narrowed

    def narrowed(self, box: Box, sure: bool = True) -> Box | None:
        """The box with the inputs of its derived facts narrowed until they agree for sure (with `sure`; else until nothing
        speaks against it), or one where they can agree; None where they cannot."""
        self._tries, self._fallback, self._sure = TRIES, None, sure
        found = self._narrowed(box)
        return self._last_resort(box) if found is None else found

    def holds_launches(self, boxes: Iterable[Box], outside_of: Sequence[Box] = ()) -> bool:
        """Whether launches lie in the boxes outside those, as far as derived facts tell."""
        return any(self.part(box, outside_of, sure=False) is not None for box in boxes)

    def _last_resort(self, box: Box) -> Box | None:
        """Where no part agrees for sure: the part looked at last if a launch of it can be stated, else the whole box."""
        if self._fallback is None:
            return None
        return self._fallback if launch_in(self, self._fallback) is not None else box

    def _narrowed(self, box: Box) -> Box | None:
        if any(inside(box, other) for other in self.impossible):
            return None
        self._tries -= 1
        if self._tries < 0:
            if self._fallback is None:
                raise TooWideError
            return None
        open_: list[str] = []
        for name, mask in box.items():
            if name in BOUND and mask != self.space.full[name] and self.bases(name):
                reached = self._reached(name, box)
                if not reached & mask:
                    self._learn(name, box)
                    return None
                if reached & ~mask:
                    open_.append(name)
        if not open_:
            return box
        if self._fallback is None:
            self._fallback = box
            self._tries = min(self._tries, MORE_TRIES)
        for fact in (fact for name in open_ for fact in self.bases(name)):
            held = box.get(fact, self.space.full[fact])
            if held & (held - 1):
                for bit in self.bits(fact, held):
                    found = self._narrowed({**box, fact: bit})
                    if found is not None:
                        return found
                return None
        if not self._sure or launch_in(self, box, state=False, most=16) is not None:
            return box
        self._fallback = box  # its facts agree as far as sets tell: better than the wider box it is a part of
        return None

    def filled(self, box: Box, leave: Iterable[str] = ()) -> Box:
        """The box with every other fact at its ordinary value, so that a launch of it can be decided."""
        left = set(leave)
        open_ = (name for name, full in self.space.full.items() if name not in box and full & (full - 1) and name not in left and not self.bases(name))
        return self._with_all(box, {name: self.bits(name, self.space.full[name])[0] for name in open_})

    def _with_all(self, box: Box, usual: Box) -> Box:
        """The box with as many of these cells as launches can have there; halves are tried where not all can."""
        whole = {**box, **usual}
        if not usual or self.narrowed(whole, sure=False) is not None:
            return whole
        if len(usual) == 1:
            return box
        names = list(usual)
        for half in (names[: len(names) // 2], names[len(names) // 2 :]):
            box = self._with_all(box, {name: usual[name] for name in half})
        return box

    def bases(self, name: str) -> tuple[str, ...]:
        """The dimensions that a derived fact rests on, those with an ordinary value first."""
        held = self._bases.get(name)
        if held is None and name not in BOUND:
            held = self._bases[name] = ()
        elif held is None:
            found: dict[str, None] = {}
            waiting = [name]
            while waiting:
                inputs = inputs_of(self.space.pack, waiting.pop(0), None)
                for one in inputs:
                    if one in self.space.full and one not in BOUND:
                        found[one] = None
                    waiting.append(one)
            held = self._bases[name] = tuple(sorted(found, key=lambda one: self.space.fact(one).type == "integer" and self.space.fact(one).assume is None))
        return held

    def bits(self, name: str, mask: int) -> list[int]:
        """The single cells of a mask, the ordinary ones first, newer releases before older ones."""
        bits = [1 << number for number in range(mask.bit_length()) if mask >> number & 1]
        usual = self.ordinary(name)
        return sorted(reversed(bits) if self.space.fact(name).type == "version" else bits, key=lambda bit: not bit & usual)

    def ordinary(self, name: str) -> int:
        """The cells of what is assumed of a fact, of engines' defaults, of engines that the pack knows and of releases
        that it lists; 0 where nothing of it is known."""
        held = self._usual.get(name)
        if held is None:
            held = self._usual[name] = self._ordinary(name)
        return held

    def known(self, name: str) -> list[Any]:
        """Values of a fact that exist, remembered."""
        held = self._known.get(name)
        if held is None:
            held = self._known[name] = known_values(self.space.pack, name)
        return held

    def _ordinary(self, name: str) -> int:
        products = self.space.pack.products.values()
        if name.startswith(REQUEST_PREFIX):
            return sum(1 << number for number, cell in enumerate(self.space.cells(name)) if cell.absent)
        if name == "engine.name":
            return sum(self.space.mask(name, Discrete.exactly(product.name)) for product in products if product.role == "engine" and product.gates)
        known = self.known(name)
        if known:
            return sum(1 << number for number, cell in enumerate(self.space.cells(name)) if any(value in cell for value in known))
        fact = self.space.fact(name)
        raw = fact.assume
        if raw is None:
            rows = [product.defaults[name].rows for product in self.space.pack.products.values() if name in product.defaults]
            raw = next((value for held in rows for _, value in reversed(held) if value is not None), None)
        if raw is None:
            return 1 if fact.type == "integer" else 0
        return self.space.touching(name, fact.values(raw))

    def _learn(self, name: str, box: Box) -> None:
        """Keep why a derived fact cannot be in its cells here, as wide as that stays true."""
        kept: Box = {fact: box[fact] for fact in (*self.bases(name), *(one for one in all_inputs(self.space, name) if one in BOUND)) if fact in box}
        for fact in list(kept):
            wider = {one: mask for one, mask in kept.items() if one != fact}
            if self._out_of_reach(name, wider, box[name]):
                kept = wider
        for fact in list(kept):
            for number in range(self.space.full[fact].bit_length()):
                wider = {**kept, fact: kept[fact] | 1 << number}
                if wider != kept and self._out_of_reach(name, wider, box[name]):
                    kept = wider
        self.impossible.append({**kept, name: box[name]})

    def _out_of_reach(self, name: str, box: Box, mask: int) -> bool:
        return not self._reached(name, box) & mask

    def _reached(self, name: str, box: Box) -> int:
        """The cells that a derived fact can be in somewhere in a box, remembered by what it is computed from."""
        inputs = self._inputs.get(name)
        if inputs is None:
            inputs = self._inputs[name] = tuple(sorted(all_inputs(self.space, name)))
        key = (name, *(box.get(one) for one in inputs))
        held = self._reach.get(key)
        if held is None:
            held = self._reach[key] = self.space.touching(name, BOUND[name](BoxLookup(self.space, box)))
        return held
