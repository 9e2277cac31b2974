"""Boxes over cells: what remains of a region outside other boxes, without a solver.

A box maps dimensions to bit masks of cells; a dimension that it leaves out is unrestricted. A condition is a union of
boxes; a question about all launches is whether a part of one box lies outside every box of a list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

Box = dict[str, int]
#: Steps that one question may take before it is given up.
STEPS = 200_000


class TooWideError(Exception):
    """A question that takes more boxes or steps than allowed; nothing is said about it."""


def meet(one: Mapping[str, int], two: Mapping[str, int]) -> Box | None:
    """What two boxes share; None where that is nothing."""
    shared = dict(one)
    for dimension, mask in two.items():
        held = shared.get(dimension)
        left = mask if held is None else held & mask
        if not left:
            return None
        shared[dimension] = left
    return shared


def inside(small: Mapping[str, int], big: Mapping[str, int]) -> bool:
    """Whether the one box lies in the other. Both leave out unrestricted dimensions."""
    for dimension, mask in big.items():
        held = small.get(dimension)
        if held is None or held & ~mask:
            return False
    return True


def without_inner(boxes: Iterable[Box]) -> list[Box]:
    """The boxes that lie in no other one, the largest first."""
    ordered = sorted(boxes, key=len)
    if len(ordered) < 2:
        return ordered
    by_dimensions: dict[frozenset[str], list[Box]] = {}
    return [box for box in ordered if _kept(box, by_dimensions)]


def _kept(box: Box, by_dimensions: dict[frozenset[str], list[Box]]) -> bool:
    """Whether a box lies in none of those kept so far; it is kept then."""
    dimensions = frozenset(box)
    for known, others in by_dimensions.items():
        if known <= dimensions:
            for other in others:
                if inside(box, other):
                    return False
    by_dimensions.setdefault(dimensions, []).append(box)
    return True


def leftovers(region: Box, boxes: Sequence[Box], full: Mapping[str, int], steps: int = STEPS) -> Iterator[Box]:
    """The parts of `region` outside every box, as disjoint boxes. `full` is the mask of all cells of a dimension. Raises
    `TooWideError` after so many steps."""
    waiting: list[tuple[Box, Sequence[Box]]] = [(region, boxes)]
    while waiting:
        here, near = waiting.pop()
        cut = _settled(here, near, full)
        steps -= 1 + len(near) // 8
        if steps < 0:
            raise TooWideError
        if cut is None:
            continue
        here, ways = cut
        if not ways:
            yield here
            continue
        box, out = min(ways, key=lambda way: len(way[1]))
        rest = [other for other, _ in ways if other is not box]
        inner = here
        for dimension in out:
            mask = inner.get(dimension, full[dimension])
            waiting.append(({**inner, dimension: mask & ~box[dimension]}, rest))
            inner = {**inner, dimension: mask & box[dimension]}


def _settled(here: Box, boxes: Sequence[Box], full: Mapping[str, int]) -> tuple[Box, list[tuple[Box, list[str]]]] | None:
    """The region after every cut that leaves no choice, with the boxes that still meet it and the dimensions in which it
    sticks out of each; None where one box covers it."""
    while True:
        ways: list[tuple[Box, list[str]]] = []
        copied = False
        for box in boxes:
            out: list[str] = []
            for dimension, mask in box.items():
                held = here.get(dimension)
                if held is None:
                    if full[dimension] & ~mask:
                        out.append(dimension)
                elif not held & mask:
                    break
                elif held & ~mask:
                    out.append(dimension)
            else:
                if not out:
                    return None
                if len(out) == 1:
                    dimension = out[0]
                    if not copied:
                        here, copied = dict(here), True
                    here[dimension] = here.get(dimension, full[dimension]) & ~box[dimension]
                else:
                    ways.append((box, out))
        if not copied:
            return here, ways
        boxes = [box for box, _ in ways]


def outside(region: Box, boxes: Sequence[Box], full: Mapping[str, int], steps: int = STEPS) -> Box | None:
    """One part of the region outside every box, or None where they cover it."""
    return next(leftovers(region, boxes, full, steps), None)


def disjoint(boxes: Iterable[Box], full: Mapping[str, int], steps: int = STEPS) -> list[Box]:
    """The same union as boxes that share nothing."""
    done: list[Box] = []
    before: list[Box] = []
    for box in without_inner(boxes):
        done.extend(leftovers(box, before, full, steps))
        before.append(box)
    return done


def merged(boxes: Iterable[Box], full: Mapping[str, int]) -> list[Box]:
    """Fewer boxes of the same union: two that differ in one dimension become one, as long as there are such."""
    todo = [dict(box) for box in boxes]
    grown = True
    while grown:
        grown = False
        for dimension in sorted({dimension for box in todo for dimension in box}):
            groups: dict[tuple[tuple[str, int], ...], int] = {}
            for box in todo:
                mask = box.get(dimension, full[dimension])
                rest = tuple(sorted((name, held) for name, held in box.items() if name != dimension))
                groups[rest] = groups.get(rest, 0) | mask
            if len(groups) < len(todo):
                grown = True
            todo = [{**dict(rest), **({dimension: mask} if mask != full[dimension] else {})} for rest, mask in groups.items()]
    return todo
