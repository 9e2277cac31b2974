"""The static check as data: one fact wrong, one reason, and nothing of the library imported."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from policy.runtime.data import product, valid_at
from policy.runtime.facts import launch_facts
from policy.runtime.library import Library, installed, kernels_at_hand
from policy.runtime.machine import Machine
from policy.runtime.plan import Consumer, Deadline, Decision, RuntimeRequestError, WorkspacePlan, common_shape
from policy.runtime.static import refusal
from tests.runtime.library import write_library

ROOT = Path(__file__).resolve().parents[2]
MACHINE = Machine(platform="cuda", node="one", device="gpu-0", device_name="H200", capability=(9, 0), multiprocessors=132, memory_free=1 << 36, python=(3, 12))
CONSUMER = Consumer("target", 8192, 2048)
PARAMETERS = ("backend", "world_size", "rank", "max_token_num", "hidden_dim", "dtype", "gpus_per_node", "comm_backend", "force_oneshot_support")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes an installed library of a release and reads it."""

    def make(version: str, group: bool = True) -> Library:
        monkeypatch.syspath_prepend(str(write_library(tmp_path / version, version, group)))
        return installed()

    return make


def fact(
    library: Library, machine: Machine = MACHINE, consumer: Consumer = CONSUMER, plan: WorkspacePlan | None = None, sizes: tuple[int, int] = (2, 2)
) -> str | None:
    found = refusal(Decision("d", plan=plan or WorkspacePlan()), [consumer], library, machine, *sizes)
    return None if found is None else found.fact


@pytest.mark.parametrize(
    ("version", "group", "sizes", "expected"),
    [
        ("0.6.8.post1", False, (2, 2), None),
        ("0.6.8.post1", False, (2, 4), "packages.flashinfer-python"),
        ("0.6.10", False, (2, 2), None),
        ("0.6.10", False, (2, 4), "packages.flashinfer-python"),
        ("0.6.10.post1", True, (2, 4), None),
        ("0.6.12", True, (2, 4), None),
        ("0.6.12", False, (2, 4), "packages.flashinfer-python"),
        ("0.7.4", True, (2, 4), None),
        ("0.9.0", True, (2, 4), None),
        ("0.9.0", False, (2, 4), "packages.flashinfer-python"),
        ("0.6.12", True, (3, 3), "group.size"),
        ("0.6.12", True, (6, 12), "group.size"),
        ("0.6.12", True, (16, 16), "consumer.one_shot"),
    ],
)
def test_releases_and_sizes(library: Any, version: str, group: bool, sizes: tuple[int, int], expected: str | None) -> None:
    assert fact(library(version, group), sizes=sizes) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"hidden_size": 4100}, "consumer.hidden_size"),
        ({"dtype": "float8_e4m3fn", "norm_weight_dtype": None}, "consumer.dtype"),
        ({"norm_weight_dtype": "float32"}, "consumer.norm_weight_dtype"),
        ({"norm_weight_dtype": None}, None),
        ({"launch_with_pdl": True}, "consumer.launch_with_pdl"),
        ({"dtype": "float32", "norm_weight_dtype": "float32"}, "consumer.dtype"),
        ({"dtype": "float32", "norm_weight_dtype": "float32", "one_shot": True}, None),
        ({"one_shot": False, "max_tokens": 2}, "consumer.one_shot"),
        ({"hidden_size": 0}, "shapes"),
        ({"max_tokens": 1 << 20}, "shapes"),
    ],
)
def test_shapes(library: Any, change: dict[str, Any], expected: str | None) -> None:
    assert fact(library("0.6.12"), consumer=replace(CONSUMER, **change)) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"platform": "cpu"}, "device.platform"),
        ({"platform": "rocm"}, "device.platform"),
        ({"mig": True}, "device.mig"),
        ({"capability": (8, 9)}, "device.compute_capability"),
        ({"capability": (12, 0)}, "device.compute_capability"),
        ({"p2p": False}, "device.p2p"),
        ({"p2p": None}, None),
        ({"memory_free": 1 << 20}, "device.memory_free"),
    ],
)
def test_devices(library: Any, change: dict[str, Any], expected: str | None) -> None:
    assert fact(library("0.6.12"), machine=replace(MACHINE, **change)) == expected


