"""vLLM's own answers against the pack: recorded rows of its releases, a sample of them always."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.load import read_pack
from policy.pack import Pack
from policy.values import ABSENT
from tests.conformance import read_rows, scorer_of
from tests.shared import shared_path

TESTS = Path(__file__).resolve().parent
SAMPLES = TESTS / "conformance_sample"
#: Recorded file and its number of rows.
RECORDED = {"vllm_fuse_allreduce_rms.jsonl.gz": 20000, "vllm_allreduce_max_size.jsonl": 480, "vllm_world.jsonl": 48}
H100 = {"device.platform": "cuda", "device.compute_capability": "9.0", "device.interconnect": "nvswitch", "device.gpus_per_node": 8}


@pytest.fixture(scope="module")
def pack() -> Pack:
    return read_pack(TESTS.parent / "rules", compiled=False)


def sample(name: str) -> Path:
    return SAMPLES / name.removesuffix(".gz")


@pytest.mark.parametrize("name", RECORDED)
def test_sample_agrees(pack: Pack, name: str) -> None:
    rows = read_rows(sample(name))
    scorer = scorer_of(rows[0])
    assert scorer is not None
    total, agreements, disagreements = scorer.compare(pack, rows)
    assert total == len(rows) >= 10
    assert (agreements, disagreements) == (total, [])


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_row_agrees(pack: Pack, name: str) -> None:
    path = shared_path(f"conformance/{name}")
    if path is None:
        pytest.skip(f"no shared data: {RECORDED[name]} recorded rows of {name} were not compared, {len(read_rows(sample(name)))} rows of the sample were")
    rows = read_rows(path)
    scorer = scorer_of(rows[0])
    assert scorer is not None
    total, agreements, disagreements = scorer.compare(pack, rows)
    assert total == RECORDED[name]
    assert (agreements, disagreements) == (total, [])


@pytest.mark.parametrize(
    ("name", "key", "wrong"),
    [
        ("vllm_fuse_allreduce_rms.jsonl.gz", "expected", lambda value: not value),
        ("vllm_allreduce_max_size.jsonl", "expected", lambda value: 3 if value is None else None),
        ("vllm_world.jsonl", "expected_tensor_parallel_groups", lambda value: 3),
    ],
)
def test_a_wrong_row_is_found(pack: Pack, name: str, key: str, wrong: object) -> None:
    """A scorer that cannot disagree scores nothing."""
    rows = [{**row, key: wrong(row[key])} for row in read_rows(sample(name))]  # type: ignore[operator]
    scorer = scorer_of(rows[0])
    assert scorer is not None
    total, agreements, disagreements = scorer.compare(pack, rows)
    assert (agreements, len(disagreements)) == (0, total)
    assert all("expected" in text for text in disagreements)


def test_command_reports_and_exits(tmp_path: Path) -> None:
    good, bad = sample("vllm_world.jsonl"), tmp_path / "bad.jsonl"
    bad.write_text(good.read_text(encoding="utf-8").replace('"expected_tensor_parallel_groups": 8', '"expected_tensor_parallel_groups": 7'), encoding="utf-8")

    def run(*files: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(TESTS / "score_conformance.py"), *map(str, files)], capture_output=True, text=True, timeout=120, check=False)

    fine = run(good)
    assert (fine.returncode, "17 of 17 rows agree" in fine.stdout) == (0, True), fine
    wrong = run(good, bad)
    assert wrong.returncode == 1
    assert "16 of 17 rows agree" in wrong.stdout
    assert "expected 7, got 8" in wrong.stdout
    missing = run(tmp_path / "nowhere.jsonl")
    assert (missing.returncode, "cannot be read" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("facts", "size", "rule"),
    [
        ({"engine.version": "0.24.0", "parallel.tensor_parallel_size": 4}, 2097152, "vllm-allreduce-max-size/sm90-4-ranks"),
        ({"engine.version": "0.24.0", "parallel.tensor_parallel_size": 4, "engine.allreduce_max_mebibytes": 8}, 8388608, "vllm-asked-size"),
        (
            {"engine.version": "0.20.2", "parallel.tensor_parallel_size": 4, "runtime.builder": "adapter", "packages.flashinfer-python": "0.6.15"},
            2097152,
            "vllm-allreduce-max-size/sm90-4-ranks",
        ),
    ],
)
def test_limit_of_the_chosen_plan(pack: Pack, facts: dict[str, object], size: int, rule: str) -> None:
    """The engine's table bounds its pass, whoever builds the workspace."""
    decision = evaluate(pack, Launch.of(pack, {**H100, "engine.name": "vllm", "model.norm_style": "standard", **facts}))["allreduce_rms"]
    assert decision.state == "on", decision.reason
    assert (decision.limits["max_bytes"].value, decision.limits["max_bytes"].unit, decision.limits["max_bytes"].id) == (size, "bytes", rule)


