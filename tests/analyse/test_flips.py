"""Smallest changes: what they must contain, that each works, and that none is missing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from policy.analyse.flips import Flips, flips, search
from policy.analyse.outlook import Outlook
from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.records import replace
from policy.versions import Version
from tests.analyse.launches import launch, pack, random_facts

FUSION = "allreduce_rms"


def on(given: Launch, posture: str = "safe") -> bool:
    verdict = evaluate(pack(), given, posture, (FUSION,))
    decision = verdict[FUSION]
    return decision.state == "on" and not decision.switches and verdict.launch.state != "refused"


def values(text: str) -> list[str]:
    """The parts of a flip's value: one, or a list in brackets."""
    return text[1:-1].split(", ") if text.startswith("[") else [text]


def holds(fact: str, text: str, value: Any) -> bool:
    """Whether a value lies in what a flip says."""
    declared = pack().fact(fact)
    assert declared is not None
    if "present" in values(text):
        return value != "absent"
    return any(declared.value(value) in declared.values(part) for part in values(text))


def changes(found: list[Any]) -> dict[str, str]:
    return {name: value for flip in found for name, value in flip.changes.items() if len(flip.changes) == 1}


def test_the_release_that_passes_the_group_and_only_that_one() -> None:
    given = launch(engine__version="0.22.1", packages__flashinfer_python="0.6.11.post2", parallel__pipeline_parallel_size=2)
    versions = changes(flips(pack(), given, FUSION))["engine.version"]
    assert holds("engine.version", versions, "0.24.0")
    for release in pack().products["vllm"].releases:
        if release >= Version("0.25.0"):
            assert not holds("engine.version", versions, str(release))


def test_one_pipeline_stage_is_a_flag_and_comes_first() -> None:
    given = launch(engine__version="0.20.2", packages__flashinfer_python="0.6.8.post1", parallel__pipeline_parallel_size=2)
    first = flips(pack(), given, FUSION)[0]
    assert (dict(first.changes), first.cost) == ({"parallel.pipeline_parallel_size": "1"}, "flag")


def test_a_library_too_old_for_the_engine() -> None:
    given = launch(engine__version="0.24.0", packages__flashinfer_python="0.6.9", parallel__pipeline_parallel_size=2)
    version = changes(flips(pack(), given, FUSION))["packages.flashinfer-python"]
    assert holds("packages.flashinfer-python", version, "0.6.10.post1")
    assert not holds("packages.flashinfer-python", version, "0.6.10")


def test_a_request_to_drop() -> None:
    found = flips(pack(), launch(engine__version="0.24.0", request__allreduce_rms="off"), FUSION)
    assert [dict(flip.changes) for flip in found] == [{"request.allreduce_rms": "absent"}]


def test_two_facts_where_one_is_not_enough() -> None:
    given = launch(engine__version="0.24.0", packages__flashinfer_python="0.6.9", request__allreduce_rms="off")
    found = search(pack(), given, FUSION, budget=5)
    assert found.complete
    pairs = [dict(flip.changes) for flip in found.found]
    assert any(set(pair) == {"request.allreduce_rms", "packages.flashinfer-python"} for pair in pairs)
    assert all(len(pair) == 2 for pair in pairs)


@pytest.mark.parametrize(
    ("facts", "fixed"),
    [({"device.compute_capability": "8.0"}, {"device.compute_capability": "8.0"}), ({"device.platform": "rocm"}, {"device.platform": "rocm"})],
)
def test_what_cannot_change_is_named(facts: dict[str, Any], fixed: dict[str, str]) -> None:
    found = search(pack(), launch({"engine.version": "0.24.0", **facts}), FUSION, budget=5)
    assert found.fixed == fixed
    assert all(flip.cost == "machine" for flip in found.found)


def test_on_needs_no_flip() -> None:
    assert search(pack(), launch(engine__version="0.24.0"), FUSION) == Flips()


def test_no_budget_is_said() -> None:
    given = launch(engine__version="0.22.1", parallel__pipeline_parallel_size=2)
    found = search(pack(), given, FUSION, budget=0)
    assert not found.found
    assert not found.complete


