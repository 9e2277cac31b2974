"""Regions against the conditions they stand for, point by point."""

from __future__ import annotations

import random
from typing import Any

import pytest

from policy.analyse.cells import cells, representatives
from policy.analyse.concrete import launch_of, written
from policy.analyse.lowering import PROBED
from policy.analyse.outcomes import gate_is
from policy.analyse.regions import Analysis, Region, Regions, of_condition, of_gate, of_named, of_rule, render
from policy.analyse.relevant import inputs_of
from policy.analyse.states import of_on
from policy.analyse.where import where
from policy.cli import main
from policy.conditions import Condition, parse
from policy.derive import DERIVED
from policy.engine_outcome import outcome_of
from policy.evaluate import Evaluation, evaluate
from policy.launch import Facts, Launch
from policy.pack import TRAIT_PREFIX
from tests.analyse.launches import pack

RULES = sorted(rule.id for rule in pack().rules.values() if not rule.retired)


def held_by(region: Region, facts: Facts) -> bool:
    return all(facts.values(name).within(values) for name, values in region.facts.items())  # type: ignore[arg-type]


def truth_of(found: Regions, facts: Facts) -> bool | None:
    """What the regions say of a launch; also that they share nothing."""
    holding = [region for region in found.regions if held_by(region, facts)]
    assert len(holding) <= 1, holding
    return holding[0].truth if holding else False


