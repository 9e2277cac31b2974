"""Which boxes hold a launch at all, and one launch of a box.

A derived number is a dimension of its own. Whether a box agrees with the facts that the number is computed from is
asked of the functions of `policy.derive`, lifted to sets. What they show to be impossible is kept as a box, so that it
is never asked twice and takes part in the next subtraction. The functions give supersets: nothing possible is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from itertools import product as combinations_of
from typing import Any

from policy.analyse.boxes import Box, TooWideError, inside, outside
from policy.analyse.cells import representatives
from policy.analyse.lowering import TABULATED
from policy.analyse.relevant import inputs_of
from policy.analyse.space import Space
from policy.derive import DERIVED
from policy.facts import Fact
from policy.launch import Facts, Launch
from policy.pack import ENGINE_TRAITS, REQUEST_PREFIX, TRAIT_PREFIX, Pack, trait_values
from policy.values import ABSENT, Discrete, Interval, Ordered, Values

#: Derived from the words of a launch too (local versions, who pinned what), which a box does not hold: free dimensions.
WORDS = frozenset(name for name in DERIVED if name.startswith("packages_agree."))
BOUND = {name: function for name, function in DERIVED.items() if name not in WORDS}
ONE = Ordered.exactly(1, 1)
SEVERAL = Ordered((Interval(2, True, None, False),), False, 1)
#: Boxes that are tried before a region counts as too wide to be made concrete, and once one way to state it is known.
TRIES, MORE_TRIES = 4000, 24


def declare(space: Space) -> None:
    """Make dimensions of whatever derived dimensions are computed from; sizes of the parallelism are cut at one and
    several."""
    for name in [one for one in space.dimensions if one in BOUND]:
        for one in _inputs(space, name):
            if one.startswith(TRAIT_PREFIX) and space.traits == TABULATED:
                _cut_by_trait(space, one)
            else:
                space.cut(one, *((ONE, SEVERAL) if one.startswith("parallel.") and space.fact(one).type == "integer" else ()))


def _inputs(space: Space, name: str) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for one in inputs_of(space.pack, waiting.pop(), None):
            tables = one.startswith(TRAIT_PREFIX) and space.traits == TABULATED
            if one not in found:
                found.add(one)
                if one in BOUND or tables:
                    waiting.append(one)
    return found


def _cut_by_trait(space: Space, name: str) -> None:
    for product in space.pack.products.values():
        trait = product.traits.get(name)
        for interval, _ in trait.breakpoints.segments() if trait is not None else ():
            space.cut(product.version_fact, Ordered((interval,)))


class _Lookup:
    """Facts with the values of a box, derived ones computed as far as the box agrees."""

    def __init__(self, space: Space, box: Mapping[str, int]) -> None:
        self.space, self.box = space, box
        self._held: dict[str, Values] = {}

    def values(self, fact: str) -> Values:
        """What is possible in the box."""
        held = self._held.get(fact)
        if held is None:
            held = self._held[fact] = self._values(fact)
        return held

    def pinned(self, fact: str) -> bool:
        """Everything in a box counts as stated."""
        return False

    def written(self, fact: str) -> str:
        """A box holds values, no words."""
        return ""

    def _values(self, name: str) -> Values:
        own = self.space.values(name, self.box[name]) if name in self.box else None
        if name in BOUND:
            computed: Values = BOUND[name](self) & self.space.fact(name).domain  # type: ignore[operator]
            met: Values = computed if own is None else computed & own  # type: ignore[operator]
            return met or computed
        if own is None and name.startswith(TRAIT_PREFIX) and self.space.traits == TABULATED:
            return self._trait(name)
        return self.space.fact(name).domain if own is None else own

    def _trait(self, name: str) -> Values:
        fact = self.space.fact(name)
        products = self.space.pack.products
        possible = [products[name.split(".")[1]]] if not name.startswith(ENGINE_TRAITS) else []
        if not possible:
            names = self.values("engine.name")
            possible = [product for product in products.values() if product.role == "engine" and product.name in names and name in product.traits]
            if not all(any(point == product.name for product in possible) for point in names.points() or (None,)):
                return fact.domain
        joined: Values | None = None
        for product in possible:
            these = trait_values(fact, product.traits[name], self.values(product.version_fact)) if name in product.traits else fact.domain
            joined = these if joined is None else joined | these  # type: ignore[operator]
        return fact.domain if joined is None else joined


class _Point(_Lookup):
    """Facts with one value each; those that are not named may be anything."""

    def __init__(self, space: Space, facts: Mapping[str, Any]) -> None:
        super().__init__(space, {})
        self._held = {name: exactly(space.fact(name), value) for name, value in facts.items()}


@dataclass(slots=True)
class Feasible:
    """Asks of boxes whether launches lie in them. `impossible` are the boxes found to hold none."""

    space: Space
    impossible: list[Box] = field(default_factory=list)
    _bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _usual: dict[str, int] = field(default_factory=dict)
    _known: dict[str, list[Any]] = field(default_factory=dict)
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
        return self._fallback if _launch(self, self._fallback) is not None else box

    def _narrowed(self, box: Box) -> Box | None:
        if any(inside(box, other) for other in self.impossible):
            return None
        self._tries -= 1
        if self._tries < 0:
            if self._fallback is None:
                raise TooWideError
            return None
        lookup = _Lookup(self.space, box)
        open_: list[str] = []
        for name, mask in box.items():
            if name in BOUND and mask != self.space.full[name] and self.bases(name):
                reached = self.space.touching(name, BOUND[name](lookup))
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
        if not self._sure or _launch(self, box, state=False, most=16) is not None:
            return box
        self._fallback = box  # its facts agree as far as sets tell: better than the wider box it is a part of
        return None

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
        kept: Box = {fact: box[fact] for fact in (*self.bases(name), *(one for one in _inputs(self.space, name) if one in BOUND)) if fact in box}
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
        return not self.space.touching(name, BOUND[name](_Lookup(self.space, box))) & mask


def concrete(feasible: Feasible, box: Mapping[str, int]) -> dict[str, Any] | None:
    """A launch of a narrowed box as facts and values, ordinary ones where the box leaves a choice. Derived facts are left
    to be computed where their inputs make them what the box wants, else stated. None where no launch was found."""
    facts = _launch(feasible, box)
    if facts is None:
        return None
    # what a stated fact would be computed from is left open, lest a default contradicts it
    bases = {one: "unknown" for name in facts if name in DERIVED for one in feasible.bases(name) if one not in facts}
    for tried in (facts, {**facts, **bases}) if bases else (facts,):
        if _lies_in(feasible, tried, box):
            return tried
    return None


def _launch(feasible: Feasible, box: Mapping[str, int], state: bool = True, most: int = 64) -> dict[str, Any] | None:
    """Values for every fact that a box restricts. What a derived fact rests on is varied, by itself, until it agrees;
    where it never does the fact is stated, if that is possible beside its inputs and `state` allows it."""
    space = feasible.space
    derived = [name for name in box if name in BOUND and box[name] != space.full[name] and feasible.bases(name)]
    options: dict[str, list[Any]] = {}
    for name in (name for name in box if box[name] != space.full[name]):
        values: list[Any] = []
        for bit in feasible.bits(name, box[name])[:4]:
            cell = space.cells(name)[bit.bit_length() - 1]
            values.extend(representatives(space.fact(name), cell, _releases(feasible, name, box)))
        options[name] = list(dict.fromkeys(values))
    facts = {name: values[0] for name, values in options.items() if name not in derived}
    done: list[str] = []
    for goal in sorted(derived, key=lambda name: len(_inputs(space, name))):
        varied = [name for name in feasible.bases(goal) if name in options and name not in BOUND]
        done.append(goal)
        choices = islice(combinations_of(*(options[name] for name in varied)), most)
        tried = [dict(zip(varied, chosen, strict=True)) for chosen in choices]
        agreeing = next((one for one in tried if _agrees(feasible, {**facts, **one}, box, done)), None)
        if agreeing is None and state:
            agreeing = next(_stated(feasible, goal, options[goal], facts, tried, box, done[:-1]), None)
        if agreeing is None:
            return None
        facts = {**facts, **agreeing}
    return facts


def _stated(
    feasible: Feasible, goal: str, values: Sequence[Any], facts: Mapping[str, Any], tried: Sequence[dict[str, Any]], box: Mapping[str, int], done: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The derived fact stated beside inputs that do not contradict it."""
    for one in tried:
        possible = BOUND[goal](_Point(feasible.space, {**facts, **one}))
        for value in values:
            if value in possible and _agrees(feasible, {**facts, **one}, box, done):
                yield {**one, goal: value}


