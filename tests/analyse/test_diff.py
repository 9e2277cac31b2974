"""Differences: nothing where nothing changes, every change inside the boxes named, every witness decided twice."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from policy.analyse.boxes import Box
from policy.analyse.diff import On, Outcome, alone, as_json, diff, upgrade
from policy.analyse.diff_text import markdown, text
from policy.analyse.lowering import literals
from policy.analyse.sides import Compared, Side
from policy.cli import main
from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.pack import Pack
from policy.records import replace
from tests.analyse.launches import launch, pack, random_facts

FUSION = "allreduce_rms"
V23 = {"engine.name": "vllm", "engine.version": "0.23.0"}
V24 = {"engine.name": "vllm", "engine.version": "0.24.0"}


def without(*rules: str) -> Pack:
    return replace(pack(), rules={name: rule for name, rule in pack().rules.items() if name not in rules}, digest="f" * 16)


def outcome(of: Pack, facts: dict[str, Any], fusion: str = FUSION) -> Outcome:
    return Outcome.of(evaluate(of, Launch.of(of, facts), "safe", (fusion,))[fusion])


def test_a_pack_differs_from_itself_in_nothing() -> None:
    found = diff(pack(), pack())
    assert not found.changes
    assert found.complete
    assert "nothing changes" in text(found)


def test_a_rule_that_is_new_is_found_with_a_launch() -> None:
    found = diff(without("group-argument-missing"), pack(), fusions=(FUSION,))
    lost = [change for change in found.changes if change.kind == "lost"]
    assert lost
    for change in lost:
        assert change.witness is not None
        assert any("group-argument-missing" in part for part in change.parts)
        facts = dict(change.witness)
        assert outcome(without("group-argument-missing"), facts) == change.before
        assert outcome(pack(), facts) == change.after


def test_an_upgrade_of_the_engine_and_the_launches_it_hits() -> None:
    replicas = launch(engine__version="0.23.0", parallel__data_parallel_size=2, model__is_moe=True)
    alone = launch(engine__version="0.23.0", packages__flashinfer_python="absent")
    found = upgrade(pack(), V23, V24, [("replicas", replicas), ("no library", alone)], (FUSION,), seconds=8)
    assert [(hit.launch, hit.before.reason, hit.after.state) for hit in found.hits] == [("replicas", "rendezvous-over-world", "on")]
    assert (found.hits[0].alone_before, found.hits[0].alone_after) == ("on, hang", "on, fused")
    assert {change.kind for change in found.changes} >= {"gained"}
    for change in found.changes:
        assert change.witness is not None
        assert outcome(pack(), {**change.witness, **V23}) == change.before
        assert outcome(pack(), {**change.witness, **V24}) == change.after
        assert change.before != change.after


def test_an_upgrade_of_the_library() -> None:
    found = upgrade(pack(), {"packages.flashinfer-python": "0.6.9"}, {"packages.flashinfer-python": "0.6.10.post1"}, fusions=(FUSION,), seconds=120)
    assert found.complete
    assert {change.kind for change in found.changes} >= {"gained", "plan"}
    for change in found.changes:
        assert change.witness is not None
        assert outcome(pack(), {**change.witness, "packages.flashinfer-python": "0.6.9"}) == change.before
        assert outcome(pack(), {**change.witness, "packages.flashinfer-python": "0.6.10.post1"}) == change.after


def test_a_witness_lies_in_its_region() -> None:
    found = upgrade(
        pack(), {"packages.flashinfer-python": "0.6.9"}, {"packages.flashinfer-python": "0.6.10.post1"}, fusions=("allreduce_flashinfer",), seconds=120
    )
    assert any("runtime.builder" in change.facts for change in found.changes)  # which is assumed otherwise where it is left out
    for change in found.changes:
        facts = Facts(pack(), Launch.of(pack(), {**(change.witness or {}), "packages.flashinfer-python": "0.6.10.post1"}))
        for name, values in change.facts.items():
            assert not facts.values(name).outside(values), (name, change.witness)  # type: ignore[arg-type]


def test_the_fusions_with_the_most_to_look_at_come_last() -> None:
    seen: list[str] = []
    names = ("allreduce_flashinfer", "moe_finalize_allreduce", "norm_quant")
    before, after = {"packages.flashinfer-python": "0.6.9"}, {"packages.flashinfer-python": "0.6.10.post1"}
    upgrade(pack(), before, after, fusions=names, seconds=0, progress=lambda done, steps, what: seen.append(what))
    assert len(seen) == 6
    assert seen[3:] == ["norm_quant", "moe_finalize_allreduce", "allreduce_flashinfer"]


@pytest.mark.parametrize("seed", range(12))
def test_a_launch_with_fewer_facts_is_decided_as_if_it_were_new(seed: int) -> None:
    rng = random.Random(seed)
    compared = Compared(Side.of(pack(), "old", V23), Side.of(pack(), "new", V24), (FUSION,))
    compared.space.freeze()
    facts = random_facts(rng, pack())
    for side in (compared.old, compared.new):
        on = On(compared, side, FUSION, "safe")
        trial, left = on.trial(facts), dict(facts)
        assert trial.decision is not None
        for _ in range(8):
            dropped = rng.sample(sorted(left), min(len(left), rng.randint(1, 2)))
            left = {name: value for name, value in left.items() if name not in dropped}
            trial = trial.without(dropped)
            fresh = on.trial(left).decision
            assert Outcome.of(trial.decision) == Outcome.of(fresh), left
            assert alone(trial.decision) == alone(fresh), left


def test_what_pinned_facts_decide_is_left_out() -> None:
    compared = Compared(Side.of(pack(), "old", V23), Side.of(pack(), "new", V24), (FUSION,))
    for side in (compared.old, compared.new):
        for condition in compared.parts_of(side, FUSION).values():
            for may in (True, False):
                assert not {literal.fact for literal in literals(side.node(condition, may))} & {"engine.name", "engine.version"}


def holds(boxes: list[tuple[str, Box]], compared: Compared, facts: Facts) -> bool:
    space = compared.space
    return any(all(space.touching(name, facts.values(name)) & mask for name, mask in box.items()) for _, box in boxes)


@pytest.mark.parametrize("removed", ["rendezvous-over-world", "group-argument-missing", "early-completion"])
def test_no_decision_differs_outside_the_boxes_that_differ(removed: str) -> None:
    other = without(removed)
    compared = Compared(Side("old", other), Side("new", pack()), (FUSION,))
    boxes = list(compared.differing(FUSION))
    differing = 0
    for seed in range(150):
        facts = random_facts(random.Random(seed), pack())
        if outcome(other, facts) != outcome(pack(), facts):
            differing += 1
            assert holds(boxes, compared, Facts(pack(), Launch.of(pack(), facts))), facts
    assert boxes
    assert differing or removed == "rendezvous-over-world"  # which is rarely the only reason


def test_no_launch_is_decided_otherwise_outside_the_boxes_of_an_upgrade() -> None:
    compared = Compared(Side.of(pack(), "old", V23), Side.of(pack(), "new", V24), (FUSION,))
    boxes = list(compared.differing(FUSION))
    differing = 0
    for seed in range(150):
        facts = {**random_facts(random.Random(seed), pack()), "engine.name": "vllm"}
        facts.setdefault("packages.flashinfer-python", "0.6.12")  # a pin would change with the engine
        if outcome(pack(), {**facts, **V23}) != outcome(pack(), {**facts, **V24}):
            differing += 1
            assert holds(boxes, compared, Facts(pack(), Launch.of(pack(), {**facts, **V24}))), facts
    assert differing > 10


def test_a_fusion_that_is_new() -> None:
    fewer = replace(pack(), fusions={name: fusion for name, fusion in pack().fusions.items() if name != "norm_quant"}, digest="f" * 16)
    found = diff(fewer, pack(), fusions=("norm_quant",), seconds=5)
    assert found.changes
    assert {change.before.state for change in found.changes} == {"no such fusion"}


def test_outputs_name_the_regions_and_what_was_left_out() -> None:
    found = diff(without("group-argument-missing"), pack(), [("mine", launch(engine__version="0.24.0", packages__flashinfer_python="0.6.9"))], (FUSION,))
    shown = markdown(found)
    assert "| mine | allreduce_rms | on with trtllm | off because of group-argument-missing |" in shown
    assert "| fusion | change | before | after | engine left alone | where | such as |" in shown
    assert as_json(found)["changes"][0]["witness"]
    hurried = diff(without("group-argument-missing"), pack(), fusions=(FUSION,), seconds=0.0)
    assert not hurried.complete
    assert "not looked at within the budget" in text(hurried)


def test_an_upgrade_for_everything(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["upgrade", "flashinfer=0.6.10.post1", "--everything", "--seconds", "0", "--format", "json", "--set", "engine.version=0.23.0"]
    assert main([*words, "--set", "packages.flashinfer-python=0.6.9", "--", "vllm", "serve", "m", "-tp", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["old"], one["new"]) for one in found["regions"]] == [("packages.flashinfer-python 0.6.9", "packages.flashinfer-python 0.6.10.post1")]
    assert set(found["regions"][0]["unexamined"]) >= {"allreduce_rms"}
    assert main([*words, "--set", "packages.flashinfer-python=unknown", "--", "vllm", "serve", "m", "-tp", "2"]) == 2
    assert "the present value of `packages.flashinfer-python` is not known" in capsys.readouterr().err
