"""The pack against what SGLang's own releases answer: the gate of the all-reduce fusion, and their pins."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.load import read_pack
from policy.pack import Pack
from tests.conformance import engine_pins, read_rows, scorer_of, sglang_allreduce_fusion
from tests.shared import shared_path

SAMPLE = Path(__file__).parent / "conformance_sample"


@pytest.fixture(scope="module")
def pack() -> Pack:
    return read_pack()


def test_the_sample_of_the_gate_agrees(pack: Pack) -> None:
    total, agreements, disagreements = sglang_allreduce_fusion.compare(pack, read_rows(SAMPLE / "sglang_allreduce_fusion.jsonl"))
    assert total > 100
    assert not disagreements, disagreements[:5]
    assert agreements == total


def test_a_wrong_answer_is_seen(pack: Pack) -> None:
    rows = read_rows(SAMPLE / "sglang_allreduce_fusion.jsonl")
    wrong = [{**row, "expected": "on" if row["expected"] == "off" else "off", "start_error": False} for row in rows]
    assert sglang_allreduce_fusion.compare(pack, wrong)[1] == 0


def test_every_recorded_row_of_the_gate_agrees(pack: Pack) -> None:
    path = shared_path("conformance/sglang_allreduce_fusion.jsonl.gz")
    if path is None:
        pytest.skip("the shared conformance data is not there: 12000 rows not compared")
    rows = read_rows(path)
    assert scorer_of(rows[0]) is not None
    total, _, disagreements = sglang_allreduce_fusion.compare(pack, rows)
    assert total == len(rows)
    assert not disagreements, disagreements[:5]


@pytest.mark.parametrize("sample", [True, False])
def test_pins_are_those_of_the_metadata(pack: Pack, sample: bool) -> None:
    path = SAMPLE / "engine_pins.json" if sample else shared_path("conformance/engine_pins.json")
    if path is None:
        pytest.skip("the shared conformance data is not there: 324 pins not compared")
    total, _, disagreements = engine_pins.compare(pack, read_rows(path))
    assert total >= 36
    assert not disagreements, disagreements[:5]


BASE = {
    "engine.name": "sglang",
    "device.platform": "cuda",
    "device.compute_capability": "9.0",
    "device.interconnect": "nvswitch",
    "device.multicast": True,
    "device.gpus_per_node": 8,
}
HOPPER = {
    **BASE,
    "device.name": "NVIDIA H100 80GB HBM3",
    "model.architecture": "Qwen3MoeForCausalLM",
    "parallel.tensor_parallel_size": 4,
    "model.dtype": "bfloat16",
}
BLACKWELL = {**HOPPER, "device.compute_capability": "10.0", "device.name": "NVIDIA B200"}


@pytest.mark.parametrize(
    ("facts", "state", "built", "plan"),
    [
        ({**HOPPER, "engine.version": "0.5.9"}, "on", "fused", "trtllm-ipc-world"),
        ({**HOPPER, "engine.version": "0.5.9", "parallel.pipeline_parallel_size": 2}, "on", "hang", "trtllm-ipc-world"),
        ({**HOPPER, "engine.version": "0.5.10.post1"}, "on", "fused", "trtllm-unscoped"),
        ({**HOPPER, "engine.version": "0.5.10.post1", "parallel.pipeline_parallel_size": 2}, "on", "hang", "trtllm-unscoped"),
        ({**HOPPER, "engine.version": "0.5.11", "parallel.pipeline_parallel_size": 2}, "on", "hang", "trtllm-unscoped"),
        ({**HOPPER, "engine.version": "0.5.12.post1", "parallel.pipeline_parallel_size": 2}, "on", "fused", "trtllm"),
        ({**HOPPER, "engine.version": "0.5.12.post1", "packages.flashinfer-python": "0.6.9"}, "on", "unfused", "trtllm"),
        ({**HOPPER, "engine.version": "0.5.13.post1", "packages.flashinfer-python": "0.6.9"}, "on", "fused", "trtllm-comm-backend"),
        ({**HOPPER, "engine.version": "0.5.14"}, "on", "fused", "trtllm"),
        ({**HOPPER, "engine.version": "0.5.14", "parallel.nodes": 2}, "off", "unfused", None),
        ({**HOPPER, "engine.version": "0.5.14", "parallel.nodes": 2, "request.allreduce_rms": "on"}, "dies", "crash", None),
        ({**BLACKWELL, "engine.version": "0.5.14"}, "on", "fused", "mnnvl"),
        ({**BLACKWELL, "engine.version": "0.5.22", "model.architecture": "MiMoV2ForCausalLM"}, "off", "unfused", None),
        ({**BLACKWELL, "engine.version": "0.5.23", "model.architecture": "MiMoV2ForCausalLM"}, "on", "fused", "mnnvl-cutedsl"),
        ({**HOPPER, "engine.version": "0.5.14", "engine.batch_invariant": True, "request.allreduce_rms": "on"}, "off", "unfused", None),
        ({**HOPPER, "engine.version": "0.5.11", "engine.batch_invariant": True}, "on", "wrong_numbers", "trtllm-unscoped"),
        (
            {**HOPPER, "engine.version": "0.5.14", "parallel.dp_attention": True, "parallel.data_parallel_size": 2, "request.allreduce_rms": "on"},
            "on",
            "unfused",
            "trtllm",
        ),
        ({**BLACKWELL, "engine.version": "0.5.22", "parallel.nodes": 2, "device.fabric": False}, "on", "hang", "mnnvl"),
        ({**BLACKWELL, "engine.version": "0.5.23", "parallel.nodes": 2, "device.fabric": False}, "on", "unfused", "mnnvl"),
        ({**BLACKWELL, "device.compute_capability": "12.0", "engine.version": "0.5.7"}, "on", "crash", "trtllm-ipc-world"),
        ({**BLACKWELL, "device.compute_capability": "12.0", "engine.version": "0.5.13.post1", "request.allreduce_rms": "on"}, "on", "unfused", "trtllm"),
    ],
)
def test_stages_of_the_engine(pack: Pack, facts: dict[str, object], state: str, built: str, plan: str | None) -> None:
    alone = evaluate(pack, Launch.of(pack, facts), fusions=["allreduce_rms"])["allreduce_rms"].left_alone
    assert (alone.state, alone.built, alone.engine_plan) == (state, built, plan)


@pytest.mark.parametrize(
    ("version", "switches"),
    [("0.5.9", []), ("0.5.10.post1", ["--enforce-disable-flashinfer-allreduce-fusion"]), ("0.5.11", ["--enforce-disable-flashinfer-allreduce-fusion"])],
)
def test_a_hazard_is_switched_off_where_the_release_can_be_told(pack: Pack, version: str, switches: list[str]) -> None:
    launch = Launch.of(pack, {**HOPPER, "engine.version": version, "parallel.pipeline_parallel_size": 2})
    decision = evaluate(pack, launch, fusions=["allreduce_rms"])["allreduce_rms"]
    assert (decision.state, decision.left_alone.built) == ("off", "hang")
    assert [one.text for one in decision.switches] == switches


@pytest.mark.parametrize(("nodes", "stages", "spanned"), [(1, 1, 1), (2, 1, 2), (2, 2, 1), (4, 2, 2)])
def test_a_group_takes_its_share_of_every_host_of_its_stage(pack: Pack, nodes: int, stages: int, spanned: int) -> None:
    facts = Facts(pack, Launch.of(pack, {**HOPPER, "engine.version": "0.5.14", "parallel.nodes": nodes, "parallel.pipeline_parallel_size": stages}))
    assert facts.values("parallel.nodes_spanned").single() == spanned


def test_replicas_are_worlds_of_their_own(pack: Pack) -> None:
    facts = Facts(pack, Launch.of(pack, {**HOPPER, "engine.version": "0.5.14", "parallel.data_parallel_size": 4, "model.is_moe": True}))
    assert facts.values("parallel.tensor_parallel_groups").single() == 1
