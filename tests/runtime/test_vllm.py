"""The door into vLLM against the published modules (unpacked into .engines) in real processes over gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.library import write_library
from tests.runtime.vllm_ranks import MODEL

ROOT = Path(__file__).resolve().parents[2]
#: release of vLLM, and the release of FlashInfer that it requires or one that a user may have put beside it
RELEASES = (("0.17.1", "0.6.12"), ("0.22.1", "0.6.12"), ("0.23.0", "0.6.12"), ("0.24.0", "0.6.12"), ("0.33.0", "0.7.4"))
PYTHON = os.environ.get("FUSION_POLICY_ENGINE_PYTHON", sys.executable)


CASES = ("pipeline:2:2:-1", "faulty:2:1:1")


@pytest.fixture(scope="module", params=RELEASES, ids=[version for version, _ in RELEASES])
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What every rank of both cases reported, for one release."""
    version, library = request.param
    folder = tmp_path_factory.mktemp(f"vllm-{version}")
    engine = ROOT / ".engines" / f"vllm-{version}"
    if not engine.is_dir():
        pytest.skip(f"vllm {version} is not unpacked in .engines")
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(MODEL))
    decision = {"state": "on", "digest": "d1", "chosen_plan": {"id": "trtllm", "library": "flashinfer", "backend": "trtllm", "scope": "tensor_parallel_group"}}
    environment = {
        **os.environ, "PYTHONPATH": os.pathsep.join([str(write_library(folder / "library", library)), str(engine), str(ROOT)]), "FUSION_POLICY_DECISION": json.dumps(decision),
        "FUSION_POLICY_DEADLINE": "60", "OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
    }
    done = subprocess.run([PYTHON, "-m", "tests.runtime.vllm_ranks", str(folder), version, *CASES], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    if "ModuleNotFoundError" in done.stderr and done.returncode:
        pytest.skip(f"vllm {version} cannot be imported here: {done.stderr.strip().splitlines()[-1]}")
    found = {}
    for case in CASES:
        name, tensor_parallel, pipeline_parallel, _ = case.split(":")
        files = [folder / f"{name}-{rank}.json" for rank in range(int(tensor_parallel) * int(pipeline_parallel))]
        assert all(file.exists() for file in files), done.stderr[-2000:] + "".join(log.read_text()[-1500:] for log in folder.glob(f"{name}-*.log"))
        found[name] = [json.loads(file.read_text()) for file in files]
    return found


def test_fused_in_two_pipeline_stages(reports: dict[str, list[dict[str, Any]]]) -> None:
    """Two tensor-parallel groups in one WORLD: each rank's consumers get the agreed workspace, scoped to its own group."""
    for rank, report in enumerate(reports["pipeline"]):
        assert report["outcome"] == "fused", report
        assert report["checks"] > 0
        assert report["is_ours"], "the engine's own function returns the agreed workspace"
        assert report["span"] == ([0, 1] if rank < 2 else [2, 3]), "also where the release passes no group"
        assert report["fuse_allreduce_rms"] is True


def test_one_rank_that_cannot(reports: dict[str, list[dict[str, Any]]]) -> None:
    """`unfused` is in the engine's own configuration on every rank, and nobody builds behind it."""
    for report in reports["faulty"]:
        assert report["outcome"] == "unfused", report
        assert report["reason"].startswith("rank 1, static (device.compute_capability)"), report
        assert report["before"] is True
        assert report["fuse_allreduce_rms"] is False
        assert report["standalone"] == "0"
        assert not report["has_workspace"]