def some_launches(conditions: list[Condition], rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Launches in which every fact of the conditions has a value, at the ends of its cells; what is derived follows."""
    analysis = Analysis(pack(), conditions)
    names = {name for name in analysis.space.full if name not in DERIVED}
    for name in analysis.space.full:
        if name in DERIVED and not any(one in names for one in inputs_of(pack(), name, None)):
            names.add(name)
    drawn = []
    for _ in range(count):
        facts: dict[str, Any] = {}
        for name in sorted(names):
            fact = analysis.space.fact(name)
            cell = rng.choice(analysis.space.cells(name))
            facts[name] = rng.choice(representatives(fact, cell, pack().releases_of(name)))
        if "absent" not in facts.values():  # a name that is spelt like the value cannot be given
            drawn.append(facts)
    return drawn


@pytest.mark.parametrize("identifier", RULES)
def test_a_rule_holds_where_its_regions_say(identifier: str) -> None:
    rule = pack().rules[identifier]
    found = of_rule(pack(), rule)
    analysis = Analysis(pack(), [rule.when])
    for facts in some_launches([rule.when], random.Random(identifier), 30):
        held = Facts(pack(), launch_of(analysis.space, facts))
        if all(held.values(name).single() is not None for name in analysis.space.full):
            # what is still unknown then is a trait of a release that was not read
            assert truth_of(found, held) is rule.when.truth(held), written(facts)


@pytest.mark.parametrize("identifier", RULES)
def test_every_witness_is_what_its_region_says(identifier: str) -> None:
    rule = pack().rules[identifier]
    for traits in ("tabulated", PROBED):
        for region in of_rule(pack(), rule, traits).regions:
            if traits == PROBED and region.witness is None:
                assert any(name in DERIVED for name in region.facts)  # computed from a trait that may be any set of names
                continue
            assert region.witness is not None, region
            facts = Facts(pack(), Launch.of(pack(), region.witness))
            assert rule.when.truth(facts) is region.truth


@pytest.mark.parametrize("plan", pack().fusions["allreduce_rms"].plans, ids=lambda plan: str(plan.id))
def test_a_plan_is_admitted_where_its_regions_say(plan: Any) -> None:
    rules = [rule.when for rule in pack().rules_for(plan) if rule.effect == "exclude"]
    conditions = [plan.call, *plan.needs, *rules]
    analysis = Analysis(pack(), conditions)
    sure = analysis.all_of((plan.call, *plan.needs))
    denied = [box for rule in rules for box in analysis.space.boxes(rule, may=True)]
    rng = random.Random(plan.id)
    met = False
    for box in sure:
        part = analysis.feasible.part(box, denied)
        met = met or part is not None
        witness = analysis.witness(part) if part is not None else None
        if witness is None:
            continue
        evaluation = Evaluation(Facts(pack(), Launch.of(pack(), witness)), "safe")
        state = evaluation.plan_state(plan, [])
        assert state.state == "admitted" or state.because[0].effect == "limit", (witness, state)
    if not met:
        for facts in some_launches(conditions, rng, 100):
            evaluation = Evaluation(Facts(pack(), launch_of(analysis.space, facts)), "safe")
            assert evaluation.plan_state(plan, []).state != "admitted"


def test_a_gate_is_on_where_its_regions_say() -> None:
    product = pack().products["vllm"]
    gate = product.gates["allreduce_rms"]
    found = of_gate(pack(), product, gate)
    condition = gate_is(pack(), pack().fusions["allreduce_rms"], "on")
    analysis = Analysis(pack(), [condition])
    for facts in some_launches([condition], random.Random(1), 200):
        facts = {**facts, "request.allreduce_rms": "absent", "engine.name": "vllm"}
        held = Facts(pack(), launch_of(analysis.space, facts))
        state = outcome_of(Evaluation(held, "safe"), pack().fusions["allreduce_rms"], ()).state
        said = truth_of(found, held)
        assert (state == "on") == (said is True), (written(facts), state, said)


@pytest.mark.parametrize("name", ["norm_quant", "symm_mem_allreduce", "allreduce_rms"])
def test_a_fusion_is_on_where_its_regions_say(name: str) -> None:
    fusion = pack().fusions[name]
    found = of_on(pack(), fusion, most=12)
    assert found.regions
    assert not found.complete or len(found.regions) < 12
    assert any(region.truth for region in found.regions)
    for region in found.regions:
        assert region.witness is not None
        decision = evaluate(pack(), Launch.of(pack(), region.witness), "safe", (name,))[name]
        if region.truth:
            assert decision.state == "on"


def test_no_random_launch_is_on_outside_the_regions_of_on() -> None:
    fusion = pack().fusions["norm_quant"]
    found = of_on(pack(), fusion, most=10_000)
    assert found.complete
    on = 0
    for facts in some_launches(
        [fusion.wanted, *(plan.call for plan in fusion.plans), *(need for plan in fusion.plans for need in plan.needs)], random.Random(3), 150
    ):
        given = Launch.of(pack(), written({**facts, "engine.name": "vllm", "engine.version": "0.28.0", "request.norm_quant": "on"}))
        if evaluate(pack(), given, "safe", ("norm_quant",))["norm_quant"].state == "on":
            on += 1
            assert any(_meets(region, Facts(pack(), given)) for region in found.regions), facts
    assert on


def _meets(region: Region, facts: Facts) -> bool:
    return all(not facts.values(name).outside(values) for name, values in region.facts.items())  # type: ignore[arg-type]


def test_regions_are_printed_with_the_releases_they_contain() -> None:
    text = render(pack(), of_rule(pack(), pack().rules["early-completion"]))
    assert "engine.version: >=0.22.0,<0.24.0 (0.22.0 to 0.23.0)" in text
    assert "may hold, since a release in it was not read" in text


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("early-completion", "early-completion"),
        ("several-groups-in-world", "several-groups-in-world"),
        ("norm_quant", "norm_quant on in posture safe"),
        ("allreduce_rms/trtllm", "allreduce_rms trtllm"),
        ("vllm-norm-quant", "vllm-norm-quant unset"),
    ],
)
def test_whatever_has_a_name_has_regions(name: str, subject: str) -> None:
    found = where(pack(), name)
    assert found is not None
    assert found.subject == subject
    assert found.regions
    assert "such as " in render(pack(), found)


def test_nothing_has_no_regions() -> None:
    assert where(pack(), "allreduce_rms/nothing") is None
    assert where(pack(), "nothing") is None


def test_regions_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "early-completion", "--where"]) == 0
    assert "engine.version: >=0.22.0,<0.24.0 (0.22.0 to 0.23.0)" in capsys.readouterr().out
    assert main(["rule", "early-completon", "--where"]) == 2
    assert "did you mean `early-completion`?" in capsys.readouterr().err


def test_named_conditions_are_inlined() -> None:
    found = of_named(pack(), "several-groups-in-world")
    assert [set(region.facts) for region in found.regions] == [{"parallel.tensor_parallel_groups"}]


def test_probed_leaves_traits_free() -> None:
    found = of_rule(pack(), pack().rules["mnnvl-hangs-in-graphs"], PROBED)
    assert [set(region.facts) for region in found.regions] == [{"traits.flashinfer.mnnvl_graph_hang"}]
    tabulated = of_rule(pack(), pack().rules["mnnvl-hangs-in-graphs"])
    assert all(not name.startswith(TRAIT_PREFIX) for region in tabulated.regions for name in region.facts)


@pytest.mark.parametrize("raw", [{"traits.flashinfer.scope_authority": "absent"}, {"not": {"traits.flashinfer.takes_group": True}}])
def test_a_trait_of_a_library_that_is_not_there(raw: Any) -> None:
    asked = parse(raw, pack(), (), lambda path, message, help, key=False: pytest.fail(message))
    found = of_condition(pack(), asked, "asked")
    assert truth_of(found, Facts(pack(), Launch.of(pack(), {"packages.flashinfer-python": "absent"}))) is True


def test_cells_cut_a_version_at_every_constant() -> None:
    fact = pack().fact("packages.flashinfer-python")
    assert fact is not None
    cut = cells(fact, [fact.range(">=0.6.10.post1"), fact.values("0.6.12")])
    joined = cut[0]
    for cell in cut[1:]:
        assert cell.outside(joined)  # type: ignore[arg-type]
        joined = joined | cell  # type: ignore[operator]
    assert joined == fact.domain
