"""A fact's domain cut into cells: the largest pieces on which every condition of a pack has one answer.

A cell is a set of values (`policy.values`), so it can be given to a launch as it stands. Numbers and versions are cut at
the constants they are compared with, names at the constants themselves, sets by the tests asked of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from typing import Any

from policy.conditions import SetTest
from policy.facts import Fact, show
from policy.values import ABSENT, Discrete, Interval, Ordered, Values
from policy.versions import Version

#: A set-typed fact is spelled out by its subsets up to this many names.
MOST_NAMES = 8
#: The largest power of two that is tried beside the ends of an interval of integers: widths that kernels take are such.
USUAL_SIZE = 4096


def cells(fact: Fact, accepted: Iterable[Values | SetTest]) -> list[Values]:
    """The cells of a fact's domain for these accepted sets, in ascending or declared order, `absent` last."""
    asked = list(dict.fromkeys(accepted))
    if fact.ordered:
        return list(_ordered_cells(fact, [one for one in asked if isinstance(one, Ordered)]))
    if fact.type == "set":
        return list(_set_cells(fact, asked))
    return list(_discrete_cells(fact, [one for one in asked if isinstance(one, Discrete)]))


def _ordered_cells(fact: Fact, asked: Sequence[Ordered]) -> Iterable[Ordered]:
    domain = fact.domain
    assert isinstance(domain, Ordered)
    step = fact.step
    cuts: set[tuple[Any, int]] = set()
    for values in (domain, *asked):
        for low, low_closed, high, high_closed in values.intervals:
            if low is not None:
                cuts.add((low, 0 if low_closed else 1))
            if high is not None:
                cuts.add((high + 1, 0) if step and high_closed else (high, 1 if high_closed else 0))
    borders = sorted(cuts)
    ends: list[tuple[Any, int]] = [(None, 1), *borders, (None, 0)]
    for (low, after), (high, until) in pairwise(ends):
        interval = Interval(low, after == 0, high, until == 1)
        cell = Ordered.of((interval,), False, step)
        if cell and cell.within(domain):
            yield cell
    if domain.absent:
        yield Ordered((), True, step)


def _discrete_cells(fact: Fact, asked: Sequence[Discrete]) -> Iterable[Discrete]:
    domain = fact.domain
    assert isinstance(domain, Discrete)
    if domain.cofinite:
        named = sorted({item for values in asked for item in values.items} - domain.items, key=str)
        for item in named:
            yield Discrete.exactly(item)
        yield Discrete(domain.items | frozenset(named), True)
    else:
        order = fact.choices or sorted(domain.items, key=str)
        for item in order:
            yield Discrete.exactly(item)
    if domain.absent:
        yield Discrete(frozenset(), False, True)


def _set_cells(fact: Fact, asked: Sequence[Values | SetTest]) -> Iterable[Discrete]:
    """One cell for each way the tests can be answered together, with every subset that answers so."""
    tested = {name for test in asked if isinstance(test, SetTest) for name in test.names}
    names = sorted(fact.choices)
    if not 0 < len(names) <= MOST_NAMES:
        rest = [name for name in names if name not in tested]
        names = sorted(tested) + (rest[:1] if fact.choices else [_fresh(frozenset(tested))])  # one name stands for all others
    by_answers: dict[tuple[bool, ...], list[frozenset[str]]] = {}
    for size in range(len(names) + 1):
        for chosen in combinations(names, size):
            subset = frozenset(chosen)
            answers = tuple(test.accepts(subset) if isinstance(test, SetTest) else subset in test for test in asked)
            by_answers.setdefault(answers, []).append(subset)
    for subsets in by_answers.values():
        yield Discrete(frozenset(subsets))
    if fact.optional:
        yield Discrete(frozenset(), False, True)


def accepts(accepted: Values | SetTest, cell: Values) -> bool:
    """Whether a cell lies inside an accepted set that took part in the cutting."""
    if isinstance(accepted, SetTest):
        points = cell.points(1 << MOST_NAMES)
        return bool(points) and all(accepted.accepts(point) for point in points or ())
    return cell.within(accepted)  # type: ignore[arg-type]