def test_no_size_is_unfused(pack: Pack) -> None:
    facts = {**H100, "engine.name": "vllm", "engine.version": "0.26.0", "device.compute_capability": "10.7", "parallel.tensor_parallel_size": 4}
    decision = evaluate(pack, Launch.of(pack, facts))["allreduce_rms"]
    assert (decision.left_alone.state, decision.left_alone.built) == ("on", "unfused")
    assert (decision.state, decision.reason.id) == ("off", "vllm-allreduce-max-size/no-size")


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        ({"engine.enforce_eager": True}, "eager-mode"),
        ({"engine.torch_compile_disable": True}, "torch-compile-disabled"),
        ({"engine.compilation_mode": "none"}, "compilation-mode-below-engine"),
        ({"engine.compilation_backend": "eager"}, "backend-other-than-inductor"),
        ({"engine.breakable_graphs": True}, "breakable-graphs-replace-compilation"),
        ({"model.architecture": "DeepseekV4ForCausalLM"}, "breakable-graphs-replace-compilation"),
        ({"model.rms_norm_eps_usual": False}, "epsilon-not-matched"),
    ],
)
def test_configured_on_but_nothing_is_fused(pack: Pack, facts: dict[str, object], rule: str) -> None:
    """Later stages that leave the setting on."""
    decision = evaluate(pack, Launch.of(pack, {**H100, "engine.name": "vllm", "engine.version": "0.24.0", "parallel.tensor_parallel_size": 4, **facts}))[
        "allreduce_rms"
    ]
    assert (decision.left_alone.state, decision.left_alone.built) == ("on", "unfused")
    assert (decision.state, decision.reason.id) == ("off", rule)


def test_nothing_hangs_where_nothing_is_built(pack: Pack) -> None:
    """Two groups would meet over WORLD, but in eager mode no pass exists that creates the workspace."""
    facts = {**H100, "engine.name": "vllm", "engine.version": "0.22.1", "parallel.tensor_parallel_size": 2, "parallel.pipeline_parallel_size": 2}
    compiled = evaluate(pack, Launch.of(pack, facts))["allreduce_rms"]
    assert (compiled.left_alone.state, compiled.left_alone.built) == ("on", "hang")
    eager = evaluate(pack, Launch.of(pack, {**facts, "engine.enforce_eager": True}))["allreduce_rms"]
    assert (eager.left_alone.state, eager.left_alone.built) == ("on", "unfused")


def test_sibling_needs_its_own_switch(pack: Pack) -> None:
    launch = Launch.of(
        pack,
        {
            **H100,
            "engine.name": "vllm",
            "engine.version": "0.29.0",
            "device.multicast": True,
            "parallel.tensor_parallel_size": 4,
            "request.allreduce_rms": "off",
        },
    )
    verdict = evaluate(pack, launch)
    assert verdict["allreduce_rms"].left_alone.state == "off"
    assert verdict["allreduce_flashinfer"].left_alone.state == "on"
    off = evaluate(pack, launch.with_facts(pack, {"request.allreduce_flashinfer": "off"}))
    assert off["allreduce_flashinfer"].left_alone.state == "off"


def test_model_level_calls_have_no_switch(pack: Pack) -> None:
    facts = {
        **H100,
        "engine.name": "vllm",
        "engine.version": "0.24.0",
        "parallel.tensor_parallel_size": 4,
        "model.architecture": "MiniMaxM3SparseForCausalLM",
        "request.allreduce_rms_model_level": "off",
    }
    decision = evaluate(pack, Launch.of(pack, facts))["allreduce_rms_model_level"]
    assert (decision.left_alone.state, decision.state, decision.switches) == ("on", "off", ())
    assert any("no switch" in note for note in decision.notes)


