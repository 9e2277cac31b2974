"""Conditions without names, negations and, where wanted, traits: what is left are literals on facts.

`tabulated` replaces a trait by the versions for which the tables give it such a value; a release that was not read
may then answer either way, so there are two readings: where a condition `may` hold and where it must. `probed` leaves
traits as facts of their own, as a probe of installed code would state them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from policy.conditions import All, Atom, Condition, Named, Not, SetTest
from policy.pack import ENGINE_TRAITS, TRAIT_PREFIX, Pack, Product
from policy.records import dataclass, field
from policy.values import ABSENT, Discrete, Ordered, Values

TABULATED, PROBED = "tabulated", "probed"


@dataclass(frozen=True, slots=True)
class Literal:
    """One fact inside (`negated`: outside) a set of accepted values."""

    fact: str
    accepted: Values | SetTest
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Both:
    """Every part holds."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One part holds."""

    parts: tuple[Node, ...]


Node = Literal | Both | Either
TRUE, FALSE = Both(()), Either(())


@dataclass(slots=True)
class Lowering:
    """Turns the conditions of one pack into literals."""

    pack: Pack
    traits: str = TABULATED
    _held: dict[tuple[Any, ...], Node] = field(default_factory=dict)
    _lowered: dict[tuple[int, bool, bool], tuple[Condition, Node]] = field(default_factory=dict)

    def lower(self, condition: Condition, may: bool, negated: bool = False) -> Node:
        """The condition (its opposite where `negated`) over literals: where it may hold, or else where it must; one and the
        same node for one condition."""
        key = (id(condition), may, negated)
        held = self._lowered.get(key)
        if held is None:
            # the condition is kept with its node, so that its identity stays its own
            held = self._lowered[key] = (condition, self._lower(condition, may, negated))
        return held[1]

    def asked(self, atom: Atom) -> Iterator[tuple[str, Values | SetTest]]:
        """The facts, and the sets of their values, that a comparison is lowered to in one reading or another."""
        if not atom.fact.startswith(TRAIT_PREFIX) or self.traits == PROBED:
            yield atom.fact, atom.accepted
            return
        for may in (True, False):
            for negated in (True, False):
                for literal in literals(self.lower(atom, may, negated)):
                    yield literal.fact, literal.accepted

    def _lower(self, condition: Condition, may: bool, negated: bool) -> Node:
        if isinstance(condition, Atom):
            return self._atom(condition.fact, condition.accepted, negated, may)
        if isinstance(condition, Not):
            return self.lower(condition.part, may, not negated)
        if isinstance(condition, Named):
            return self.lower(condition.body, may, negated)
        parts = tuple(self.lower(part, may, negated) for part in condition.parts)
        conjunction = isinstance(condition, All) is not negated
        return self._only((conjunction, *map(id, parts)), lambda: Both(parts) if conjunction else Either(parts))

    def _atom(self, name: str, accepted: Values | SetTest, negated: bool, may: bool) -> Node:
        if not name.startswith(TRAIT_PREFIX) or self.traits == PROBED:
            return self._only((name, accepted, negated), lambda: Literal(name, accepted, negated))
        return self._only((name, accepted, negated, may), lambda: Either(tuple(self._by_version(name, accepted, negated, may))))

    def _only(self, key: tuple[Any, ...], make: Callable[[], Node]) -> Node:
        """One and the same node for equal ones, so that its boxes are found again. Parts are known by their identity: they
        are kept by the node that holds them."""
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = make()
        return held

    def _by_version(self, name: str, accepted: Values | SetTest, negated: bool, may: bool) -> Iterator[Node]:
        if not name.startswith(ENGINE_TRAITS):
            product = self.pack.products.get(name.split(".")[1])
            if product is None or name not in product.traits:
                yield from (TRUE,) if may else ()
                return
            yield self._versions(product, name, accepted, negated, may)
            return
        with_rows: set[str] = set()
        for product in self.pack.products.values():
            if product.role == "engine" and name in product.traits:
                with_rows.add(product.name)
                yield Both((Literal("engine.name", Discrete.exactly(product.name)), self._versions(product, name, accepted, negated, may)))
        if may:
            yield Literal("engine.name", Discrete(frozenset(with_rows)), True)

    def _versions(self, product: Product, name: str, accepted: Values | SetTest, negated: bool, may: bool) -> Node:
        """The versions of a product for which the trait is such, `absent` included."""
        fact = self.pack.facts[name]
        atom = Atom(name, accepted, "")
        met: list[Ordered] = []
        for interval, value in product.traits[name].breakpoints.segments():
            answer = None if value is None else atom.of(fact.values(value))
            if may if answer is None else answer is not negated:
                met.append(Ordered((interval,)))
        version = self.pack.fact(product.version_fact)
        assert version is not None
        if version.optional and fact.optional and (atom.of(fact.values(ABSENT)) is True) is not negated:
            met.append(Ordered((), True))
        joined = Ordered.of((interval for one in met for interval in one.intervals), any(one.absent for one in met))
        return Literal(product.version_fact, joined) if joined else FALSE


class Settling:
    """Nodes where some facts have these values: what they decide is left out; one and the same node for one node."""

    def __init__(self, known: Mapping[str, Values]) -> None:
        self.known = known
        self._held: dict[int, tuple[Node, Node]] = {}

    def of(self, node: Node) -> Node:
        """What is left of a node."""
        if not self.known:
            return node
        held = self._held.get(id(node))
        if held is None:
            held = self._held[id(node)] = (node, self._of(node))
        return held[1]

    def _of(self, node: Node) -> Node:
        if isinstance(node, Literal):
            values = self.known.get(node.fact)
            answer = None if values is None else Atom(node.fact, node.accepted, "").of(values)
            return node if answer is None else TRUE if answer is not node.negated else FALSE
        conjunction = isinstance(node, Both)
        ends, drops = (FALSE, TRUE) if conjunction else (TRUE, FALSE)
        parts = [self.of(part) for part in node.parts]
        if ends in parts:
            return ends
        kept = tuple(part for part in parts if part != drops)
        return kept[0] if len(kept) == 1 else Both(kept) if conjunction else Either(kept)


def literals(node: Node) -> Iterable[Literal]:
    """Every literal of a node."""
    if isinstance(node, Literal):
        yield node
    else:
        for part in node.parts:
            yield from literals(part)
