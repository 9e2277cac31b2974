"""From the plug-in's decision to the ranks: what is handed over, to whom, and what nobody is to find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policy import read_pack
from policy.evaluate import evaluate
from policy.launchers.plugins.adapter import BUILDER, DECISION, handed_over, state_builder, take_back
from policy.launchers.plugins.common import Statement
from policy.origin import Origin
from policy.runtime.engines import door as door_module
from policy.runtime.engines.door import Door, deadline_given
from policy.runtime.plan import Consumer, Deadline, Decision, Outcome, Reason
from policy.runtime.settle import Settled

ROOT = Path(__file__).resolve().parents[2]
FACTS: dict[str, Any] = {
    "engine.name": "vllm",
    "engine.version": "0.24.0",
    "packages.flashinfer-python": "0.6.12",
    "packages.flashinfer-cubin": "0.6.12",
    "parallel.tensor_parallel_size": 2,
    "parallel.pipeline_parallel_size": 2,
    "parallel.nodes": 1,
    "device.platform": "cuda",
    "device.compute_capability": "9.0",
    "device.interconnect": "nvswitch",
    "device.gpus_per_node": 8,
    "model.dtype": "bfloat16",
    "model.hidden_size": 8192,
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MODE", "DECISION", "DEADLINE", "REPORT"):
        monkeypatch.delenv(f"FUSION_POLICY_{name}", raising=False)
    monkeypatch.setenv("FUSION_POLICY_BUILDER", "adapter")


def variables(obstacle: str = "", posture: str = "safe", **facts: Any) -> dict[str, str]:
    statement = Statement(read_pack())
    for name, value in {**FACTS, **{name.replace("__", "."): value for name, value in facts.items()}}.items():
        statement.state(name, value, Origin("given", "a test"))
    product = statement.pack.engine("vllm")
    assert product is not None
    state_builder(statement, product, "0.24.0", obstacle)
    return handed_over(statement, evaluate(statement.pack, statement.launch, posture))


def handed(**facts: Any) -> Decision:
    return Decision.from_json(json.loads(variables(**facts)[DECISION]))


def test_what_is_handed_over() -> None:
    decision = handed()
    assert (decision.state, decision.plan and decision.plan.backend, decision.max_bytes) == ("on", "trtllm", 64 << 20)
    facts = dict(decision.facts)
    assert (facts["posture"], facts["parallel.tensor_parallel_size"], facts[BUILDER]) == ("safe", "2", "adapter")


def test_nodes_that_differ_in_what_may_differ_agree() -> None:
    """A compiler on one node only changes the digest, not the decision where prebuilt kernels are there."""
    here, there = (handed(**{"packages__flashinfer-jit-cache": "0.6.12", "engine__nvcc": compiler}) for compiler in (True, False))
    assert (here.state, here.plan) == (there.state, there.plan) == ("on", there.plan)
    assert here.digest != there.digest
    assert here.facts == there.facts
    assert here.facts != handed(**{"packages__flashinfer-jit-cache": "0.6.12", "parallel__pipeline_parallel_size": 1}).facts


def test_the_adapter_is_offered_what_it_builds() -> None:
    """Also where multicast would be preferred."""
    for posture in ("safe", "fast"):
        plan = Decision.from_json(json.loads(variables(posture=posture, device__compute_capability="10.0", device__multicast=True)[DECISION])).plan
        assert plan is not None
        assert plan.backend == "trtllm"


def test_workers_of_ray_get_it() -> None:
    assert variables(engine__executor="ray")["VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY"] == "FUSION_POLICY_"
    assert "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY" not in variables(engine__executor="mp")


def test_nothing_is_handed_over_where_the_engine_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert variables("the ranks would not get it") == {}
    monkeypatch.setenv("FUSION_POLICY_MODE", "advise")
    assert variables() == {}


@pytest.mark.parametrize(
    ("text", "on_purpose", "stays"),
    [('{"handed_over": true}', False, False), ('{"digest": "d"}', False, True), ("/a/file.json", False, True), ("/a/file.json", True, False)],
)
def test_taking_back(monkeypatch: pytest.MonkeyPatch, text: str, on_purpose: bool, stays: bool) -> None:
    monkeypatch.setenv(DECISION, text)
    take_back(on_purpose)
    assert (DECISION in os.environ) is stays


@pytest.mark.parametrize(("text", "total"), [("", 120.0), ("7", 7.0), ("soon", 120.0), ("-1", 120.0)])
def test_deadlines(monkeypatch: pytest.MonkeyPatch, text: str, total: float) -> None:
    monkeypatch.setenv("FUSION_POLICY_DEADLINE", text)
    assert deadline_given() == Deadline(total)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_process_that_is_no_worker_takes_no_torch(engine: str) -> None:
    version = {"vllm": "0.24.0", "sglang": "0.5.14"}[engine]
    code = f"from policy.runtime.engines.{engine} import register; import sys; assert register(version={version!r}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.strip() == "False", done.stderr


class _Engine:
    """A door whose engine and ranks are not there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settled: list[Decision] = []
        self.door = Door("vllm", "0.24.0")
        self.group = object()
        self.door.group = lambda: self.group  # type: ignore[method-assign]
        self.door.carry_out = lambda word, configuration, backend: None  # type: ignore[method-assign]
        monkeypatch.setattr(door_module, "settle", self._settle)
        monkeypatch.setattr(door_module, "tell", lambda *told: None)
        monkeypatch.setattr(door_module.Handover, "install", lambda *placed: None)
        monkeypatch.setattr(door_module.importlib, "import_module", lambda name: None)

    def _settle(self, decision: Decision, *arguments: Any, **named: Any) -> Settled:
        self.settled.append(decision)
        return Settled(Outcome("unfused", Reason("static", "decision.state", decision.reason)))

    def commit(self, tokens: int = 8) -> Settled | None:
        return self.door.commit({}, lambda: [Consumer("target", 64, tokens)])


def test_a_second_engine_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settles anew where something differs, which is so on every rank alike."""
    monkeypatch.setenv(DECISION, '{"state": "off", "digest": "d"}')
    engine = _Engine(monkeypatch)
    assert engine.commit() is engine.commit()
    assert len(engine.settled) == 1
    engine.commit(tokens=16)
    engine.group = object()
    engine.commit(tokens=16)
    assert len(engine.settled) == 3


def test_a_decision_that_was_taken_back_or_never_came(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _Engine(monkeypatch)
    engine.commit()
    assert engine.settled[0].state == "off", "the adapter is to build, and this rank cannot"
    monkeypatch.delenv("FUSION_POLICY_BUILDER")
    assert engine.commit(tokens=16) is None, "the engine builds"
    assert len(engine.settled) == 1