MI355X = {"device.platform": "rocm", "device.gfx_target": "gfx950", "device.p2p": True, "parallel.nodes": 1, "model.dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"engine.version": "0.29.0"}, "off"),
        ({"engine.version": "0.30.0"}, "on"),
        ({"engine.version": "0.33.0"}, "on"),
        ({"engine.version": "0.33.0", "engine.aiter": False}, "off"),
        ({"engine.version": "0.33.0", "engine.aiter_custom_allreduce": False}, "off"),
        ({"engine.version": "0.33.0", "engine.custom_all_reduce": False}, "off"),
        ({"engine.version": "0.33.0", "parallel.tensor_parallel_size": 1}, "off"),
        ({"engine.version": "0.31.0", "engine.batch_invariant": True}, "on"),
        ({"engine.version": "0.32.0", "engine.batch_invariant": True}, "off"),
        ({"engine.version": "0.33.0", "model.architecture": "KimiK3ForConditionalGeneration"}, "off"),
    ],
)
def test_minimax_m3_calls_aiter_on_rocm(pack: Pack, facts: dict[str, object], state: str) -> None:
    base = {
        **MI355X,
        "engine.name": "vllm",
        "engine.aiter": True,
        "parallel.tensor_parallel_size": 8,
        "model.architecture": "MiniMaxM3SparseForConditionalGeneration",
    }
    decision = evaluate(pack, Launch.of(pack, {**base, **facts}))["allreduce_rms_model_level"]
    assert decision.left_alone.state == state
    if state == "on" and "engine.batch_invariant" not in facts:
        assert (decision.state, decision.chosen.library, decision.limits["max_tokens"].value, decision.limits["max_bytes"].value) == ("on", "aiter", 80, 131071)


def test_the_call_of_aiter_has_a_switch(pack: Pack) -> None:
    base = {**MI355X, "engine.name": "vllm", "engine.version": "0.33.0", "engine.aiter": True, "parallel.tensor_parallel_size": 8}
    facts = {**base, "model.architecture": "MiniMaxM3SparseForConditionalGeneration", "request.allreduce_rms_model_level": "off"}
    decision = evaluate(pack, Launch.of(pack, facts))["allreduce_rms_model_level"]
    assert (decision.left_alone.state, decision.state, [one.text for one in decision.switches]) == ("on", "off", ["VLLM_ROCM_USE_AITER_CUSTOM_AR=0"])


def test_overlap_requires_sequence_parallelism(pack: Pack) -> None:
    facts = {
        **H100,
        "engine.name": "vllm",
        "engine.version": "0.24.0",
        "parallel.tensor_parallel_size": 4,
        "request.gemm_comms": "on",
        "model.hidden_size": 4096,
    }
    narrow = evaluate(pack, Launch.of(pack, facts))
    assert (narrow["sequence_parallelism"].left_alone.state, narrow["gemm_comms"].left_alone.state) == ("off", "off")
    wide = evaluate(pack, Launch.of(pack, {**facts, "model.hidden_size": 8192}))
    assert (wide["sequence_parallelism"].left_alone.state, wide["gemm_comms"].left_alone.state) == ("on", "on")
    assert narrow["gemm_comms"].state == "off"
    assert [(one.id, one.effect) for one in narrow["gemm_comms"].able[0].because if one.truth] == [("sequence_parallelism", "requires")]


@pytest.mark.parametrize("version", ["0.21.0", "0.10.1"])
def test_releases_that_nobody_read_are_unknown(pack: Pack, version: str) -> None:
    facts = {**H100, "engine.name": "vllm", "engine.version": version, "parallel.tensor_parallel_size": 4, "packages.flashinfer-python": "0.6.8"}
    verdict = evaluate(pack, Launch.of(pack, facts))
    gates = {gate.fusion for gate in pack.products["vllm"].gates.values()}
    read = {decision.fusion for decision in verdict.decisions if decision.fusion in gates and decision.left_alone.state != "unknown"}
    assert "allreduce_rms" not in read
    assert not read & {"norm_quant", "act_quant", "allreduce_flashinfer", "allreduce_rms_model_level", "eliminate_noops", "rope_kvcache_cat_mla"}


