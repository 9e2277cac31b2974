"""The preflight as a user starts it; on a machine without GPU or library it ends cleanly with the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtime.library import write_library

pytest.importorskip("torch", reason="torch is not installed: the preflight needs it")
ROOT = Path(__file__).resolve().parents[2]


def preflight(*arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)])),
        "CUDA_VISIBLE_DEVICES": "",
        "RES_OPTIONS": "timeout:1 attempts:1",
    }
    return subprocess.run(
        [sys.executable, "-m", "policy.runtime.preflight", "--deadline", "20", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )


def test_without_gpu(tmp_path: Path) -> None:
    done = preflight("--processes", "2", path=str(write_library(tmp_path, "0.7.4")))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("unfused: there is no CUDA device (all 2 ranks)\n  rank 0, static, device.platform\n"), done.stdout


def test_json_feeds_facts(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = preflight("--processes", "1", "--format", "json", "--output", str(report), "--require-fused", path=str(write_library(tmp_path / "library", "0.7.4")))
    assert done.returncode == 1, "unfused, and fused was required"
    document = json.loads(report.read_text())
    assert document["outcome"] == "unfused"
    assert document["facts"]["packages.flashinfer-python"] == "0.7.4"
    assert document["facts"]["device.platform"] == "cpu"
    from policy.launch import Launch
    from policy.load import read_pack

    Launch.of(read_pack(), document["facts"])


def test_what_explain_printed_is_the_decision(tmp_path: Path) -> None:
    """From the answer about a launch to the ranks, both by the command `policy`."""
    policy = [sys.executable, "-m", "policy"]
    stated = [
        f"--set={fact}" for fact in ("engine.version=0.20.2", "packages.flashinfer-python=0.6.12", "device.platform=cuda", "device.compute_capability=8.0")
    ]
    explain = [*policy, "explain", "allreduce_rms", "--no-probe", "--format", "json", *stated, "--", "vllm", "serve", "m", "-tp", "2", "-pp", "2"]
    answer = tmp_path / "answer.json"
    answer.write_text(subprocess.run(explain, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "RES_OPTIONS": "timeout:1 attempts:1"}
    ranks = [*policy, "preflight", "--processes", "2", "--deadline", "20", "--decision", str(answer)]
    done = subprocess.run(ranks, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("unfused: "), done.stdout
    title = json.loads(answer.read_text())["decisions"][0]["reason"]["title"]
    assert title in done.stdout


def test_bad_usage() -> None:
    done = preflight("--processes", "2", "--tensor-parallel-size", "3")
    assert done.returncode == 2
    assert done.stderr == "preflight: 2 ranks cannot be divided into groups of `3`; give a divisor with --tensor-parallel-size\n"


def test_a_file_that_holds_no_decision(tmp_path: Path) -> None:
    (tmp_path / "answer.json").write_text("{}")
    done = preflight("--processes", "2", "--decision", str(tmp_path / "answer.json"))
    assert done.returncode == 2
    assert done.stderr == "preflight: the decision has no `state`; store it with `policy explain allreduce_rms --format json`\n"
