"""What is decided arrives in real vLLM configurations, through vLLM's own loading of plug-ins.

Needs `python tests/engines/prepare.py`. One release always; the others with `--engines all`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engines.harness import DENSE, EXPERTS, Answer, Case, answers

STAGES = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
REPLICAS = {"tensor_parallel_size": 2, "data_parallel_size": 2}
FORCED = {"compilation_config": {"pass_config": {"fuse_allreduce_rms": True}}}
OFF = {"compilation_config": {"pass_config": {"fuse_allreduce_rms": False}}}
PINS = {"0.17.1": "0.6.4", "0.20.2": "0.6.8.post1", "0.22.1": "0.6.11.post2", "0.23.0": "0.6.12", "0.24.0": "0.6.12", "0.33.0": "0.7.2.post1"}
NVSWITCH = "device.interconnect: nvswitch\ndevice.gpus_per_node: 8\n"

#: What a plug-in handed over at an earlier start.
EARLIER = '{"state": "on", "digest": "earlier", "handed_over": true}'
#: name -> a case of the release that always runs.
CASES = {
    "no mode": Case(DENSE, None, STAGES),
    "enforce": Case(DENSE, "enforce", STAGES),
    "enforce over forced": Case(DENSE, "enforce", {**STAGES, **FORCED}),
    "off stays off": Case(DENSE, "enforce", {**STAGES, **OFF}),
    "advise": Case(DENSE, "advise", STAGES),
    "fail": Case(DENSE, "fail", STAGES),
    "replicas": Case(EXPERTS, "enforce", REPLICAS),
    "replicas over forced": Case(EXPERTS, "enforce", {**REPLICAS, **FORCED}),
    "replicas advised": Case(EXPERTS, "advise", {**REPLICAS, **FORCED}),
    "replicas fail": Case(EXPERTS, "fail", {**REPLICAS, **FORCED}),
    "a word that is no mode": Case(DENSE, "on", STAGES),
    "the adapter builds": Case(DENSE, None, STAGES, "adapter"),
    "the adapter is advised": Case(DENSE, "advise", STAGES, "adapter"),
    "decided anew": Case(DENSE, None, STAGES, "adapter", EARLIER),
    "the engine builds now": Case(DENSE, "enforce", STAGES, None, EARLIER),
    "advised now": Case(DENSE, "advise", STAGES, "adapter", EARLIER),
    "no mode now": Case(DENSE, None, STAGES, None, EARLIER),
    "set by a launcher": Case(DENSE, None, STAGES, None, '{"state": "on", "digest": "launcher"}'),
}


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    found = answers("vllm", "0.22.1", PINS["0.22.1"], "9.0", list(CASES.values()), tmp_path_factory.mktemp("vllm"), NVSWITCH)
    return dict(zip(CASES, found, strict=True))


def fused(answer: Answer) -> Any:
    return answer.result["pass_config"]["fuse_allreduce_rms"]


def test_without_a_mode_the_plugin_does_nothing(always: dict[str, Answer]) -> None:
    assert fused(always["no mode"]) is True
    assert "fusion-policy" not in always["no mode"].output


@pytest.mark.parametrize("name", ["enforce", "enforce over forced"])
def test_enforce_turns_the_hazard_off(always: dict[str, Answer], name: str) -> None:
    assert fused(always[name]) is False
    record = always[name].record()
    assert (record["reason"], record["engine_value"], record["value"]) == ("rendezvous-over-world", True, False)
    assert record["conflict"] is (name != "enforce")


def test_what_is_off_is_left_alone(always: dict[str, Answer]) -> None:
    assert fused(always["off stays off"]) is False
    assert "WARNING" not in "".join(line for line in always["off stays off"].output.splitlines() if "fusion-policy" in line)


@pytest.mark.parametrize("name", ["advise", "a word that is no mode"])
def test_advise_changes_nothing_and_says_so(always: dict[str, Answer], name: str) -> None:
    assert fused(always[name]) is True
    record = always[name].record()
    assert (record["mode"], record["value"]) == ("advise", False)


def test_fail_refuses_to_start(always: dict[str, Answer]) -> None:
    assert "RefusedLaunchError: fusion-policy: this launch would have to change: pass_config.fuse_allreduce_rms=False" in always["fail"].result["error"]


def test_replicas_of_experts(always: dict[str, Answer]) -> None:
    assert fused(always["replicas"]) is False
    assert fused(always["replicas over forced"]) is False
    assert always["replicas over forced"].record()["conflict"] is True
    assert fused(always["replicas advised"]) is True
    assert "this launch would have to change" in always["replicas fail"].result["error"]


def test_the_adapter_is_handed_the_decision(always: dict[str, Answer]) -> None:
    """What the engine would build over WORLD stays on where the adapter builds it, scoped to the group."""
    answer = always["the adapter builds"]
    assert fused(answer) is True
    handed = json.loads(answer.result["environment"]["FUSION_POLICY_DECISION"])
    assert (handed["state"], handed["chosen_plan"]["backend"], handed["chosen_plan"]["scope"]) == ("on", "trtllm", "tensor_parallel_group")
    assert handed["digest"] == answer.record()["digest"]


def test_advice_hands_nothing_over(always: dict[str, Answer]) -> None:
    answer = always["the adapter is advised"]
    assert fused(answer) is True
    assert "FUSION_POLICY_DECISION" not in answer.result["environment"]
    assert answer.record()["value"] is False, "the engine builds"


def test_an_earlier_decision_is_replaced(always: dict[str, Answer]) -> None:
    answer = always["decided anew"]
    assert json.loads(answer.result["environment"]["FUSION_POLICY_DECISION"])["digest"] == answer.record()["digest"]


@pytest.mark.parametrize("name", ["the engine builds now", "advised now", "no mode now"])
def test_an_earlier_decision_is_taken_back(always: dict[str, Answer], name: str) -> None:
    assert "FUSION_POLICY_DECISION" not in always[name].result["environment"]


def test_a_decision_of_a_launcher_is_left(always: dict[str, Answer]) -> None:
    assert "launcher" in always["set by a launcher"].result["environment"]["FUSION_POLICY_DECISION"]


@pytest.mark.engines
@pytest.mark.parametrize(
    ("version", "model", "arguments", "expected", "reason"),
    [
        ("0.17.1", DENSE, {**STAGES, **FORCED}, False, "device-by-rank"),
        ("0.20.2", DENSE, STAGES, False, None),
        ("0.20.2", DENSE, {**STAGES, **FORCED}, False, "broadcast-root-outside-group"),
        ("0.23.0", EXPERTS, REPLICAS, False, "rendezvous-over-world"),
        ("0.24.0", DENSE, STAGES, True, "vllm-allreduce-rms"),
        ("0.24.0", EXPERTS, REPLICAS, True, "vllm-allreduce-rms"),
        ("0.33.0", DENSE, STAGES, True, None),
    ],
)
def test_other_releases(tmp_path: Any, version: str, model: dict[str, Any], arguments: dict[str, Any], expected: bool, reason: str | None) -> None:
    plain, enforced = answers("vllm", version, PINS[version], "9.0", [Case(model, None, arguments), Case(model, "enforce", arguments)], tmp_path, NVSWITCH)
    assert "fusion-policy" not in plain.output
    assert fused(enforced) is expected, enforced.output
    if reason is not None:
        assert enforced.record()["reason"] == reason


@pytest.mark.engines
def test_a_head_without_a_gpu_decides_nothing(tmp_path: Any) -> None:
    (answer,) = answers("vllm", "0.24.0", PINS["0.24.0"], "none", [Case(DENSE, "enforce", {"tensor_parallel_size": 2, **FORCED})], tmp_path)
    assert fused(answer) is True
    record = answer.record()
    assert (record["state"], record["engine_value"], record["value"]) == ("undetermined", True, True)
    assert "device.compute_capability" in record["unknown"]


@pytest.mark.engines
@pytest.mark.parametrize(("mode", "starts"), [("advise", True), ("enforce", True), ("fail", False)])
def test_a_pack_that_cannot_be_used(tmp_path: Any, mode: str, starts: bool) -> None:
    (tmp_path / "pack").mkdir()
    (answer,) = answers("vllm", "0.22.1", PINS["0.22.1"], "9.0", [Case(DENSE, mode, STAGES)], tmp_path, FUSION_POLICY_PACK=str(tmp_path / "pack"))
    assert ("pass_config" in answer.result) is starts
    assert "the folder has no pack.yaml" in answer.output
