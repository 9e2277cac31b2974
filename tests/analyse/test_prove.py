"""Invariants: those that ship hold for all launches, and a pack that breaks one is told by a launch."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from policy.analyse.invariants import Clause, Invariant, parse_invariant, read_invariants
from policy.analyse.prove import PROVED, REFUTED, UNDECIDED, prove, render
from policy.analyse.regions import Analysis
from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.pack import Pack
from policy.problems import PackError
from policy.records import replace
from tests.analyse.launches import pack, random_facts


def without(*rules: str) -> Pack:
    return replace(pack(), rules={name: rule for name, rule in pack().rules.items() if name not in rules})


def test_every_shipped_invariant_is_proved() -> None:
    proofs = prove(pack(), read_invariants(pack()))
    assert len(proofs) >= 12
    assert [proof.invariant.id for proof in proofs if proof.status != PROVED] == []


def test_every_shipped_invariant_is_proved_whatever_a_probe_says() -> None:
    proofs = prove(pack(), [one for one in read_invariants(pack()) if one.id == "several-groups-never-over-world"], "probed")
    assert [(proof.status, proof.traits) for proof in proofs] == [(PROVED, "probed")]


@pytest.mark.parametrize(
    ("rule", "invariant"),
    [
        ("rendezvous-over-world", "several-groups-never-over-world"),
        ("group-argument-missing", "group-argument-only-where-it-is-taken"),
        ("order-depends-on-batch", "batch-invariance-keeps-the-reduction-order"),
    ],
)
def test_a_pack_without_the_rule_is_refuted_by_a_launch(rule: str, invariant: str) -> None:
    broken = without(rule)
    (proof,) = prove(broken, [one for one in read_invariants(pack()) if one.id == invariant])
    assert proof.status == REFUTED
    found = proof.refutation
    assert found is not None
    decision = evaluate(broken, Launch.of(broken, found.facts), found.posture, (found.fusion,))[found.fusion]
    assert decision.state == "on"
    for name in found.facts:  # smallest: nothing can be left out
        fewer = {other: value for other, value in found.facts.items() if other != name}
        again = evaluate(broken, Launch.of(broken, fewer), found.posture, (found.fusion,))[found.fusion]
        held = Facts(broken, Launch.of(broken, fewer))
        conditions = [condition.truth(held) for clause in proof.invariant.forbidden for condition in clause.conditions]
        assert again.state != "on" or again.chosen != decision.chosen or not all(conditions)
    assert f"broken for {found.fusion} in posture {found.posture} by" in render([proof])


@pytest.mark.parametrize("invariant", read_invariants(pack()), ids=lambda invariant: str(invariant.id))
def test_no_part_of_an_invariant_can_be_left_out(invariant: Invariant) -> None:
    """Each is refuted without any one of its parts: it speaks of launches that there are, and of nothing that says nothing."""
    for clause in invariant.forbidden:
        for left_out in range(len(clause.conditions) + len(clause.answers)):
            conditions = tuple(one for number, one in enumerate(clause.conditions) if number != left_out)
            answers = tuple(one for number, one in enumerate(clause.answers, len(clause.conditions)) if number != left_out)
            (proof,) = prove(pack(), [replace(invariant, forbidden=(Clause(conditions, answers),))])
            assert proof.status == REFUTED, (left_out, render([proof]))


def without_needs() -> Pack:
    """Every plan as if it needed nothing."""
    return replace(pack(), fusions={name: replace(one, plans=tuple(replace(plan, needs=()) for plan in one.plans)) for name, one in pack().fusions.items()})


def without_switches() -> Pack:
    """vLLM as if it could not be told off."""
    engine = pack().products["vllm"]
    return replace(pack(), products={**pack().products, "vllm": replace(engine, switches=tuple(one for one in engine.switches if one.turn != "off"))})


@pytest.mark.parametrize(
    ("broken", "invariant"),
    [
        (without_needs(), "library-is-there"),
        (without_needs(), "trtllm-never-across-nodes"),
        (without_switches(), "on-by-itself-has-an-off"),
        (without("hidden-size-not-multiple-of-8"), "vectors-of-eight"),
        (without("ranks-not-offered"), "more-than-one-rank"),
        (without("multicast-missing"), "mnnvl-never-without-multicast"),
        (without("rendezvous-over-world"), "symmetric-memory-needs-the-group"),
    ],
    ids=lambda held: held if isinstance(held, str) else "",
)
def test_what_protects_an_invariant(broken: Pack, invariant: str) -> None:
    (proof,) = prove(broken, [one for one in read_invariants(pack()) if one.id == invariant])
    assert proof.status == REFUTED
    assert proof.refutation is not None
    Launch.of(broken, proof.refutation.facts)  # a launch that can be written down


@pytest.mark.parametrize("seed", range(40))
def test_no_random_launch_breaks_what_was_proved(seed: int) -> None:
    given = Launch.of(pack(), random_facts(random.Random(seed), pack()))
    held = Facts(pack(), given)
    for posture in ("safe", "fast"):
        decision = evaluate(pack(), given, posture, ("allreduce_rms",))["allreduce_rms"]
        if decision.state == "on" and decision.chosen is not None:
            assert decision.asked != "off"
            assert not (decision.chosen.scope == "world" and pack().conditions["several-groups-in-world"].truth(held))


FORMS: list[tuple[dict[str, Any], str]] = [
    ({"never": {"all": [{"packages.flashinfer-python": "absent"}, {"plan": {"library": "flashinfer"}}]}}, PROVED),
    ({"implies": {"if": {"request.allreduce_rms": "off"}, "then": {"state": ["off", "undetermined"]}}}, PROVED),
    ({"always": {"any": [{"parallel.tensor_parallel_groups": 1}, "several-groups-in-world"]}}, PROVED),
    ({"always": {"parallel.tensor_parallel_groups": 1}}, REFUTED),
    ({"always": {"state": ["off", "undetermined"]}}, REFUTED),
    ({"never": {"left_alone": "on"}}, REFUTED),
    ({"never": {"all": [{"left_alone": "on"}, {"built": "hang"}]}}, REFUTED),
]


@pytest.mark.parametrize(("form", "status"), FORMS)
def test_forms(form: dict[str, Any], status: str) -> None:
    invariant = parse_invariant(pack(), "form", {"title": "a form", "why": "a test", "fusion": "allreduce_rms", **form})
    (proof,) = prove(pack(), [invariant])
    assert proof.status == status, render([proof])
    assert (proof.refutation is not None) == (status == REFUTED)


def test_what_no_launch_could_show_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Analysis, "witness", lambda self, box: None)
    invariant = parse_invariant(
        pack(), "facts", {"title": "facts", "why": "a test", "fusion": "allreduce_rms", "always": {"parallel.tensor_parallel_groups": 1}}
    )
    (proof,) = prove(pack(), [invariant])
    assert proof.status == UNDECIDED
    assert "no launch could be made concrete" in proof.open


def test_a_budget_that_is_too_small_is_said() -> None:
    never = {"all": [{"state": "off"}, {"built": "fused"}]}
    invariant = parse_invariant(pack(), "wide", {"title": "wide", "why": "a test", "fusion": "allreduce_rms", "never": never})
    (proof,) = prove(pack(), [invariant], seconds=0.0)
    assert proof.status == UNDECIDED
    assert proof.open


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"never": {"plan": {"scope": "nowhere"}}}, "no plan matches"),
        ({"never": {"state": "maybe"}}, "`maybe` is none of"),
        ({"never": {"sevral-groups": True}}, "no fact is named"),
        ({"title": "nothing"}, "one of `never`, `always`, `implies`"),
        ({"implies": {"if": True}}, "`implies` takes `if` and `then`"),
        ({"never": {"state": "on"}, "fusion": "allreduce_rsm"}, "no fusion is named `allreduce_rsm`"),
    ],
)
def test_defects_of_an_invariant_are_problems(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(PackError, match=message):
        parse_invariant(pack(), "wrong", raw)


def test_a_defect_is_shown_where_it_stands(tmp_path: Path) -> None:
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "one.yaml").write_text('invariants:\n  wrong:\n    title: wrong\n    why: a test\n    never: {stat: "on"}\n')
    with pytest.raises(PackError) as caught:
        read_invariants(replace(pack(), folder=str(tmp_path)))
    assert caught.value.problems[0].span is not None
    assert caught.value.problems[0].span.line == 5
