"""The algebra of sets of possible values against brute force over their members."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.values import ABSENT, EVERYTHING, Discrete, Interval, Ordered
from policy.versions import Version

#: Between and beyond all the ends that the intervals below have.
WHOLE = [*range(-2, 9), ABSENT]
HALVES = [*(number / 2 for number in range(-4, 17)), ABSENT]
NAMES = ["a", "b", "c", "d", ABSENT]
RELEASES = ["0.9", "1.0.dev0", "1.0.dev1", "1.0", "1.0.post1", "2.0.dev0", "2.0rc1", "2.0", "2.1"]


@st.composite
def intervals(draw: st.DrawFn, ends: list[Any]) -> Interval:
    low, high = draw(st.one_of(st.none(), st.sampled_from(ends))), draw(st.one_of(st.none(), st.sampled_from(ends)))
    return Interval(low, low is not None and draw(st.booleans()), high, high is not None and draw(st.booleans()))


def ordered(ends: list[Any], step: int = 0) -> st.SearchStrategy[Ordered]:
    return st.builds(lambda parts, absent: Ordered.of(parts, absent, step), st.lists(intervals(ends), max_size=3), st.booleans())


integers = ordered(list(range(7)), 1)
numbers = ordered(list(range(7)))
releases = ordered([Version(text) for text in ("1.0.dev0", "1.0", "2.0.dev0", "2.0")])
discrete = st.builds(Discrete, st.frozensets(st.sampled_from(["a", "b", "c"])), st.booleans(), st.booleans())


def members(values: Any, universe: list[Any]) -> set[Any]:
    return {repr(one) for one in universe if one in values}


def check(one: Any, two: Any, universe: list[Any]) -> None:
    every = {repr(point) for point in universe}
    ours, theirs = members(one, universe), members(two, universe)
    assert members(one | two, universe) == ours | theirs
    assert members(one & two, universe) == ours & theirs
    assert members(~one, universe) == every - ours
    assert ~~one == one
    assert one.within(two) == (ours <= theirs)
    assert one.outside(two) == (not ours & theirs)
    assert bool(one) == bool(ours)
    # one set has one form, so that equality of sets is equality of objects
    assert (one == two) == (ours == theirs)
    assert (one | two, one & two) == (two | one, two & one)


@settings(max_examples=120)
@given(integers, integers)
def test_integers(one: Ordered, two: Ordered) -> None:
    check(one, two, WHOLE)


@settings(max_examples=120)
@given(numbers, numbers)
def test_numbers(one: Ordered, two: Ordered) -> None:
    check(one, two, HALVES)


@settings(max_examples=100)
@given(releases, releases)
def test_versions(one: Ordered, two: Ordered) -> None:
    universe = [*map(Version, RELEASES), ABSENT]
    assert members(one & two, universe) == members(one, universe) & members(two, universe)
    assert members(one | two, universe) == members(one, universe) | members(two, universe)
    assert one.within(one | two)
    assert (one & ~two).outside(two)


@settings(max_examples=100)
@given(discrete, discrete)
def test_names(one: Discrete, two: Discrete) -> None:
    check(one, two, NAMES)


@given(integers)
def test_points_and_single_of_integers(values: Ordered) -> None:
    bounded = all(interval.low is not None and interval.high is not None for interval in values.intervals)
    assert values.points() == ([one for one in WHOLE if one in values] if bounded else None)
    found = values.points()
    assert values.single() == (found[0] if found is not None and len(found) == 1 else None)


@given(numbers)
def test_points_and_single_of_numbers(values: Ordered) -> None:
    found = values.points()
    if found is not None:
        assert [one for one in HALVES if one in values] == found
    assert values.single() == (found[0] if found is not None and len(found) == 1 else None)


@given(discrete)
def test_points_and_single_of_names(values: Discrete) -> None:
    assert values.points() == (None if values.cofinite else [one for one in NAMES if one in values])
    found = values.points()
    assert values.single() == (found[0] if found is not None and len(found) == 1 else None)


def test_points_have_an_end() -> None:
    assert Ordered.of((Interval(1, True, 64, True),), False, 1).points() == list(range(1, 65))
    assert Ordered.of((Interval(1, True, 65, True),), False, 1).points() is None
    assert Discrete(frozenset(map(str, range(65)))).points() is None


def test_integers_are_kept_with_closed_ends() -> None:
    assert Ordered.of((Interval(1, False, None, False),), False, 1) == Ordered.of((Interval(2, True, None, False),), False, 1)
    assert not Ordered.of((Interval(1, False, 2, False),), False, 1)
    assert Ordered.of((Interval(1, True, 1, True), Interval(2, True, 2, True)), False, 1).intervals == (Interval(1, True, 2, True),)


@pytest.mark.parametrize("values", [ABSENT, Ordered.of((EVERYTHING,), True), Discrete(frozenset(("a",)), True, True)])
def test_sets_survive_pickling(values: Any) -> None:
    again = pickle.loads(pickle.dumps(values))
    assert again == values
    assert (again is ABSENT) == (values is ABSENT)