def test_capability_12_is_built_from_0_6_17_on(library: Any) -> None:
    assert fact(library("0.6.17"), machine=replace(MACHINE, capability=(12, 0))) is None


def test_python_that_cannot_import_the_release(library: Any) -> None:
    assert fact(library("0.6.16.post3"), machine=replace(MACHINE, python=(3, 11))) == "python"
    assert fact(library("0.6.16.post4"), machine=replace(MACHINE, python=(3, 11))) is None


@pytest.mark.parametrize(
    ("plan", "version", "sizes", "expected"),
    [
        ({"backend": "auto"}, "0.7.4", (2, 2), "plan.backend"),
        ({"backend": "mnnvl"}, "0.7.4", (2, 2), "plan.backend"),
        ({"scope": "world"}, "0.7.4", (2, 4), "plan.scope"),
        ({"scope": "world"}, "0.7.4", (2, 2), None),
        ({"passes": ("comm_backend",)}, "0.6.12", (2, 4), "plan.passes"),
        ({"passes": ("comm_backend",)}, "0.7.4", (2, 4), None),
        ({"passes": ()}, "0.7.4", (2, 4), "plan.passes"),
        ({"passes": ()}, "0.7.4", (4, 4), None),
    ],
)
def test_plans(library: Any, plan: dict[str, Any], version: str, sizes: tuple[int, int], expected: str | None) -> None:
    assert fact(library(version), plan=WorkspacePlan(**plan), sizes=sizes) == expected


def test_decisions_that_are_not_on(library: Any) -> None:
    found = refusal(Decision("d", "off", reason="off because of rendezvous-over-world"), [CONSUMER], library("0.7.4"), MACHINE, 2, 2)
    assert found is not None
    assert found.text == "off because of rendezvous-over-world"
    assert refusal(Decision("d", "on", None), [CONSUMER], library("0.7.4"), MACHINE, 2, 2) is not None


@pytest.mark.parametrize(("most", "expected"), [(None, None), (2048 * 8192 * 2, None), (2048 * 8192 * 2 - 1, "decision.max_bytes")])
def test_the_bound_of_the_decision(library: Any, most: int | None, expected: str | None) -> None:
    found = refusal(Decision("d", max_bytes=most), [CONSUMER], library("0.7.4"), MACHINE, 2, 2)
    assert (None if found is None else found.fact) == expected


def test_decisions_made_apart(library: Any) -> None:
    """They agree where the facts agree that all nodes have in common; a stored one is the same document everywhere."""
    made = library("0.7.4")
    here, there = (launch_facts(Decision(digest, facts=(("posture", "safe"),)), made, MACHINE) for digest in ("a", "b"))
    assert here == there
    other = dict(launch_facts(Decision("a", facts=(("posture", "fast"),)), made, MACHINE))
    assert other["decision.posture"] == "fast"
    assert launch_facts(Decision("a"), made, MACHINE) != launch_facts(Decision("b"), made, MACHINE)


