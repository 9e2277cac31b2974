"""Boxes against a solver and against trying everything, over random packs."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import pytest

from policy.analyse.boxes import outside
from policy.analyse.cells import representatives
from policy.analyse.generated import Point
from policy.analyse.invariants import parse_invariant
from policy.analyse.lookup import exactly
from policy.analyse.lowering import PROBED
from policy.analyse.prove import PROVED, REFUTED, prove
from policy.analyse.space import Space
from policy.conditions import Condition
from policy.evaluate import evaluate
from policy.facts import Fact
from policy.launch import Facts
from policy.pack import Pack
from tests import random_packs
from tests.analyse.launches import pack
from tests.analyse.z3_encoding import Encoding

QUESTIONS = 200


@cache
def made(seed: int) -> Pack:
    choose = random_packs.seeded(seed)
    return random_packs.built(random_packs.pack(choose, most_rules=6))


def question(of: Pack, seed: int) -> tuple[Condition, list[Condition]]:
    """Is there a launch for which the one condition holds and none of the others?"""
    conditions = [rule.when for rule in of.rules.values()] + [plan.call for fusion in of.fusions.values() for plan in fusion.plans]
    one = conditions[seed % len(conditions)]
    return one, [other for number, other in enumerate(conditions) if other is not one and (seed >> number) & 1]


def by_boxes(of: Pack, one: Condition, others: list[Condition]) -> bool:
    space = Space(of, PROBED)
    space.add(one, *others)
    denied = [box for other in others for box in space.boxes(other)]
    return any(outside(box, denied, space.full) is not None for box in space.boxes(one))


def by_trying(of: Pack, one: Condition, others: list[Condition], most: int = 20_000) -> bool | None:
    """The answer by one value of every cell of every fact; None where that takes too long."""
    space = Space(of, PROBED)
    space.add(one, *others)
    space.freeze()
    options = [[representatives(space.fact(name), cell)[0] for cell in space.cells(name)] for name in space.full]
    size = 1
    for values in options:
        size *= len(values)
    if size > most:
        return None
    for chosen in product(*options):
        point = Point({name: exactly(space.fact(name), value) for name, value in zip(space.full, chosen, strict=True)}, {})
        if one.truth(point) is True and not any(other.truth(point) is True for other in others):
            return True
    return False


def test_boxes_agree_with_z3() -> None:
    z3 = pytest.importorskip("z3", reason=f"z3 is not installed: {QUESTIONS} questions not asked of it")
    answers: dict[bool, int] = {True: 0, False: 0}
    for seed in range(QUESTIONS):
        of = made(seed)
        one, others = question(of, seed * 2654435761 % 2**31)
        encoding = Encoding(z3, of.facts, [one, *others])
        solver = z3.Solver()
        solver.add(encoding.of(one), *(z3.Not(encoding.of(other)) for other in others))
        solver.add(*encoding.domain)
        expected = solver.check() == z3.sat
        assert by_boxes(of, one, others) is expected, (seed, one, others)
        answers[expected] += 1
    assert min(answers.values()) > QUESTIONS // 20, answers  # both answers occur


def test_boxes_agree_with_z3_on_the_real_pack() -> None:
    z3 = pytest.importorskip("z3", reason="z3 is not installed: 60 questions about the real pack not asked of it")
    rules = [rule for rule in pack().rules.values() if not rule.retired and len(list(rule.when.atoms())) < 20]
    for number in range(60):
        one = rules[number * 7 % len(rules)].when
        others = [rules[(number * 7 + step) % len(rules)].when for step in (1, 2, 3, 5, 8, 13, 21)]
        encoding = Encoding(z3, pack().facts, [one, *others])
        solver = z3.Solver()
        for name in {atom.fact for condition in (one, *others) for atom in condition.atoms()}:
            assert isinstance(pack().fact(name), Fact)
        solver.add(encoding.of(one), *(z3.Not(encoding.of(other)) for other in others))
        solver.add(*encoding.domain)
        assert by_boxes(pack(), one, others) is (solver.check() == z3.sat)


def test_boxes_agree_with_trying_everything() -> None:
    asked = {True: 0, False: 0}
    for seed in range(300):
        of = made(seed)
        one, others = question(of, seed * 40503 % 2**16)
        expected = by_trying(of, one, others)
        if expected is not None:
            assert by_boxes(of, one, others) is expected, seed
            asked[expected] += 1
    assert min(asked.values()) > 10, asked


@pytest.mark.parametrize("seed", range(25))
def test_proofs_over_random_packs(seed: int) -> None:
    """What is proved no random launch breaks; what is refuted is broken by the launch that is named."""
    choose = random_packs.seeded(seed)
    data = random_packs.pack(choose, most_rules=6)
    of = random_packs.built(data)
    rule = next(iter(of.rules.values()), None)
    if rule is None:
        return
    fusion = next(iter(of.fusions))
    forms: list[dict[str, Any]] = [
        {"never": {"all": [{"asked": "off"}, {"state": "on"}]}},
        {"never": {"all": [{"site.flag": True}, {"state": "on"}]}},
        {"never": {"all": [{"site.size": ">=3"}, {"left_alone": "on"}]}},
        {"always": {"any": [{"site.size": "<4"}, {"state": ["off", "undetermined"]}]}},
    ]
    invariants = [parse_invariant(of, f"form-{number}", {"title": "a form", "why": "a test", "fusion": fusion, **form}) for number, form in enumerate(forms)]
    proofs = prove(of, invariants, seconds=5)
    assert proofs[0].status == PROVED
    for proof in proofs:
        if proof.status == REFUTED:
            assert proof.refutation is not None
        if proof.status != PROVED:
            continue
        for _ in range(40):
            facts = random_packs.facts_of_launch(choose, data)
            given = random_packs.launched(of, facts)
            decision = evaluate(of, given, "safe", (fusion,))[fusion]
            held = Facts(of, given)
            for clause in proof.invariant.forbidden:
                conditions = all(condition.truth(held) is True for condition in clause.conditions)
                answers = all(_holds(answer.kind, answer.values, decision) is meant for answer, meant in clause.answers)
                assert not (conditions and answers), (proof.invariant.id, facts)


def _holds(kind: str, values: frozenset[str], decision: Any) -> bool:
    given = {"state": decision.state, "left_alone": decision.left_alone.state, "asked": decision.asked or "absent"}[kind]
    return given in values
