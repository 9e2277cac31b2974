"""The algebra of boxes against the points they stand for."""

from __future__ import annotations

import random
from itertools import product

import pytest

from policy.analyse.boxes import Box, TooWideError, disjoint, leftovers, meet, merged, outside, without_inner

FULL = {"a": 0b111, "b": 0b11, "c": 0b1111, "d": 0b11}
Point = tuple[int, ...]


def points(box: Box) -> set[Point]:
    sets = [[bit for bit in range(full.bit_length()) if box.get(name, full) >> bit & 1] for name, full in FULL.items()]
    return set(product(*sets))


def of(boxes: list[Box]) -> set[Point]:
    return {point for box in boxes for point in points(box)}


def random_box(rng: random.Random) -> Box:
    return {name: rng.randint(1, full) for name, full in FULL.items() if rng.random() < 0.6}


def share_nothing(boxes: list[Box]) -> bool:
    return sum(len(points(box)) for box in boxes) == len(of(boxes))


@pytest.mark.parametrize("seed", range(200))
def test_against_points(seed: int) -> None:
    rng = random.Random(seed)
    boxes = [random_box(rng) for _ in range(rng.randint(0, 6))]
    region = random_box(rng)
    left = list(leftovers(region, boxes, FULL))
    assert of(left) == points(region) - of(boxes)
    assert share_nothing(left)
    assert (outside(region, boxes, FULL) is None) == (not left)
    parts = disjoint(boxes, FULL)
    assert of(parts) == of(boxes)
    assert share_nothing(parts)
    assert of(merged(parts, FULL)) == of(boxes)
    assert of(without_inner(boxes)) == of(boxes)
    for one, two in product(boxes, boxes):
        met = meet(one, two)
        assert (points(met) if met is not None else set()) == points(one) & points(two)


def test_merging_makes_one_box_of_a_cut_one() -> None:
    assert merged([{"a": 1, "b": 1}, {"a": 6, "b": 1}, {"b": 2}], FULL) == [{}]


def test_a_question_that_takes_too_many_steps_says_so() -> None:
    full = {str(number): 0b11 for number in range(12)}
    boxes = [{str(one): 1, str(two): 2} for one in range(12) for two in range(12) if one < two]
    with pytest.raises(TooWideError):
        list(leftovers({}, boxes, full, steps=10))
