"""Build, verify, use and free one workspace, over a gloo group of one and the stand-in library."""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: workspaces need it")

from policy.runtime import Consumer, Deadline, Decision, settle  # noqa: E402
from policy.runtime.diagnose import Diagnosis, predicted_rules  # noqa: E402
from policy.runtime.latch import Latch  # noqa: E402
from policy.runtime.library import installed  # noqa: E402
from policy.runtime.plan import Shape, WorkspacePlan  # noqa: E402
from policy.runtime.timing import table  # noqa: E402
from policy.runtime.verify import WrongNumbersError, token_counts, verify  # noqa: E402
from policy.runtime.workspace import Workspace, WorkspaceBuildError, WorkspaceInUseError, prepare  # noqa: E402
from tests.runtime.library import write_library  # noqa: E402

CONSUMER = Consumer("target", 32, 16, "float32", "float32", one_shot=True)
SHAPE = Shape(16, 32, "float32")


@pytest.fixture
def world() -> Any:
    import torch.distributed as dist

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    yield dist
    dist.destroy_process_group()


@pytest.fixture(params=["0.6.12", "0.7.4"])
def library(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(write_library(tmp_path / request.param, request.param)))
    yield installed()
    for name in [name for name in sys.modules if name.split(".")[0] == "flashinfer"]:
        del sys.modules[name]


def build(library: Any, world: Any, plan: WorkspacePlan | None = None) -> Workspace:
    return Workspace.create(library, plan or WorkspacePlan(), SHAPE, world.group.WORLD, "cpu")


def refs() -> dict[int, Any]:
    found: dict[int, Any] = sys.modules["flashinfer.comm.trtllm_ar"]._symm_workspace_refs
    return found


def test_build_verify_use_free(library: Any, world: Any) -> None:
    prepare(library, WorkspacePlan(), SHAPE, 1, "cpu")
    random.seed(5)
    expected = random.Random(5).random()
    workspace = build(library, world)
    assert random.random() == expected, "the caller's random state comes back"
    checks = verify(workspace, [CONSUMER], "cpu", time.monotonic() + 10)
    assert [check.tokens for check in checks] == [1, 2, 16]
    x, weight = torch.randn(4, 32), torch.ones(32)
    normed, residual = workspace.all_reduce_rms(x, torch.zeros(4, 32), weight, CONSUMER)
    assert torch.allclose(residual, x)
    assert torch.allclose(normed, torch.nn.functional.rms_norm(x, (32,), weight, 1e-6), atol=1e-5)
    assert len(refs()) == 1
    workspace.teardown()
    assert refs() == {}, "what the library holds after destroy() is let go as well"
    workspace.teardown()


