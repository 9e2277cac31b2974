"""Sets of possible values: what a fact may be, and what a condition accepts.

Two forms share one interface. `Ordered` holds integers, numbers and versions as disjoint intervals; `Discrete` holds
everything else as a finite set or the complement of one. `absent` is a value of both. A condition is then a question
about two sets: true where the fact's set lies inside, false where it lies outside, unknown where it does both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from policy.records import dataclass


class _Absent:
    """The value of a thing that is known not to be there. One instance, `ABSENT`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


class Interval(NamedTuple):
    """From `low` to `high`; None is unbounded; the flags say whether the end belongs to it."""

    low: Any
    low_closed: bool
    high: Any
    high_closed: bool

    def holds(self, value: Any) -> bool:
        """Whether `value` lies inside."""
        if self.low is not None and (value < self.low or (value == self.low and not self.low_closed)):
            return False
        return self.high is None or value < self.high or (value == self.high and self.high_closed)


EVERYTHING = Interval(None, False, None, False)


@dataclass(frozen=True, slots=True)
class Ordered:
    """Disjoint intervals in ascending order, and whether `absent` is possible. `step` is 1 for integers: their
    intervals are kept with closed ends, so that `>1` and `>=2` are the same set."""

    intervals: tuple[Interval, ...]
    absent: bool = False
    step: int = 0

    @staticmethod
    def exactly(value: Any, step: int = 0) -> Ordered:
        """The set of one value."""
        return Ordered((Interval(value, True, value, True),), False, step)

    @staticmethod
    def of(intervals: Iterable[Interval], absent: bool = False, step: int = 0) -> Ordered:
        """The union of any intervals, put in order."""
        return Ordered(_joined(intervals, step), absent, step)

    def __bool__(self) -> bool:
        return bool(self.intervals) or self.absent

    def single(self) -> Any:
        """The only value (or ABSENT), or None where there are none or several."""
        if self.absent:
            return None if self.intervals else ABSENT
        if len(self.intervals) == 1:
            low, _, high, _ = self.intervals[0]
            return low if low is not None and high is not None and low == high else None
        return None

    def points(self, most: int = 64) -> list[Any] | None:
        """Every value in ascending order, `absent` last; None where there are more than `most`."""
        found: list[Any] = []
        for low, _, high, _ in self.intervals:
            if low is None or high is None:
                return None
            if low == high:
                found.append(low)
            elif self.step and high - low < most:
                found.extend(range(low, high + 1))
            else:
                return None
        if self.absent:
            found.append(ABSENT)
        return found if len(found) <= most else None

    def __contains__(self, value: Any) -> bool:
        return self.absent if value is ABSENT else any(interval.holds(value) for interval in self.intervals)

    def __or__(self, other: Ordered) -> Ordered:
        return Ordered.of((*self.intervals, *other.intervals), self.absent or other.absent, self.step)

    def __and__(self, other: Ordered) -> Ordered:
        met = (_meet(one, two) for one in self.intervals for two in other.intervals)
        return Ordered.of((interval for interval in met if interval is not None), self.absent and other.absent, self.step)

    def __invert__(self) -> Ordered:
        gaps: list[Interval] = []
        low, low_closed = None, False
        for interval in self.intervals:
            if interval.low is not None:
                gaps.append(Interval(low, low_closed, interval.low, not interval.low_closed))
            if interval.high is None:
                return Ordered.of(gaps, not self.absent, self.step)
            low, low_closed = interval.high, not interval.high_closed
        gaps.append(Interval(low, low_closed, None, False))
        return Ordered.of(gaps, not self.absent, self.step)

    def within(self, other: Ordered) -> bool:
        """Whether every value is in `other`."""
        if self.absent and not other.absent:
            return False
        for small in self.intervals:  # loops, not generators: conditions ask little else
            for big in other.intervals:
                if _covers(big, small):
                    break
            else:
                return False
        return True

    def outside(self, other: Ordered) -> bool:
        """Whether no value is in `other`."""
        if self.absent and other.absent:
            return False
        for one in self.intervals:
            for two in other.intervals:
                if not _apart(one, two, self.step):
                    return False
        return True