def representatives(fact: Fact, cell: Values, releases: Sequence[Version] = ()) -> list[Any]:
    """Concrete values of a cell: both ends of an interval (those of known values first), the name, or `absent`."""
    if isinstance(cell, Discrete):
        points = cell.points(1 << MOST_NAMES)
        if points is not None:
            return points[:1] if len(points) == 1 else [points[0], points[-1]]
        return [_fresh(cell.items)]
    found: list[Any] = []
    for interval in cell.intervals:
        inside = [release for release in releases if interval.holds(release)]
        low, high = (inside[0], inside[-1]) if inside else _ends(fact, interval)
        found.extend((low,) if low == high else (low, high))
        usual = 1 << min(USUAL_SIZE, interval.high or USUAL_SIZE).bit_length() - 1 if fact.step else None
        if usual is not None and interval.holds(usual):
            found.append(usual)
    if cell.absent:
        found.append(ABSENT)
    return found


def words(fact: Fact, values: Values) -> str:
    """A set of values of a fact in the words one writes it with in a rule; `present` for all but `absent`."""
    if fact.optional and not values.absent and values | fact.values(ABSENT) == fact.domain:  # type: ignore[operator]
        return "present"
    return show(values)


def test_words(tests: Iterable[SetTest], values: Values) -> str | None:
    """What some sets have in common, as answers to the tests; None where that does not say which sets they are."""
    points = values.points(1 << 16)
    if points is None or any(not isinstance(point, frozenset) for point in points):
        return None
    parts: list[str] = []
    for test in tests:
        answers = {test.accepts(point) for point in points}
        if len(answers) == 1:
            parts.append(f"{'' if answers.pop() else 'not '}{test.operator} {', '.join(sorted(test.names))}")
    return "; ".join(parts) or None


def _fresh(taken: frozenset[Any]) -> str:
    name, number = "other", 2
    while name in taken:
        name, number = f"other{number}", number + 1
    return name


def _ends(fact: Fact, interval: Interval) -> tuple[Any, Any]:
    low, low_closed, high, high_closed = interval
    if fact.type == "version":
        return _version_ends(low, low_closed, high, high_closed)
    step = fact.step or _gap(low, high)
    first = (low if low_closed else low + step) if low is not None else (high if high_closed else high - step) if high is not None else 0
    last = (high if high_closed else high - step) if high is not None else first + 3 * step if low is not None else 0
    return first, last


def _gap(low: Any, high: Any) -> Any:
    return (high - low) / 4 if low is not None and high is not None else 1


def _version_ends(low: Version | None, low_closed: bool, high: Version | None, high_closed: bool) -> tuple[Version, Version]:
    """A release inside where the interval holds one by the usual spelling, else its closed ends."""
    candidates: list[Version] = []
    if low is not None:
        candidates += [low] if low_closed else []
        candidates += [Version(low.base_version), _next(low)]
    if high is not None:
        candidates += [high] if high_closed else []
        candidates += [Version(f"{high.base_version}.dev0"), Version(f"{high.base_version}rc1"), _before(high), Version("0.1")]
    interval = Interval(low, low_closed, high, high_closed)
    if low is None and high is None:
        candidates = [Version("1")]
    elif low is not None and low.dev is None and low.post is None and not any(interval.holds(candidate) for candidate in candidates):
        candidates = [Version(f"{low.public}.post1")]
    inside = sorted(candidate for candidate in candidates if interval.holds(candidate) and any(candidate.release)) or [low or high or Version("1")]
    finals = [candidate for candidate in inside if not candidate.is_prerelease] or inside
    return finals[0], finals[-1]


def _next(version: Version) -> Version:
    release = list(version.release)
    release[-1] += 1
    return Version(".".join(map(str, release)))


def _before(version: Version) -> Version:
    """A release below: the last part that is not zero lowered by one."""
    release = list(version.release)
    for position in range(len(release) - 1, -1, -1):
        if release[position] > 0:
            release[position] -= 1
            break
    return Version(".".join(map(str, release)))
