"""The language-neutral decisions of `tests/decisions`: facts and a tiny pack to a decision and its findings."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from policy.decision import Decision, Verdict
from policy.evaluate import evaluate
from policy.launch import Launch
from policy.load import read_pack
from policy.pack import Pack
from policy.source import read_yaml

FOLDER = Path(__file__).parent / "decisions"
TOPICS = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "base")


@lru_cache
def topic(name: str) -> Any:
    document, problems = read_yaml((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), name)
    assert not problems, problems
    return document.value


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pack]:
    """The pack of every topic, written to files and loaded as any other."""
    loaded = {}
    for name in TOPICS:
        root = tmp_path_factory.mktemp(name)
        for file, content in {**topic("base")["files"], **topic(name).get("files", {})}.items():
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_written(content), encoding="utf-8")
        loaded[name] = read_pack(root, compiled=False)
    return loaded


def _written(content: Any) -> str:
    """Data as YAML; JSON is YAML, and keeps every text a text."""
    import json

    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


CASES = [(name, number) for name in TOPICS for number in range(len(topic(name)["cases"]))]


@pytest.mark.parametrize(("name", "number"), CASES, ids=[f"{name}: {topic(name)['cases'][number]['name']}" for name, number in CASES])
def test_decision(name: str, number: int, packs: dict[str, Pack]) -> None:
    case, pack = topic(name)["cases"][number], packs[name]
    verdict = evaluate(pack, Launch.of(pack, case["launch"]), case.get("posture", "safe"), strict=case.get("strict", False))
    for what, expected in case["expect"].items():
        found = launch_view(verdict) if what == "launch" else view(verdict[what])
        findings = expected.pop("findings") if what != "launch" and "findings" in expected else []
        for key in ("able", "because"):
            if key in expected:
                found[key] = {plan: found[key].get(plan) for plan in expected[key]}
        assert {key: found[key] for key in expected} == expected
        told = findings_of(verdict[what]) if findings else []
        assert all(finding in told for finding in findings), told
        if findings:
            expected["findings"] = findings


def view(decision: Decision) -> dict[str, Any]:
    """What of a decision the files speak of."""
    alone = decision.left_alone
    return {
        "state": decision.state,
        "plan": decision.chosen.id if decision.chosen is not None else None,
        "reason": decision.reason.id,
        "kind": decision.reason.kind,
        "left_alone": {"state": alone.state, "built": alone.built, "plan": alone.engine_plan},
        "able": {state.plan.id: state.state for state in decision.able},
        "because": {state.plan.id: [one.id for one in state.because] for state in decision.able},
        "unknown": list(decision.unknown_facts),
        "assuming": decision.assuming,
        "against": decision.against_engine,
        "audit": decision.audit,
        "conflict": decision.conflict,
        "final": decision.final,
        "better": list(decision.better),
        "provisional": list(decision.provisional),
        "switches": [switch.text for switch in decision.switches],
        "limits": {name: limit.value for name, limit in decision.limits.items()},
        "warnings": [one.id for one in decision.warnings],
    }


def launch_view(verdict: Verdict) -> dict[str, Any]:
    return {"state": verdict.launch.state, "findings": [one.id for one in verdict.launch.findings]}


def findings_of(decision: Decision) -> list[dict[str, Any]]:
    """The findings of the engine's outcome and of every reason."""
    found = [
        *decision.left_alone.findings,
        *decision.reason.findings,
        *(finding for state in decision.able for one in state.because for finding in one.findings),
    ]
    return [{"fact": one.fact, "condition": one.condition, "value": one.value, "truth": one.truth} for one in found]


def test_every_kind_of_answer_occurs() -> None:
    """The cases cover every state, reason, outcome and audit class."""
    expected = [answer for name in TOPICS for case in topic(name)["cases"] for what, answer in case["expect"].items() if what != "launch"]
    assert {one.get("state") for one in expected} >= {"on", "off", "undetermined"}
    assert {one.get("kind") for one in expected} >= {"asked", "needs", "gate", "rule", "requires", "unwanted"}
    assert {one["left_alone"]["built"] for one in expected if "left_alone" in one} >= {"fused", "unfused", "hang", "crash", "unknown"}
    assert {one.get("audit") for one in expected} >= {"agreed", "hazard", "missed", "undetermined"}
    assert {one.get("against") for one in expected} >= {"same", "narrower", "wider"}
