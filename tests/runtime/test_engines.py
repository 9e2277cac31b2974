"""The doors into vLLM and SGLang against the published modules (unpacked into .engines) in real processes over gloo.

`python tests/engines/prepare.py` makes an interpreter that can import the engines; others are named by
FUSION_POLICY_VLLM_PYTHON and FUSION_POLICY_SGLANG_PYTHON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policy import decide
from policy.decision import Verdict
from tests.runtime.library import write_library
from tests.runtime.vllm_ranks import MODEL

ROOT = Path(__file__).resolve().parents[2]
#: release of the engine, and the release of FlashInfer that it requires or one that a user may have put beside it
VLLM = (("0.17.1", "0.6.12"), ("0.22.1", "0.6.12"), ("0.23.0", "0.6.12"), ("0.24.0", "0.6.12"), ("0.33.0", "0.7.4"))
SGLANG = (("0.5.14", "0.6.12"), ("0.5.23", "0.7.4"))
CASES = ("pipeline:2:2:-1", "faulty:2:1:1")
#: A rank that is to have a decision and has none, and one that knows nothing of the adapter; in one release.
LEFT_OUT = {("vllm", "0.22.1"): ("missing:2:1:1", "without:2:1:1")}
Reports = dict[str, list[dict[str, Any]]]


def decided(engine: str, version: str, library: str) -> Verdict:
    """The answer for two pipeline stages, as it is stored for the ranks."""
    facts = {
        "engine": {"name": engine, "version": version},
        "packages": {"flashinfer-python": library, "flashinfer-cubin": library},
        "parallel": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "nodes": 1},
        "device": {"platform": "cuda", "compute_capability": "9.0", "interconnect": "nvswitch", "gpus_per_node": 8},
        "model": {"dtype": "bfloat16", "hidden_size": 64},
        "runtime": {"builder": "adapter"},
        "request": {"allreduce_rms": "on"},
    }
    verdict = decide(facts)
    assert verdict["allreduce_rms"].state == "on", verdict["allreduce_rms"].reason
    return verdict


def run(engine: str, version: str, library: str, folder: Path) -> Reports:
    """What every rank of both cases reported, for one release."""
    unpacked = ROOT / ".engines" / f"{engine}-{version}"
    if not unpacked.is_dir():
        pytest.skip(f"{engine} {version} is not unpacked in .engines")
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(MODEL))
    path = [str(write_library(folder / "library", library)), str(unpacked), str(ROOT)]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "FUSION_POLICY_DECISION": json.dumps(decided(engine, version, library).as_json()),
        "FUSION_POLICY_DEADLINE": "60",
        "OMP_NUM_THREADS": "1",
        "RES_OPTIONS": "timeout:1 attempts:1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    prepared = ROOT / ".venv-engines" / "bin" / "python"
    python = os.environ.get(f"FUSION_POLICY_{engine.upper()}_PYTHON", str(prepared if prepared.exists() else sys.executable))
    cases = (*CASES, *LEFT_OUT.get((engine, version), ()))
    command = [python, "-m", f"tests.runtime.{engine}_ranks", str(folder), version, *cases]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode and "Error" in done.stderr:
        pytest.skip(f"{engine} {version} cannot be imported here: {done.stderr.strip().splitlines()[-1]}")
    found = {}
    for case in cases:
        name, tensor_parallel, pipeline_parallel, _ = case.split(":")
        files = [folder / f"{name}-{rank}.json" for rank in range(int(tensor_parallel) * int(pipeline_parallel))]
        logs = "".join(log.read_text()[-1500:] for log in folder.glob(f"{name}-*.log"))
        assert all(file.exists() for file in files), done.stderr[-2000:] + logs
        found[name] = [json.loads(file.read_text()) for file in files]
        if (folder / f"report-{name}").exists():
            found[f"report of {name}"] = [json.loads(line) for line in (folder / f"report-{name}").read_text().splitlines()]
    return found


@pytest.fixture(scope="module", params=VLLM, ids=[version for version, _ in VLLM])
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return run("vllm", *request.param, tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="module", params=SGLANG, ids=[version for version, _ in SGLANG])
def sglang_reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return run("sglang", *request.param, tmp_path_factory.mktemp("sglang"))


def test_fused_in_two_pipeline_stages(reports: Reports) -> None:
    """Two tensor-parallel groups in one WORLD: each rank's consumers get the agreed workspace, scoped to its own group."""
    for rank, report in enumerate(reports["pipeline"]):
        assert report["outcome"] == "fused", report
        assert report["checks"] > 0
        assert report["is_ours"], "the engine's own function returns the agreed workspace"
        assert report["span"] == ([0, 1] if rank < 2 else [2, 3]), "also where the release passes no group"
        assert report["fuse_allreduce_rms"] is True
        assert report["backend"] == "trtllm"
        assert report["later"] == [True, True], "a later engine of the same process, group and shapes"
    (told,) = reports["report of pipeline"]
    assert told["said"].startswith("the adapter: allreduce_rms is fused because "), "once for the launch"


def test_one_rank_that_cannot(reports: Reports) -> None:
    """`unfused` is in the engine's own configuration on every rank, and nobody builds behind it."""
    for report in reports["faulty"]:
        assert report["outcome"] == "unfused", report
        assert report["reason"].startswith("rank 1, static (device.compute_capability)"), report
        assert report["before"] is True
        assert report["fuse_allreduce_rms"] is False
        assert report["standalone"] == "0"
        assert not report["has_workspace"]
        assert report["later"] == [True, False], "also in the configuration of a later engine"
    (told,) = reports["report of faulty"]
    assert (told["outcome"], told["reason"]["rank"], told["reason"]["fact"]) == ("unfused", 1, "device.compute_capability")


def test_a_rank_that_was_handed_no_decision(reports: Reports) -> None:
    for report in reports.get("missing", []):
        assert report["outcome"] == "unfused", report
        assert report["reason"].startswith("rank 1, static (decision.state): no decision was handed over"), report
        assert report["fuse_allreduce_rms"] is False


def test_a_rank_without_the_adapter(reports: Reports) -> None:
    """The others have their outcome at the deadline for votes."""
    if "without" in reports:
        report, other = reports["without"]
        assert other["outcome"] is None
        assert report["outcome"] == "unfused"
        assert report["reason"].startswith("rank 1, vote (deadline): rank 1 has not voted by the deadline"), report
        assert report["fuse_allreduce_rms"] is False


def test_sglang_fused_in_two_pipeline_stages(sglang_reports: Reports) -> None:
    for rank, report in enumerate(sglang_reports["pipeline"]):
        assert report["outcome"] == "fused", report
        assert report["is_ours"]
        assert report["span"] == ([0, 1] if rank < 2 else [2, 3])
        assert report["backend"] == "trtllm"
        assert report["unavailable"] is False


def test_sglang_one_rank_that_cannot(sglang_reports: Reports) -> None:
    for report in sglang_reports["faulty"]:
        assert report["outcome"] == "unfused", report
        assert report["backend"] is None, "the engine's own configuration says so"
        assert report["unavailable"] is True, "and its latch"
        assert report["span"] is None
