"""What is asked of a pack as a whole: idle rules, gaps, cases that tell too little."""

from __future__ import annotations

from typing import Any

import pytest

from policy.analyse.coverage import idle
from policy.analyse.gaps import gaps
from policy.analyse.generated import generated
from policy.analyse.mutants import mutants
from policy.analyse.mutation import mutation_score, render
from policy.analyse.report import report
from policy.analyse.tree import replaced
from policy.analyse.whole import Whole
from policy.conditions import Condition, parse
from policy.launch import Facts, Launch
from policy.pack import Case, Pack, Rule
from policy.records import replace
from tests.analyse.launches import pack


def condition(raw: Any) -> Condition:
    found: list[str] = []

    def complain(path: Any, message: str, help: str, key: bool = False) -> None:
        found.append(message)

    parsed = parse(raw, pack(), (), complain)
    assert not found, found
    return parsed


def with_rule(rule: Rule) -> Pack:
    return replace(pack(), rules={**pack().rules, rule.id: rule})


def rule(raw: Any, like: str = "multicast-missing", **changes: Any) -> Rule:
    return replace(pack().rules[like], id="made-up", condition=condition(raw), cases=(), **changes)


def idle_of(made: Rule) -> list[str]:
    return [one.message for one in idle(Whole(with_rule(made))) if one.id == made.id]


def test_contradiction() -> None:
    raw = {"all": [{"packages.flashinfer-python": ">=0.6.10"}, {"traits.flashinfer.mnnvl_graph_hang": True}, {"packages.flashinfer-python": ">=0.6.12,<0.7.0"}]}
    assert idle_of(rule(raw)) == ["it holds for no launch: its conditions contradict each other"]


def test_contradiction_among_derived_facts() -> None:
    raw = {"all": [{"parallel.nodes": 1}, {"parallel.nodes_spanned": ">=2"}]}
    assert idle_of(rule(raw)) == ["it holds for no launch: its conditions contradict each other"]


def test_a_rule_about_a_plan_that_is_not_formed_there() -> None:
    raw = {"all": [{"runtime.builder": "engine"}, {"engine.name": "vllm"}, {"engine.version": ">=0.24.0,<=0.33.0"}]}
    made = rule(raw, "rendezvous-over-world")
    assert idle_of(made) == ["no plan that it selects is formed where it holds"]


def test_a_covered_rule_names_what_covers_it() -> None:
    made = rule({"all": [{"device.multicast": False}, {"device.fabric": False}]})
    found = [one for one in idle(Whole(with_rule(made))) if one.id == made.id]
    assert [one.by for one in found] == [("multicast-missing",)]


def test_worse_than_what_covers_it_is_not_idle() -> None:
    assert idle_of(rule({"all": [{"device.multicast": False}, {"device.fabric": False}]}, consequence="hang")) == []


def test_a_plan_that_no_launch_gets() -> None:
    everywhere = rule({"any": [{"device.multicast": True}, {"device.multicast": False}]}, "mnnvl-hangs-in-graphs")
    found = [one for one in idle(Whole(with_rule(everywhere))) if one.kind == "plan" and one.id == "allreduce_rms mnnvl"]
    assert [one.message for one in found] == ["rules exclude it wherever it could be built: no launch can get it"]


def test_gaps_name_the_releases_that_nobody_read() -> None:
    product = pack().products["vllm"]
    gate = product.gates["allreduce_rms"]
    rows = tuple((since, arm if str(since) != "0.24.0" else replace(arm, known=False)) for since, arm in gate.arms.rows)
    broken = replace(product, gates={**product.gates, "allreduce_rms": replace(gate, arms=replace(gate.arms, rows=rows))})
    found = [one for one in gaps(replace(pack(), products={**pack().products, "vllm": broken})) if one.subject == gate.id]
    assert [one.releases for one in found] == [("0.24.0",)]


@pytest.mark.parametrize("identifier", ["rendezvous-over-world", "group-argument-missing", "null-multicast-pointer", "ranks-not-offered", "device-by-rank"])
def test_generated_cases_stand_on_both_sides(identifier: str) -> None:
    found = generated(pack(), pack().rules[identifier].when)
    assert {case.truth for case in found} == {True, False}
    for case in found:  # a case is a launch that can be written down
        assert pack().rules[identifier].when.truth(Facts(pack(), Launch.of(pack(), case.point.launch()))) is case.truth


def test_a_constant_has_cases_just_inside_and_just_outside() -> None:
    found = {case.point.launch()["packages.flashinfer-python"]: case.truth for case in generated(pack(), pack().rules["group-argument-missing"].when)}
    assert found["0.6.10"] is True
    assert found["0.6.10.post1"] is False
    assert found["absent"] is True


def test_a_comparison_under_a_not_has_cases_too() -> None:
    found = generated(pack(), condition({"any": [{"device.fabric": True}, {"not": {"device.multicast": True}}]}))
    assert {(case.point.launch()["device.multicast"], case.truth) for case in found if not case.point.launch()["device.fabric"]} == {
        (True, False),
        (False, True),
    }


def test_constants_move_both_ways() -> None:
    words = {mutant.words for mutant in mutants(pack(), condition({"parallel.tensor_parallel_size": ">=4"}))}
    assert {f"parallel.tensor_parallel_size >={other} instead of >=4" for other in (3, 5)} <= words


def test_a_mistake_that_no_case_notices_survives() -> None:
    few = replace(pack().rules["group-argument-missing"], cases=(Case("old", {"packages.flashinfer-python": "0.6.0"}, "fires"),))
    score = mutation_score(pack(), [few])
    unseen = {survivor.words for survivor in score.unseen}
    assert "packages.flashinfer-python >=0.6.11 instead of >=0.6.10.post1" in unseen
    assert score.percent_written <= 50 < score.percent


def test_an_equivalent_mistake_is_proved_to_be_none() -> None:
    made = rule({"all": [{"parallel.nodes_spanned": 1}, {"any": [{"parallel.nodes_spanned": 1}, {"device.fabric": True}]}]})
    score = mutation_score(pack(), [made])
    assert score.equivalent >= 1
    assert not score.survivors


def test_every_mutant_differs_in_the_tree() -> None:
    for one in pack().rules.values():
        for mutant in list(mutants(pack(), one.when))[:20]:
            assert replaced(one.when, mutant.place, mutant.by) != one.when


def test_the_real_pack() -> None:
    found = report(pack())
    assert found.score.percent >= 95.0, "\n".join(render(found.score))
    assert all(proof.status == "proved" for proof in found.proofs)
    assert sum(found.seconds.values()) < 10.0  # the bench holds it to 2 s; a shared machine may be slow
    assert found.as_json()["mutation"]["made"] > 1000
