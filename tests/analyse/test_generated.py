"""Cases made from the conditions of the real pack, decided by the reference and by every fast path: all agree."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import pytest

from policy.analyse.generated import GeneratedCase, generated
from policy.analyse.lowering import PROBED
from policy.analyse.outlook import Inheriting, Outlook
from policy.analyse.space import Space
from policy.build import Source, build
from policy.compiled import CompiledSource, compiled_text
from policy.evaluate import Evaluation, evaluate
from policy.launch import Facts, Launch
from policy.load import pack_files, read_sources
from policy.pack import Pack
from tests import reference
from tests.analyse.launches import pack

RULES = sorted(rule.id for rule in pack().rules.values() if not rule.retired)


@cache
def cases(rule: str) -> list[GeneratedCase]:
    return generated(pack(), pack().rules[rule].when)


@cache
def compiled() -> Pack:
    """The pack as it is read from its compiled form."""
    from pathlib import Path

    root = Path(pack().folder)
    lines = compiled_text(read_sources(root, pack_files(root)), pack()).splitlines()
    data = json.loads("\n".join(lines[1:]))
    sources: list[Source] = [CompiledSource(*parts) for parts in data["sources"]]
    return build(sources, data["name"], data["version"], pack().digest, str(root))


@pytest.mark.parametrize("identifier", RULES)
def test_conditions(identifier: str) -> None:
    """The condition on one point, on a launch, in the compiled pack, by candidate values, and as bit masks."""
    rule, other = pack().rules[identifier], compiled().rules[identifier]
    space = Space(pack(), PROBED)
    space.add(rule.when)
    boxes = space.boxes(rule.when)
    for case in cases(identifier):
        written = case.point.launch()
        if any(value == "absent" and "absent" in space.fact(name).choices for name, value in written.items()):
            continue  # a name that is spelt like the value cannot be given
        facts = Facts(pack(), Launch.of(pack(), written))
        masks = {name: space.touching(name, facts.values(name)) for name in space.full}
        answers = {
            "point": case.truth,
            "launch": rule.when.truth(facts),
            "compiled": other.when.truth(Facts(compiled(), Launch.of(compiled(), written))),
            "reference": reference.truth(rule.when, facts),
            "masks": any(all(masks[name] & mask for name, mask in box.items()) for box in boxes),
        }
        assert len(set(answers.values())) == 1, (written, answers)


def test_every_rule_is_seen_on_both_sides() -> None:
    """Which is what makes the cases worth deciding."""
    one_sided = [rule for rule in RULES if list(pack().rules[rule].when.atoms()) and {case.truth for case in cases(rule)} != {True, False}]
    assert one_sided == []


def decided(of: Pack, launch: Launch, fusion: str) -> tuple[Any, ...]:
    decision = evaluate(of, launch, "safe", (fusion,))[fusion]
    able = tuple((state.plan.id, state.state) for state in decision.able)
    return decision.state, decision.chosen.id if decision.chosen else None, decision.left_alone.state, decision.left_alone.built, able


BASE = {
    "engine.name": "vllm",
    "engine.version": "0.24.0",
    "device.platform": "cuda",
    "device.compute_capability": "9.0",
    "device.interconnect": "nvswitch",
    "device.multicast": True,
    "device.gpus_per_node": 8,
    "parallel.tensor_parallel_size": 4,
}


@pytest.mark.parametrize("seed", range(40))
def test_decisions(seed: int) -> None:
    """A whole decision at a generated case: the evaluation, the compiled pack, a search's fork and the reference."""
    rng = random.Random(seed)
    rule = pack().rules[rng.choice(RULES)]
    plans = [plan for fusion in pack().fusions.values() for plan in fusion.plans if rule.plans is not None and rule.plans.matches(plan)]
    if not plans or not cases(rule.id):
        return
    fusion = rng.choice(plans).fusion
    for case in rng.sample(cases(rule.id), min(6, len(cases(rule.id)))):
        facts = {**BASE, **case.point.launch()}
        if any(value == "absent" and "absent" in (pack().facts[name].choices if name in pack().facts else ()) for name, value in facts.items()):
            continue
        given = Launch.of(pack(), facts)
        expected = decided(pack(), given, fusion)
        assert decided(compiled(), Launch.of(compiled(), facts), fusion) == expected
        answer = reference.decide(pack(), given)[fusion]
        able = tuple((plan.id, answer.able[plan.id]) for plan in pack().fusions[fusion].plans)
        assert (answer.state, answer.plan, answer.engine, answer.built, able) == expected, facts
        name = rng.choice(sorted(case.point.facts))
        base = Launch.of(pack(), {other: value for other, value in facts.items() if other != name})
        outlook = Outlook(pack(), base, pack().fusions[fusion], "safe", False)
        for other in pack().facts:
            outlook.base.get(other)
        changes = {name: given.given[name].values}
        fork = outlook.fork(changes)
        forked, fresh = outlook.evaluate(fork, changes), Evaluation(Facts(pack(), fork.launch), "safe")
        assert isinstance(forked, Inheriting)
        for plan in pack().fusions[fusion].plans:
            assert forked.plan_state(plan, []).state == fresh.plan_state(plan, []).state