def _agrees(feasible: Feasible, facts: Mapping[str, Any], box: Mapping[str, int], derived: Sequence[str]) -> bool:
    """Whether these values make the derived facts what the box wants."""
    lookup = _Point(feasible.space, facts)
    return all(lookup.values(name).within(feasible.space.values(name, box[name])) for name in derived)  # type: ignore[arg-type]


def exactly(fact: Fact, value: Any) -> Values:
    """The set of one value that a cell holds."""
    if fact.ordered:
        return Ordered((), True, fact.step) if value is ABSENT else Ordered.exactly(value, fact.step)
    return Discrete(frozenset(), False, True) if value is ABSENT else Discrete.exactly(value)


def known_values(pack: Pack, name: str) -> list[Any]:
    """Values of a fact that exist: the releases of products, what device profiles say."""
    fact = pack.fact(name)
    assert fact is not None
    found = {release for product in pack.products.values() if product.version_fact == name for release in product.releases}
    stated = [fact.values(device.facts[name]).single() for device in pack.devices.values() if name in device.facts]
    return sorted({*found, *(value for value in stated if value is not None and value is not ABSENT)}, key=lambda value: (str(type(value)), value))


def _releases(feasible: Feasible, name: str, box: Mapping[str, int]) -> Sequence[Any]:
    space = feasible.space
    if name != "engine.version":
        return feasible.known(name)
    names = space.values("engine.name", box["engine.name"]) if "engine.name" in box else None
    engines = [product for product in space.pack.products.values() if product.role == "engine" and (names is None or product.name in names)]
    return next((product.releases for product in engines if product.releases), ())


def _lies_in(feasible: Feasible, facts: Mapping[str, Any], box: Mapping[str, int]) -> bool:
    """Whether the launch model resolves the facts to values in the box, and finds no contradiction among them."""
    space = feasible.space
    held = Facts(space.pack, launch_of(space, facts))
    within = all(held.values(name).within(space.values(name, mask)) for name, mask in box.items() if mask != space.full[name])  # type: ignore[arg-type]
    return within and (not any(name in BOUND for name in facts) or not held.contradictions())


def launch_of(space: Space, facts: Mapping[str, Any]) -> Launch:
    """The launch of facts and values as they are written."""
    return Launch.of(space.pack, written(facts))


def written(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts and values as one writes them in YAML: versions and `absent` as text, sets as lists."""
    return {name: _plain(value) for name, value in facts.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | list):
        return value
    if isinstance(value, frozenset):
        return sorted(value)
    return "absent" if value is ABSENT else str(value)