def test_a_release_that_brings_another_library_is_told_apart() -> None:
    """Two releases that behave alike, of which one requires a library that does not take the group argument."""
    engine = pack().products["vllm"]
    older = {**engine.pins[Version("0.27.1")], "flashinfer-python": "==0.6.9"}
    changed = replace(engine, pins={**engine.pins, Version("0.27.1"): older})
    other = replace(pack(), products={**pack().products, "vllm": changed})
    given = launch(engine__version="0.23.0", parallel__data_parallel_size=2, model__is_moe=True)
    for of, expected in ((pack(), True), (other, False)):
        versions = changes(list(search(of, given, FUSION, budget=5).found))["engine.version"]
        assert holds("engine.version", versions, "0.27.0")
        assert holds("engine.version", versions, "0.27.1") is expected


@pytest.mark.parametrize("seed", range(12))
def test_a_decision_that_is_known_already_changes_nothing(seed: int) -> None:
    given = Launch.of(pack(), random_facts(random.Random(seed), pack()))
    for strict in (False, True):
        decided = evaluate(pack(), given, "safe", (FUSION,), strict)[FUSION]
        assert search(pack(), given, FUSION, "safe", 30, strict, decided) == search(pack(), given, FUSION, "safe", 30, strict)


@pytest.mark.parametrize("seed", range(12))
def test_an_answer_taken_over_is_the_answer(seed: int) -> None:
    """Launches that differ in one fact, each looked at after the other, against each alone."""
    given = Launch.of(pack(), random_facts(random.Random(seed), pack()))
    outlook = Outlook(pack(), given, pack().fusions[FUSION], "safe", False)
    for name in ("engine.version", "packages.flashinfer-python", "parallel.pipeline_parallel_size"):
        fact = pack().fact(name)
        assert fact is not None
        values = pack().releases_of(name) or (pack().products["vllm"].releases if name == "engine.version" else (1, 2, 4))
        for value in values:
            changes = {name: fact.values(str(value) if fact.type == "version" else value)}
            evaluation = outlook.silently(outlook.fork(changes), changes)
            fresh = evaluate(pack(), given.with_facts(pack(), changes), "safe", (FUSION,))[FUSION].state == "on"
            assert outlook.decided(evaluation, lambda held: held.decide(pack().fusions[FUSION], {}).state == "on") is fresh, (name, value)


SIZES = {"parallel.pipeline_parallel_size": [1, 2, 3], "parallel.tensor_parallel_size": [1, 2, 3, 4, 8], "parallel.data_parallel_size": [1, 2, 4]}


def candidates(fact: str) -> list[Any]:
    """Values of a fact tried by hand."""
    product = next((one for one in pack().products.values() if one.version_fact == fact and one.name in ("vllm", "flashinfer")), None)
    if product is not None:
        return [str(release) for release in product.releases]
    return SIZES.get(fact, ["adapter", "engine"])


@pytest.mark.parametrize("seed", range(30))
def test_flips_are_those_of_brute_force(seed: int) -> None:
    """Every value of some facts, alone: a flip contains it exactly where the decision over all facts says on."""
    facts = random_facts(random.Random(seed), pack())
    given = Launch.of(pack(), facts)
    if evaluate(pack(), given, "safe", (FUSION,))[FUSION].state == "on":
        return
    found = search(pack(), given, FUSION, budget=30)
    assert found.complete
    singles = changes(list(found.found))
    for fact in ("engine.version", "packages.flashinfer-python", "runtime.builder", *SIZES):
        for value in candidates(fact):
            if facts.get(fact) == value:
                continue
            changed = {**facts, fact: value}
            if changed.get("parallel.tensor_parallel_size", 1) * changed.get("parallel.pipeline_parallel_size", 1) > 8:
                continue
            expected = on(Launch.of(pack(), changed))
            assert (fact in singles and holds(fact, singles[fact], value)) == expected, (fact, value, singles.get(fact))


@pytest.mark.parametrize("seed", range(30))
def test_a_fork_is_the_launch_itself(seed: int) -> None:
    """Facts taken over from the launch next to it are those that are resolved anew."""
    rng = random.Random(seed)
    facts = random_facts(rng, pack())
    outlook = Outlook(pack(), Launch.of(pack(), facts), pack().fusions[FUSION], "safe", False)
    for name in pack().facts:
        outlook.base.get(name)
    for name, value in random_facts(rng, pack()).items():
        declared = pack().fact(name)
        assert declared is not None
        fork = outlook.fork({name: declared.values(value)})
        fresh = Facts(pack(), fork.launch)
        for other in pack().facts:
            assert fork.values(other) == fresh.values(other), (name, value, other)
