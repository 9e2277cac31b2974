"""What a box, or a point of it, says about facts, as derivations ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy.analyse.lowering import TABULATED
from policy.analyse.relevant import inputs_of
from policy.analyse.space import Space
from policy.derive import DERIVED
from policy.facts import Fact
from policy.pack import ENGINE_TRAITS, TRAIT_PREFIX, trait_values
from policy.values import ABSENT, Discrete, Ordered, Values

#: Derived from the words of a launch too (local versions, who pinned what), which a box does not hold: free dimensions.
WORDS = frozenset(name for name in DERIVED if name.startswith("packages_agree."))
BOUND = {name: function for name, function in DERIVED.items() if name not in WORDS}


class BoxLookup:
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


class PointLookup(BoxLookup):
    """Facts with one value each; those that are not named may be anything."""

    def __init__(self, space: Space, facts: Mapping[str, Any]) -> None:
        super().__init__(space, {})
        self.facts = facts

    def _values(self, name: str) -> Values:
        return exactly(self.space.fact(name), self.facts[name]) if name in self.facts else super()._values(name)


def all_inputs(space: Space, name: str) -> set[str]:
    """Everything that a derived fact is computed from, traits of the tables down to versions."""
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


def exactly(fact: Fact, value: Any) -> Values:
    """The set of one value that a cell holds."""
    if fact.ordered:
        return Ordered((), True, fact.step) if value is ABSENT else Ordered.exactly(value, fact.step)
    return Discrete(frozenset(), False, True) if value is ABSENT else Discrete.exactly(value)
