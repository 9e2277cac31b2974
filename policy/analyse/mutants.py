"""Conditions with one mistake in them: an operator, a constant or a side changed, a part dropped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from policy.analyse.tree import Place, nodes, without
from policy.conditions import All, AnyOf, Atom, Condition, Named, Not, SetTest
from policy.facts import Fact, show
from policy.pack import Pack
from policy.records import dataclass
from policy.values import ABSENT, Discrete, Interval, Ordered, Values
from policy.versions import Version, line_start

#: Further members that a list of names is widened by, one at a time.
WIDENINGS = 3


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: where in the tree, what is put there, and in words. `name` is the named condition it lies in."""

    place: Place
    by: Condition
    words: str
    name: str = ""


def mutants(pack: Pack, condition: Condition, known: dict[str, Sequence[Any]] | None = None) -> Iterator[Mutant]:
    """Every mistake of the kinds tried. `known` gives the values that a constant is moved to, by fact."""
    names: dict[Place, str] = {}
    for place, node in nodes(condition):
        name = next((names[place[:length]] for length in range(len(place), -1, -1) if place[:length] in names), "")
        if isinstance(node, Named):
            names[place] = node.name
            yield Mutant(place, Not(node.body), f"not {node.name}", name)
        elif isinstance(node, Not):
            yield Mutant(place, node.part, "`not` dropped", name)
        elif isinstance(node, All | AnyOf):
            yield from (Mutant(place, by, words, name) for by, words in _joined(node))
        else:
            fact = pack.fact(node.fact)
            assert fact is not None
            beside = (known or {}).get(node.fact, ())
            yield from (Mutant(place, by, f"{node.fact} {words} instead of {node.text}", name) for by, words in _atom(fact, node, beside))


def _joined(node: All | AnyOf) -> Iterator[tuple[Condition, str]]:
    if len(node.parts) > 1:
        other = AnyOf if isinstance(node, All) else All
        yield other(node.parts), f"`{'any' if isinstance(node, All) else 'all'}` instead of `{'all' if isinstance(node, All) else 'any'}`"
        for position in range(len(node.parts)):
            yield without(node, position), f"part {position + 1} of `{'all' if isinstance(node, All) else 'any'}` dropped"


def _atom(fact: Fact, atom: Atom, known: Sequence[Any]) -> Iterator[tuple[Condition, str]]:
    accepted = atom.accepted
    yield Not(atom), f"not {atom.text}"
    if isinstance(accepted, SetTest):
        changed: Iterator[tuple[Values | SetTest, str]] = _set_tests(accepted)
    elif isinstance(accepted, Ordered):
        changed = ((values, show(values)) for values in _moved(fact, accepted, known))
    else:
        changed = ((values, show(values)) for values in _members(fact, accepted))
    for values, words in changed:
        if values != accepted and (isinstance(values, SetTest) or (values and values != fact.domain)):
            yield Atom(atom.fact, values, words), words


def _set_tests(test: SetTest) -> Iterator[tuple[SetTest, str]]:
    for operator in ("contains", "within", "overlaps"):
        if operator != test.operator and (operator == "within" or test.operator == "within" or len(test.names) > 1):
            yield SetTest(operator, test.names), f"{operator} {', '.join(sorted(test.names))}"
    if len(test.names) > 1:
        for name in sorted(test.names):
            yield SetTest(test.operator, test.names - {name}), f"{test.operator} {', '.join(sorted(test.names - {name}))}"


def _members(fact: Fact, accepted: Discrete) -> Iterator[Discrete]:
    for item in sorted(accepted.items, key=str):
        yield Discrete(accepted.items - {item}, accepted.cofinite, accepted.absent)
    if isinstance(fact.domain, Discrete) and not fact.domain.cofinite:
        for item in [one for one in fact.choices or sorted(fact.domain.items, key=str) if one not in accepted.items][:WIDENINGS]:
            yield Discrete(accepted.items | {item}, accepted.cofinite, accepted.absent)
    if fact.optional:
        yield Discrete(accepted.items, accepted.cofinite, not accepted.absent)


def _moved(fact: Fact, accepted: Ordered, known: Sequence[Any]) -> Iterator[Ordered]:
    """Every end moved to the values beside it, every bound and every interval dropped, `absent` let in or kept out."""
    for position, (low, low_closed, high, high_closed) in enumerate(accepted.intervals):
        rest = [interval for number, interval in enumerate(accepted.intervals) if number != position]
        if rest:
            yield Ordered.of(rest, accepted.absent, fact.step)
        point = low is not None and low == high
        for end in _beside(fact, low, known) if low is not None else ():
            moved = Interval(end, True, end, True) if point else Interval(_start(end), low_closed, high, high_closed)
            yield _within(fact, [*rest, moved], accepted.absent)
        if high is not None and not point:
            for end in _beside(fact, high, known):
                yield _within(fact, [*rest, Interval(low, low_closed, end if high_closed else _start(end), high_closed)], accepted.absent)
        if low is not None:
            yield _within(fact, [*rest, Interval(None, False, high, high_closed)], accepted.absent)
        if high is not None:
            yield _within(fact, [*rest, Interval(low, low_closed, None, False)], accepted.absent)
    if fact.optional:
        yield Ordered.of(accepted.intervals, not accepted.absent, fact.step)


def _within(fact: Fact, intervals: Sequence[Interval], absent: bool) -> Ordered:
    met: Ordered = Ordered.of(intervals, absent, fact.step) & fact.domain  # type: ignore[operator]
    return met


def _start(end: Any) -> Any:
    return line_start(end) if isinstance(end, Version) else end


def _beside(fact: Fact, end: Any, known: Sequence[Any]) -> list[Any]:
    """The values next to a constant: the integers, the known releases."""
    if end is ABSENT:
        return []
    if fact.step:
        return [end - 1, end + 1]
    if fact.type == "number":
        return [end * 0.5, end * 2] if end else [1]
    below = [value for value in known if value < end]
    above = [value for value in known if value > end and _start(value) != end]
    return [*below[-1:], *above[:1]]
