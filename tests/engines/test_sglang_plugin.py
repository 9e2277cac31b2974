"""What is decided arrives in real SGLang arguments, through SGLang's own loading of plug-ins (0.5.11 and later).

Needs `python tests/engines/prepare.py`. One release always; the others with `--engines all`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engines.harness import QWEN, Answer, Case, answers

BACKEND, FLAG, DISABLE = "flashinfer_allreduce_fusion_backend", "enable_flashinfer_allreduce_fusion", "enforce_disable_flashinfer_allreduce_fusion"
TP4 = ["--tp-size", "4"]
NODES = [*TP4, "--nnodes", "2", "--node-rank", "0", "--dist-init-addr", "localhost:1"]
PINS = {
    "0.5.10.post1": "0.6.8.post1", "0.5.11": "0.6.8.post1", "0.5.12.post1": "0.6.11.post2", "0.5.14": "0.6.12", "0.5.15.post1": "0.6.12", "0.5.17": "0.6.12", "0.5.18": "0.6.12",
    "0.5.19": "0.6.12", "0.5.21": "0.6.12", "0.5.23": "0.7.2.post1",
}  # fmt: skip
B200 = "device.interconnect: nvswitch\ndevice.gpus_per_node: 8\ndevice.fabric: false\n"
#: What a plug-in handed over at an earlier start.
EARLIER = '{"state": "on", "digest": "earlier", "handed_over": true}'

CASES = {
    "no mode": Case(QWEN, None, TP4),
    "advise": Case(QWEN, "advise", TP4),
    "enforce": Case(QWEN, "enforce", TP4),
    "enforce over forced": Case(QWEN, "enforce", [*TP4, "--flashinfer-allreduce-fusion-backend", "mnnvl"]),
    "a hazard that is forced": Case(QWEN, "enforce", [*NODES, "--flashinfer-allreduce-fusion-backend", "auto"]),
    "a hazard by default": Case(QWEN, "enforce", NODES),
    "off stays off": Case(QWEN, "enforce", [*TP4, "--enforce-disable-flashinfer-allreduce-fusion"]),
    "fail": Case(QWEN, "fail", TP4),
    "the adapter builds": Case(QWEN, None, [*TP4, "--pp-size", "2"], "adapter"),
    "decided anew": Case(QWEN, None, [*TP4, "--pp-size", "2"], "adapter", EARLIER),
    "the engine builds now": Case(QWEN, "enforce", TP4, None, EARLIER),
    "no mode now": Case(QWEN, None, TP4, None, EARLIER),
}


def named(version: str, folder: Any, names: list[str]) -> dict[str, Answer]:
    return dict(zip(names, answers("sglang", version, PINS[version], "10.0", [CASES[name] for name in names], folder, B200), strict=True))


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    return named("0.5.14", tmp_path_factory.mktemp("sglang"), list(CASES))


def test_without_a_mode_the_plugin_does_nothing(always: dict[str, Answer]) -> None:
    assert always["no mode"].result[BACKEND] == "auto"
    assert "fusion-policy" not in always["no mode"].output


def test_advise_changes_nothing_and_says_so(always: dict[str, Answer]) -> None:
    assert always["advise"].result[BACKEND] == "auto"
    record = always["advise"].record()
    assert (record["mode"], record["engine_value"], record["value"]) == ("advise", {BACKEND: "auto"}, {BACKEND: "trtllm"})


@pytest.mark.parametrize("name", ["enforce", "enforce over forced"])
def test_enforce_takes_the_plan_that_is_able(always: dict[str, Answer], name: str) -> None:
    assert always[name].result[BACKEND] == "trtllm"
    assert always[name].record()["plan"] == "trtllm"


@pytest.mark.parametrize("name", ["a hazard that is forced", "a hazard by default"])
def test_enforce_turns_a_hazard_off(always: dict[str, Answer], name: str) -> None:
    assert (always[name].result[BACKEND], always[name].result[DISABLE]) == (None, True)
    record = always[name].record()
    assert record["reason"] == "mnnvl-across-nodes-without-fabric"
    assert record["conflict"] is (name == "a hazard that is forced")


def test_what_is_off_is_left_alone(always: dict[str, Answer]) -> None:
    assert (always["off stays off"].result[BACKEND], always["off stays off"].result[DISABLE]) == (None, True)
    assert "WARNING" not in "".join(line for line in always["off stays off"].output.splitlines() if "fusion-policy" in line)


def test_fail_refuses_to_start(always: dict[str, Answer]) -> None:
    assert f"RefusedLaunchError: fusion-policy: this launch would have to change: {BACKEND}=trtllm" in always["fail"].result["error"]


def test_the_adapter_is_handed_the_decision(always: dict[str, Answer]) -> None:
    answer = always["the adapter builds"]
    handed = json.loads(answer.result["decision"])
    assert (handed["state"], handed["chosen_plan"]["backend"], handed["chosen_plan"]["scope"]) == ("on", "trtllm", "tensor_parallel_group")
    assert handed["digest"] == answer.record()["digest"]
    assert always["enforce"].result["decision"] is None


def test_an_earlier_decision_is_replaced_or_taken_back(always: dict[str, Answer]) -> None:
    assert json.loads(always["decided anew"].result["decision"])["digest"] == always["decided anew"].record()["digest"]
    assert always["the engine builds now"].result["decision"] is None
    assert always["no mode now"].result["decision"] is None


def test_a_head_without_a_gpu_decides_nothing(tmp_path: Any) -> None:
    cases = [Case(QWEN, "enforce", [*TP4, "--device", "cuda", *more]) for more in ([], ["--flashinfer-allreduce-fusion-backend", "auto"])]
    for answer, expected in zip(answers("sglang", "0.5.14", PINS["0.5.14"], "none", cases, tmp_path), (None, "auto"), strict=True):
        assert answer.result[BACKEND] == expected
        record = answer.record()
        assert (record["state"], record["value"]) == ("undetermined", {BACKEND: expected})
        assert "device.compute_capability" in record["unknown"]


@pytest.mark.engines
@pytest.mark.parametrize("version", ["0.5.15.post1", "0.5.17", "0.5.18", "0.5.19", "0.5.21", "0.5.23"])
def test_releases_with_a_backend(tmp_path: Any, version: str) -> None:
    names = ["no mode", "advise", "enforce", "enforce over forced", "off stays off", "fail"]
    found = named(version, tmp_path, names)
    assert [found[name].result.get(BACKEND) for name in names[:-1]] == ["auto", "auto", "trtllm", "trtllm", None]
    assert "RefusedLaunchError" in found["fail"].result["error"]


@pytest.mark.engines
@pytest.mark.parametrize("version", ["0.5.18", "0.5.21", "0.5.23"])
def test_hazards_of_other_releases(tmp_path: Any, version: str) -> None:
    (found,) = named(version, tmp_path, ["a hazard that is forced"]).values()
    assert (found.result[BACKEND], found.result[DISABLE]) == ((None, True) if version != "0.5.23" else ("auto", False))


@pytest.mark.engines
def test_releases_with_a_flag(tmp_path: Any) -> None:
    cases = [Case(QWEN, mode, [*TP4, "--pp-size", "2", *more]) for mode in (None, "enforce") for more in ([], ["--enable-flashinfer-allreduce-fusion"])]
    found = answers("sglang", "0.5.11", PINS["0.5.11"], "9.0", cases, tmp_path)
    assert [answer.result[FLAG] for answer in found] == [True, True, False, False]
    assert [answer.result[DISABLE] for answer in found] == [False, False, True, True]
    assert found[2].record()["reason"] == "rendezvous-over-world"
    (kept,) = answers("sglang", "0.5.12.post1", PINS["0.5.12.post1"], "9.0", [Case(QWEN, "enforce", [*TP4, "--pp-size", "2"])], tmp_path, B200)
    assert kept.result[FLAG] is True
    assert kept.record()["state"] == "on"


@pytest.mark.engines
def test_a_release_without_plugins_is_not_reached(tmp_path: Any) -> None:
    (answer,) = answers("sglang", "0.5.10.post1", PINS["0.5.10.post1"], "9.0", [Case(QWEN, "enforce", [*TP4, "--pp-size", "2"])], tmp_path)
    assert answer.result["plugins"] is False
    assert answer.result[FLAG] is True
    assert "fusion-policy" not in answer.output
