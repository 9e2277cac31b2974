"""Places in condition trees: walking them, and putting something else at a place."""

from __future__ import annotations

from collections.abc import Iterator

from policy.conditions import All, AnyOf, Atom, Condition, Named, Not
from policy.records import replace

Place = tuple[int, ...]


def nodes(condition: Condition, place: Place = ()) -> Iterator[tuple[Place, Condition]]:
    """Every node with its place: the positions of the parts on the way to it."""
    yield place, condition
    for position, part in enumerate(parts_of(condition)):
        yield from nodes(part, (*place, position))


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """What a node is made of."""
    if isinstance(condition, All | AnyOf):
        return condition.parts
    if isinstance(condition, Not):
        return (condition.part,)
    return (condition.body,) if isinstance(condition, Named) else ()


def atoms_with_places(condition: Condition) -> Iterator[tuple[Place, Atom]]:
    """Every comparison with its place."""
    for place, node in nodes(condition):
        if isinstance(node, Atom):
            yield place, node


def node_at(condition: Condition, place: Place) -> Condition:
    """The node at a place."""
    return condition if not place else node_at(parts_of(condition)[place[0]], place[1:])


def replaced(condition: Condition, place: Place, by: Condition) -> Condition:
    """The tree with another node at a place. A named condition on the way loses its name."""
    if not place:
        return by
    first, rest = place[0], place[1:]
    if isinstance(condition, All | AnyOf):
        return type(condition)(tuple(replaced(part, rest, by) if position == first else part for position, part in enumerate(condition.parts)))
    if isinstance(condition, Not):
        return Not(replaced(condition.part, rest, by))
    assert isinstance(condition, Named)
    return replaced(condition.body, rest, by)


def without(condition: All | AnyOf, position: int) -> All | AnyOf:
    """A conjunction or an alternative without one of its parts."""
    return replace(condition, parts=condition.parts[:position] + condition.parts[position + 1 :])


def conjuncts(condition: Condition, place: Place = (), negated: bool = False) -> Iterator[tuple[Place, Condition, bool]]:
    """The parts that must all hold (`negated`: must all not hold), each with its place."""
    if isinstance(condition, Named):
        yield from conjuncts(condition.body, (*place, 0), negated)
    elif isinstance(condition, Not):
        yield from conjuncts(condition.part, (*place, 0), not negated)
    elif isinstance(condition, AnyOf if negated else All):
        for position, part in enumerate(condition.parts):
            yield from conjuncts(part, (*place, position), negated)
    else:
        yield place, condition, negated