def test_kernels(library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = library("0.6.12")
    assert kernels_at_hand(made, "trtllm")[0] == "prebuilt"
    assert made.folder is not None
    (made.folder / "data/aot/trtllm_comm/trtllm_comm.so").unlink()
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    monkeypatch.setenv("FLASHINFER_DISABLE_JIT", "1")
    assert fact(made) == "kernels"
    cached = tmp_path / ".cache/flashinfer/0.6.12/90a/cached_ops/trtllm_comm"
    cached.mkdir(parents=True)
    (cached / "trtllm_comm.so").write_bytes(b"")
    assert kernels_at_hand(made, "trtllm")[0] == "cached"


def test_absent_and_broken_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_library(tmp_path, "0.5.3")
    monkeypatch.syspath_prepend(str(folder))
    (folder / "flashinfer/comm/allreduce.py").write_text("def (", encoding="utf-8")
    assert "cannot be read" in installed().problem
    (folder / "flashinfer/comm/allreduce.py").unlink()
    assert installed().problem == "flashinfer-python 0.5.3 has no comm/allreduce.py (the unified call is there from 0.6.0 on)"


def test_nothing_is_imported_by_the_static_check(tmp_path: Path) -> None:
    folder = write_library(tmp_path, "0.7.4")
    code = (
        "import sys; from policy.runtime import Consumer, Decision, settle; from policy.runtime.static import refusal\n"
        "from policy.runtime.library import installed; from policy.runtime.machine import Machine\n"
        "m = Machine(platform='cuda', capability=(9, 0)); found = refusal(Decision('d'), [Consumer('t', 8192, 64)], installed(), m, 2, 4)\n"
        "assert found is None, found\n"
        "print([name for name in ('torch', 'flashinfer', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": f"{folder}:{ROOT}", "PATH": "/usr/bin:/bin"}, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("release", ["0.6.8.post1", "0.6.10.post1", "0.7.4"])
def test_published_releases(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ROOT / ".engines" / f"flashinfer-python-{release}"
    if not folder.is_dir():
        pytest.skip(f"flashinfer-python {release} is not unpacked in .engines")
    monkeypatch.syspath_prepend(str(folder))
    read = installed()
    assert (read.version, read.problem) == (release, "")
    assert set(PARAMETERS) <= set(read.parameters)
    assert ("group" in read.parameters) == (release != "0.6.8.post1")
    assert {"input", "workspace", "pattern", "residual_in", "rms_gamma", "use_oneshot", "fp32_acc", "trigger_completion_at_end"} <= set(read.calls)
    assert read.scope == {"0.6.8.post1": "comm_backend", "0.6.10.post1": "group", "0.7.4": "comm_backend"}[release]


@pytest.mark.parametrize(
    ("version", "value"),
    [
        ("0.5.3", None),
        ("0.6.9", "comm_backend"),
        ("0.6.10rc1", "world"),
        ("0.6.10", "world"),
        ("0.6.10.post1", "group"),
        ("0.6.15.dev20260701", "comm_backend"),
        ("0.7.4.post1", "comm_backend"),
        ("0.7.5", None),
        ("0.0.0+unknown", None),
        ("0.6.12+cu130", "group"),
    ],
)
def test_breakpoints(version: str, value: str | None) -> None:
    data = product("flashinfer")
    assert valid_at(data["scope"], version, data["through"]) == value


def test_common_shape() -> None:
    shape = common_shape([Consumer("target", 4096, 2048), Consumer("draft", 5120, 64), Consumer("standalone", 4096, 4096, norm_weight_dtype=None)])
    assert (shape.hidden_size, shape.max_tokens, shape.bytes_needed(2)) == (5120, 4096, 4 * 2 * 5120 * 4096 * 2)
    with pytest.raises(RuntimeRequestError, match="not both"):
        common_shape([Consumer("a", 8, 8), Consumer("b", 8, 8, dtype="float32")])
    with pytest.raises(RuntimeRequestError, match="no consumer"):
        common_shape([])


def test_requests_that_make_no_sense() -> None:
    with pytest.raises(RuntimeRequestError):
        Deadline(total=0)
    with pytest.raises(RuntimeRequestError):
        Deadline(total=5, agree=6)
    with pytest.raises(RuntimeRequestError, match="digest"):
        Decision.from_json({"state": "on"})
    read = Decision.from_json(
        {"state": "on", "digest": "d", "chosen_plan": {"id": "trtllm", "library": "flashinfer", "backend": "trtllm", "scope": "tensor_parallel_group"}}
    )
    assert read.plan == WorkspacePlan()
    undetermined = Decision.from_json(
        {"state": "undetermined", "digest": "d", "unknown_facts": ["device.compute_capability"], "max_bytes": 8, "facts": {"a": "b"}}
    )
    assert undetermined.reason == "the decision is undetermined; not known: device.compute_capability"
    assert (undetermined.facts, undetermined.max_bytes) == ((("a", "b"),), 8)
    for document, message in (
        (["a", "b"], "no stored decision about one launch"),
        ({"decisions": [{"fusion": "norm_quant"}]}, "no decision about allreduce_rms"),
    ):
        with pytest.raises(RuntimeRequestError, match=message):
            Decision.from_json(document)
    with pytest.raises(RuntimeRequestError, match="known: flashinfer"):
        product("flashinfr")