def test_release_after_the_newest_is_predicted_and_says_so(pack: Pack) -> None:
    facts = {**H100, "engine.name": "vllm", "engine.version": "0.34.0", "parallel.tensor_parallel_size": 4, "packages.flashinfer-python": "0.7.2.post1"}
    decision = evaluate(pack, Launch.of(pack, facts))["allreduce_rms"]
    assert decision.left_alone.state == "on"
    assert any("was not read" in note for note in decision.left_alone.notes)


def test_raising_the_product_is_enough_for_a_release_without_changes(pack: Pack) -> None:
    """No gate states a horizon of its own, so that one line of the product moves them all."""
    product = pack.products["vllm"]
    assert len(product.gates) >= 15
    assert {gate.fusion: gate.through for gate in product.gates.values() if gate.through != product.through} == {}


@pytest.mark.parametrize(
    ("given", "name", "points"),
    [
        ({"engine.allreduce_max_mebibytes": 0.5}, "engine.allreduce_asked_bytes", [524288]),
        ({"engine.allreduce_max_mebibytes": [0.5, "absent"]}, "engine.allreduce_asked_bytes", [524288, ABSENT]),
        ({"model.draft_hidden_size": "absent"}, "engine.draft_step_bytes", [ABSENT]),
        ({"model.draft_hidden_size": 2048}, "engine.draft_step_bytes", [ABSENT]),
        ({"model.draft_hidden_size": 2560}, "engine.draft_step_bytes", [40960]),
        ({"model.draft_hidden_size": [1024, 2560, "absent"]}, "engine.draft_step_bytes", [40960, ABSENT]),
        ({"model.draft_hidden_size": 2560, "model.hidden_size": [2048, 4096]}, "engine.draft_step_bytes", [40960, ABSENT]),
        ({"model.draft_hidden_size": 2560, "engine.allreduce_max_mebibytes": 0.03125}, "engine.draft_step_excess_bytes", [8192]),
        ({"model.draft_hidden_size": 2560, "engine.allreduce_max_mebibytes": 1}, "engine.draft_step_excess_bytes", [0]),
        ({"model.draft_hidden_size": 2560, "engine.allreduce_max_mebibytes": "absent"}, "engine.draft_step_excess_bytes", [ABSENT]),
        ({"model.architecture": "DeepseekV32ForCausalLM"}, "engine.breakable_graphs_by_default", [True]),
        ({"model.architecture": "DeepseekV32ForCausalLM", "device.platform": "rocm"}, "engine.breakable_graphs_by_default", [False]),
        ({"model.architecture": "LlamaForCausalLM"}, "engine.architecture_left_uncompiled", [False]),
    ],
)
def test_derived_facts(pack: Pack, given: dict[str, object], name: str, points: list[object]) -> None:
    facts = {"engine.name": "vllm", "engine.version": "0.33.0", "device.platform": "cuda", "model.hidden_size": 2048, "model.dtype": "bfloat16"}
    launch = Launch.of(pack, {**facts, "engine.max_num_batched_tokens": 8, **given})
    assert Facts(pack, launch).values(name).points() == points


def test_unknown_architecture_is_assumed_ordinary(pack: Pack) -> None:
    launch = Launch.of(pack, {"engine.name": "vllm", "engine.version": "0.33.0", "device.platform": "cuda"})
    given = Facts(pack, launch).get("engine.breakable_graphs_by_default")
    assert (given.values.single(), given.origin.kind) == (False, "assumed")
    assert Facts(pack, launch, strict=True).values("engine.breakable_graphs_by_default").single() is None


def test_rules_of_the_size_table(pack: Pack) -> None:
    """One row gives the pass, its siblings and a wider draft model their rules; where no row holds there is one more."""
    names = {name.removeprefix("vllm-allreduce-max-size/") for name in pack.rules if name.startswith("vllm-allreduce-max-size/")}
    assert {"sm90-4-ranks", "sm90-4-ranks-siblings", "sm90-4-ranks-wider-draft", "no-size", "no-size-for-siblings"} <= names
    assert {"sm103-8-ranks-before-0.29", "sm103-8-ranks-before-0.29-siblings"} <= names
    assert "sm103-8-ranks-before-0.29-wider-draft" not in names