@dataclass(frozen=True, slots=True)
class Discrete:
    """The values `items`, or with `cofinite` all values but these; and whether `absent` is possible."""

    items: frozenset[Any]
    cofinite: bool = False
    absent: bool = False

    @staticmethod
    def exactly(value: Any) -> Discrete:
        """The set of one value."""
        return Discrete(frozenset((value,)))

    def __bool__(self) -> bool:
        return bool(self.items) or self.cofinite or self.absent

    def single(self) -> Any:
        """The only value (or ABSENT), or None where there are none or several."""
        if self.cofinite:
            return None
        if self.absent:
            return None if self.items else ABSENT
        return next(iter(self.items)) if len(self.items) == 1 else None

    def points(self, most: int = 64) -> list[Any] | None:
        """Every value in a fixed order, `absent` last; None where there are more than `most` or no end of them."""
        if self.cofinite or len(self.items) + self.absent > most:
            return None
        return sorted(self.items, key=str) + ([ABSENT] if self.absent else [])

    def __contains__(self, value: Any) -> bool:
        return self.absent if value is ABSENT else (value in self.items) is not self.cofinite

    def __or__(self, other: Discrete) -> Discrete:
        return ~(~self & ~other)

    def __and__(self, other: Discrete) -> Discrete:
        absent = self.absent and other.absent
        if self.cofinite and other.cofinite:
            return Discrete(self.items | other.items, True, absent)
        if self.cofinite:
            return Discrete(other.items - self.items, False, absent)
        return Discrete(self.items - other.items if other.cofinite else self.items & other.items, False, absent)

    def __invert__(self) -> Discrete:
        return Discrete(self.items, not self.cofinite, not self.absent)

    def within(self, other: Discrete) -> bool:
        """Whether every value is in `other`."""
        if self.absent and not other.absent:
            return False
        if self.cofinite:
            return other.cofinite and other.items <= self.items
        return self.items.isdisjoint(other.items) if other.cofinite else self.items <= other.items

    def outside(self, other: Discrete) -> bool:
        """Whether no value is in `other`."""
        if self.absent and other.absent:
            return False
        if self.cofinite:
            return not other.cofinite and other.items <= self.items
        return self.items <= other.items if other.cofinite else self.items.isdisjoint(other.items)


Values = Ordered | Discrete


def _covers(big: Interval, small: Interval) -> bool:
    if big.low is not None and (small.low is None or small.low < big.low or (small.low == big.low and small.low_closed and not big.low_closed)):
        return False
    return big.high is None or (small.high is not None and (small.high < big.high or (small.high == big.high and (big.high_closed or not small.high_closed))))


def _meet(one: Interval, two: Interval) -> Interval | None:
    if one.low is None or (two.low is not None and (two.low > one.low or (two.low == one.low and not two.low_closed))):
        low, low_closed = two.low, two.low_closed
    else:
        low, low_closed = one.low, one.low_closed
    if one.high is None or (two.high is not None and (two.high < one.high or (two.high == one.high and not two.high_closed))):
        high, high_closed = two.high, two.high_closed
    else:
        high, high_closed = one.high, one.high_closed
    if low is not None and high is not None and (low > high or (low == high and not (low_closed and high_closed))):
        return None
    return Interval(low, low_closed, high, high_closed)


def _apart(one: Interval, two: Interval, step: int) -> bool:
    """Whether two intervals share nothing."""
    (low, low_closed, high, high_closed), (other_low, other_low_closed, other_high, other_high_closed) = one, two
    if high is not None and other_low is not None and (high < other_low or (high == other_low and not (high_closed and other_low_closed))):
        return True
    if other_high is not None and low is not None and (other_high < low or (other_high == low and not (other_high_closed and low_closed))):
        return True
    return step != 0 and _closed(_meet(one, two) or one) is None


def _closed(interval: Interval) -> Interval | None:
    """The same integers with closed ends, or None where there are none."""
    low = interval.low if interval.low is None or interval.low_closed else interval.low + 1
    high = interval.high if interval.high is None or interval.high_closed else interval.high - 1
    if low is not None and high is not None and low > high:
        return None
    return Interval(low, low is not None, high, high is not None)


def _joined(intervals: Iterable[Interval], step: int) -> tuple[Interval, ...]:
    parts = [interval for interval in intervals if not _is_empty(interval)]
    if step:
        parts = [interval for interval in map(_closed, parts) if interval is not None]
    if len(parts) < 2:
        return tuple(parts)
    unbounded = [interval for interval in parts if interval.low is None]
    rest = sorted((interval for interval in parts if interval.low is not None), key=lambda interval: (interval.low, not interval.low_closed))
    joined: list[Interval] = []
    for interval in (*unbounded, *rest):
        last = joined[-1] if joined else None
        if last is not None and _touch(last, interval, step):
            joined[-1] = _span(last, interval)
        else:
            joined.append(interval)
    return tuple(joined)


def _is_empty(interval: Interval) -> bool:
    low, low_closed, high, high_closed = interval
    return low is not None and high is not None and (low > high or (low == high and not (low_closed and high_closed)))


def _touch(last: Interval, following: Interval, step: int) -> bool:
    if last.high is None or following.low is None:
        return True
    if following.low < last.high or (step and following.low == last.high + step):
        return True
    return bool(following.low == last.high and (following.low_closed or last.high_closed))


def _span(one: Interval, two: Interval) -> Interval:
    if one.high is None or two.high is None:
        return Interval(one.low, one.low_closed, None, False)
    if one.high == two.high:
        return Interval(one.low, one.low_closed, one.high, one.high_closed or two.high_closed)
    high, closed = (one.high, one.high_closed) if one.high > two.high else (two.high, two.high_closed)
    return Interval(one.low, one.low_closed, high, closed)