def test_both_scoping_arguments_are_given(library: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    comm = __import__("flashinfer.comm", fromlist=["x"])
    original = comm.create_allreduce_fusion_workspace
    monkeypatch.setattr(comm, "create_allreduce_fusion_workspace", lambda **arguments: seen.update(arguments) or original(**arguments))
    build(library, world).teardown()
    assert seen["group"] is world.group.WORLD
    assert seen["comm_backend"]._group is world.group.WORLD
    assert (seen["backend"], seen["max_token_num"], seen["hidden_dim"], seen["dtype"]) == ("trtllm", 16, 32, torch.float32)


def test_multicast_is_off_only_while_a_symmetric_memory_workspace_is_built(library: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCH_SYMM_MEM_DISABLE_MULTICAST", raising=False)
    seen: list[str | None] = []
    comm = __import__("flashinfer.comm", fromlist=["x"])
    original = comm.create_allreduce_fusion_workspace

    def watched(**arguments: Any) -> Any:
        seen.append(os.environ.get("TORCH_SYMM_MEM_DISABLE_MULTICAST"))
        return original(**arguments)

    monkeypatch.setattr(comm, "create_allreduce_fusion_workspace", watched)
    build(library, world).teardown()
    assert seen == ["1" if library.version == "0.6.12" else None]
    assert "TORCH_SYMM_MEM_DISABLE_MULTICAST" not in os.environ


def test_a_half_failed_build_keeps_nothing(library: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAULT", json.dumps({"at": "created", "kind": "exception"}))
    with pytest.raises(RuntimeError, match="ordered failure"):
        build(library, world)
    assert refs() == {}


def test_a_captured_graph_forbids_teardown(library: Any, world: Any) -> None:
    workspace = build(library, world)
    workspace.note_capture()
    with pytest.raises(WorkspaceInUseError, match="graphs_are_gone"):
        workspace.teardown()
    assert len(refs()) == 1
    workspace.graphs_are_gone()
    workspace.teardown()
    assert refs() == {}


def test_calls_that_would_poison_the_process_are_refused(library: Any, world: Any) -> None:
    workspace = build(library, world)
    good = torch.zeros(4, 32)
    for x, weight, text in (
        (torch.zeros(0, 32), torch.ones(32), "empty"),
        (torch.zeros(17, 32), torch.ones(32), "do not fit"),
        (good, torch.ones(32).bfloat16(), "norm weight"),
    ):
        with pytest.raises(ValueError, match=text):
            workspace.all_reduce_rms(x, x, weight, CONSUMER)
    assert workspace.fits(8, 64)
    assert not workspace.fits(9, 64)
    workspace.teardown()


def test_wrong_numbers_and_wrong_span(library: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = build(library, world)
    monkeypatch.setenv("STANDIN_FAULT", json.dumps({"at": "call", "kind": "wrong"}))
    with pytest.raises(WrongNumbersError, match="is off by"):
        verify(workspace, [CONSUMER], "cpu", time.monotonic() + 10)
    monkeypatch.delenv("STANDIN_FAULT")

    class Foreign:
        world_size = 4

    workspace.raw.mem_handles[0] = Foreign()
    with pytest.raises(WorkspaceBuildError, match="span 4 ranks instead of the group's 1"):
        verify(workspace, [CONSUMER], "cpu", time.monotonic() + 10)
    workspace.teardown()


def test_timing_table(library: Any, world: Any) -> None:
    workspace = build(library, world)
    rows = table(workspace, CONSUMER, world.group.WORLD)
    assert [row["tokens"] for row in rows] == [1, 2, 4, 8, 16]
    assert all(row["fused_us"] > 0 and row["unfused_us"] > 0 for row in rows)
    workspace.teardown()


@pytest.mark.parametrize(
    ("one_shot", "tokens", "expected"), [(True, 16, (1, 3, 16)), (False, 16, (3, 16)), (None, 2, (1, 2)), (False, 3, (3,)), (True, 1, (1,))]
)
def test_token_counts(one_shot: bool | None, tokens: int, expected: tuple[int, ...]) -> None:
    assert token_counts(Consumer("t", 32, tokens, one_shot=one_shot), 2, one_shot) == expected


def test_latch(tmp_path: Path) -> None:
    first, second = Latch("d1", 0, "a", tmp_path), Latch("d1", 0, "b", tmp_path)
    assert second.reason() is None
    first.arm()
    assert second.reason() is None, "a start that is building right now is not one that died"
    first._release()  # as the death of its process does
    reason = second.reason()
    assert reason is not None
    assert "died while building" in reason
    assert Latch("d2", 0, "c", tmp_path).reason() is None, "another decision is not held back"
    first.disarm()
    assert second.reason() is None
    second.set("rank 1 is dead")
    again = Latch("d1", 1, "e", tmp_path).reason()
    assert again is not None
    assert "rank 1 is dead" in again


def test_a_replica_may_look_while_a_latch_comes_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the file has its name, it is locked."""
    first, second = Latch("d1", 0, "a", tmp_path), Latch("d1", 0, "b", tmp_path)
    seen: list[str | None] = []
    replace, unlink = Path.replace, Path.unlink

    def replaced(file: Path, target: Path) -> Path:
        named = replace(file, target)
        seen.append(second.reason())
        return named

    def unlinked(file: Path, missing_ok: bool = False) -> None:
        seen.append(second.reason())
        unlink(file, missing_ok)

    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(Path, "unlink", unlinked)
    first.arm()
    first.disarm()
    assert seen == [None, None]


def test_a_latched_decision_comes_up_unfused(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSION_POLICY_STATE", str(tmp_path))
    Latch("d1", 0, "x").set("a kernel never finished")
    settled = settle(Decision("d1"), [CONSUMER], deadline=Deadline(5), device="cpu", last_resort=False)
    assert (settled.outcome.word, settled.outcome.reason.fact) == ("unfused", "latch")
    assert "a kernel never finished" in settled.outcome.reason.text


def test_an_adapter_that_fails_still_has_an_outcome(world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSION_POLICY_STATE", str(tmp_path))

    def observer(phase: str) -> None:
        if phase == "vote":
            raise KeyError("a defect")

    settled = settle(Decision("d1"), [CONSUMER], deadline=Deadline(5), device="cpu", observer=observer, last_resort=False)
    assert (settled.outcome.word, settled.outcome.reason.fact) == ("unfused", "adapter")


def test_predictions() -> None:
    assert predicted_rules("symmetric_memory", "group", scoped=False, several_groups=True) == ("rendezvous-over-world", "group-argument-missing")
    assert predicted_rules("symmetric_memory", "group", scoped=True, several_groups=True) == ("rendezvous-history-differs",)
    assert predicted_rules("handles", "comm_backend", scoped=True, several_groups=True) == ()
    text = str(Diagnosis("build", ("a.py:1 in f",), (1, 2, 3), ("rendezvous-over-world",)))
    assert "not reported either: ranks 1-3" in text
    assert "policy explain rendezvous-over-world" in text
