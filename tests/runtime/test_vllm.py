"""The door into vLLM against the published modules (unpacked into .engines) in real processes over gloo."""

from __future__ import annotations

import functools
import json
import os
import socket
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


@functools.cache
def importable(version: str) -> str:
    """Why the release cannot be imported here; empty when it can."""
    folder = ROOT / ".engines" / f"vllm-{version}"
    if not folder.is_dir():
        return f"vllm {version} is not unpacked in .engines"
    done = subprocess.run([PYTHON, "-c", "import vllm.v1.worker.gpu_worker"], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(folder)}, timeout=120, check=False)
    return "" if done.returncode == 0 else f"vllm {version} cannot be imported here: {done.stderr.strip().splitlines()[-1]}"


def start(tmp_path: Path, version: str, library: str, tensor_parallel: int, pipeline_parallel: int, faulty: int = -1) -> list[dict[str, Any]]:
    reason = importable(version)
    if reason:
        pytest.skip(reason)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(MODEL))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        (tmp_path / "port").write_text(str(probe.getsockname()[1]))
    path = os.pathsep.join([str(write_library(tmp_path / "library", library)), str(ROOT / ".engines" / f"vllm-{version}"), str(ROOT)])
    decision = {"state": "on", "digest": "d1", "chosen_plan": {"id": "trtllm", "library": "flashinfer", "backend": "trtllm", "scope": "tensor_parallel_group"}}
    environment = {
        **os.environ, "PYTHONPATH": path, "FUSION_POLICY_DECISION": json.dumps(decision), "FUSION_POLICY_STATE": str(tmp_path / "state"), "FUSION_POLICY_DEADLINE": "60",
        "OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
    }
    size = tensor_parallel * pipeline_parallel
    command = [PYTHON, "-m", "tests.runtime.vllm_ranks", str(tmp_path)]
    words = [str(tensor_parallel), str(pipeline_parallel), version, str(faulty)]
    processes = [subprocess.Popen([*command, str(rank), *words], env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for rank in range(size)]
    output = []
    for process in processes:
        try:
            output.append(process.communicate(timeout=150)[0])
        except subprocess.TimeoutExpired:
            process.kill()
            output.append(process.communicate()[0])
    files = [tmp_path / f"rank-{rank}.json" for rank in range(size)]
    assert all(file.exists() for file in files), "\n".join(text[-1500:] for text in output)
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.parametrize(("version", "library"), RELEASES)
def test_fused_in_two_pipeline_stages(tmp_path: Path, version: str, library: str) -> None:
    """Two tensor-parallel groups in one WORLD: each rank's consumers get the agreed workspace, scoped to its own group."""
    reports = start(tmp_path, version, library, 2, 2)
    for rank, report in enumerate(reports):
        assert report["outcome"] == "fused", report
        assert report["checks"] > 0
        assert report["is_ours"], "the engine's own function returns the agreed workspace"
        assert report["span"] == ([0, 1] if rank < 2 else [2, 3]), "also where the release passes no group"
        assert report["fuse_allreduce_rms"] is True


@pytest.mark.parametrize(("version", "library"), RELEASES)
def test_one_rank_that_cannot(tmp_path: Path, version: str, library: str) -> None:
    """`unfused` is in the engine's own configuration on every rank, and nobody builds behind it."""
    reports = start(tmp_path, version, library, 2, 1, faulty=1)
    for report in reports:
        assert report["outcome"] == "unfused", report
        assert report["reason"].startswith("rank 1, static (device.compute_capability)"), report
        assert report["before"] is True
        assert report["fuse_allreduce_rms"] is False
        assert report["standalone"] == "0"
        assert not report["has_workspace"]
