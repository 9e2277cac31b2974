"""One built workspace: created exactly as planned, called with keywords only, torn down so that its memory really comes back."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import random
import traceback
from collections.abc import Iterator
from typing import Any

from policy.runtime.library import Library
from policy.runtime.plan import Consumer, Shape, WorkspacePlan


class WorkspaceInUseError(RuntimeError):
    """A captured CUDA graph still uses the workspace; freeing it would make every replay write into foreign memory."""


class WorkspaceBuildError(RuntimeError):
    """The workspace could not be built on this rank, or does not reach the ranks it should."""


def prepare(library: Library, plan: WorkspacePlan, shape: Shape, group_size: int, device: Any) -> None:
    """Import the library, compile or load its kernels, and see that the memory can be had: all before anything collective."""
    import torch

    importlib.import_module(f"{library.name}.comm")
    kernels = importlib.import_module(f"{library.name}.comm.{plan.backend}_ar")
    kernels.get_trtllm_comm_module()
    if torch.device(device).type == "cuda":
        try:
            probe = torch.empty(shape.bytes_needed(group_size), dtype=torch.uint8, device=device)
        except torch.cuda.OutOfMemoryError as error:
            needed = f"{shape.bytes_needed(group_size) >> 20} MiB for the workspace"
            raise WorkspaceBuildError(f"{needed} cannot be allocated: {str(error).splitlines()[0]}") from None
        del probe
        torch.cuda.empty_cache()


@contextlib.contextmanager
def _own_random_state() -> Iterator[None]:
    """Socket names come from Python's random state in some releases: equal seeds collide. The caller's state comes back."""
    state = random.getstate()
    random.seed(os.urandom(16))
    try:
        yield
    finally:
        random.setstate(state)


@contextlib.contextmanager
def _without_multicast(wanted: bool) -> Iterator[None]:
    """The trtllm kernels use no multicast object; torch would bind one (a scarce resource) for nothing."""
    name = "TORCH_SYMM_MEM_DISABLE_MULTICAST"
    if not wanted or name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


class Workspace:
    """A workspace of `group` and what it takes to use and free it. Not thread-safe: one stream at a time."""

    def __init__(self, raw: Any, library: Library, plan: WorkspacePlan, shape: Shape, group: Any) -> None:
        self.raw, self.library, self.plan, self.shape, self.group = raw, library, plan, shape, group
        self._comm = importlib.import_module(f"{library.name}.comm")
        self._kernels = importlib.import_module(f"{library.name}.comm.{plan.backend}_ar")
        self._graphs = 0

    @classmethod
    def create(cls, library: Library, plan: WorkspacePlan, shape: Shape, group: Any, device: Any) -> Workspace:
        """The plan's exact call. Collective over `group`; may block for as long as a member is missing.

        A failed creation frees what it had allocated before the error goes on."""
        import torch
        import torch.distributed as dist

        if torch.device(device).type == "cuda":
            torch.cuda.set_device(device)
        comm = importlib.import_module(f"{library.name}.comm")
        kernels = importlib.import_module(f"{library.name}.comm.{plan.backend}_ar")
        arguments: dict[str, Any] = {
            "backend": plan.backend,
            "world_size": dist.get_world_size(group),
            "rank": dist.get_rank(group),
            "max_token_num": shape.max_tokens,
            "hidden_dim": shape.hidden_size,
            "dtype": getattr(torch, shape.dtype),
        }
        if "comm_backend" in plan.passes and "comm_backend" in library.parameters:
            arguments["comm_backend"] = importlib.import_module(f"{library.name}.comm.mnnvl").TorchDistBackend(group=group)
        if "group" in plan.passes and "group" in library.parameters:
            arguments["group"] = group
        held = set(getattr(kernels, "_symm_workspace_refs", {}))
        try:
            with _own_random_state(), _without_multicast(library.allocator == "symmetric_memory" and plan.backend == "trtllm"):
                raw = comm.create_allreduce_fusion_workspace(**arguments)
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)  # its frames hold the buffers of a half-built workspace
            _free_held(kernels, held)
            raise
        return cls(raw, library, plan, shape, group)

    def membership_problem(self) -> str | None:
        """Which ranks the buffers really reach, asked of the buffers; None when it is the group's."""
        import torch.distributed as dist

        size = dist.get_world_size(self.group)
        for handle in getattr(self.raw, "mem_handles", None) or ():
            reached = getattr(handle, "world_size", None)
            backend = getattr(handle, "comm_backend", None)
            if reached is None and backend is not None:
                reached = backend.Get_size()
            if reached is not None and int(reached) != size:
                return f"the buffers span {int(reached)} ranks instead of the group's {size}"
        return None

    def fits(self, tokens: int, hidden_size: int) -> bool:
        """Whether a call of this shape is within the workspace. A pure function of the shape: the same on every rank."""
        return tokens > 0 and tokens * hidden_size <= self.shape.max_tokens * self.shape.hidden_size

    def all_reduce_rms(self, x: Any, residual: Any, weight: Any, consumer: Consumer, one_shot: bool | None = None) -> tuple[Any, Any]:
        """Fused all-reduce of `x` (tokens x hidden), residual add and RMSNorm: (normed, new residual).

        Raises ValueError for an empty batch (it would poison the CUDA context), one that does not fit, and a norm weight
        of another dtype (the kernel would reinterpret its bytes)."""
        import torch

        if not self.fits(x.shape[0], x.shape[1]):
            room = f"a workspace of {self.shape.max_tokens} x {self.shape.hidden_size}"
            raise ValueError(f"{x.shape[0]} tokens x {x.shape[1]} do not fit {room}; empty batches are skipped by the caller")
        if weight.dtype != x.dtype:
            raise ValueError(f"the norm weight is {weight.dtype}, the activations are {x.dtype}")
        normed, new_residual = torch.empty_like(x), torch.empty_like(x)
        arguments: dict[str, Any] = {
            "input": x,
            "workspace": self.raw,
            "pattern": self._comm.AllReduceFusionPattern.kARResidualRMSNorm,
            "launch_with_pdl": consumer.launch_with_pdl,
            "residual_in": residual,
            "residual_out": new_residual,
            "norm_out": normed,
            "rms_gamma": weight,
            "rms_eps": consumer.rms_eps,
            "use_oneshot": consumer.one_shot if one_shot is None else one_shot,
            "fp32_acc": consumer.fp32_accumulation,
        }
        if "trigger_completion_at_end" in self.library.calls:
            arguments["trigger_completion_at_end"] = True
        if x.is_cuda and torch.cuda.is_current_stream_capturing():
            self._graphs += 1
        self._comm.allreduce_fusion(**arguments)
        return normed, new_residual

    @property
    def captured(self) -> bool:
        """Whether a graph that may still be replayed was captured over this workspace."""
        return self._graphs > 0

    def note_capture(self) -> None:
        """Tell that a graph captured calls that did not go through `all_reduce_rms`."""
        self._graphs += 1

    def graphs_are_gone(self) -> None:
        """Tell that every graph captured over this workspace has been destroyed."""
        self._graphs = 0

    def teardown(self) -> None:
        """Free the buffers. Local: waits for no other rank. Raises WorkspaceInUseError while a captured graph may replay."""
        import torch

        if self.captured:
            raise WorkspaceInUseError("a captured CUDA graph uses the workspace; destroy the graphs and call graphs_are_gone() first")
        raw, self.raw = self.raw, None
        if raw is None:
            return
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        handles = getattr(raw, "ipc_handles", None)
        destroy = getattr(raw, "destroy", None)
        if destroy is not None:
            destroy()
        if hasattr(raw, "_internal_workspace"):
            raw._internal_workspace = None  # destroy() alone keeps the tuple with every buffer
        refs = getattr(self._kernels, "_symm_workspace_refs", None)
        if refs is not None and handles is not None:
            refs.pop(id(handles), None)  # what the library's own explicit destroy does, without its deprecation warning
        del raw, handles
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def _free_held(kernels: Any, before: set[int]) -> None:
    refs = getattr(kernels, "_symm_workspace_refs", {})
    for key in [key for key in refs if key not in before]:
        refs.pop(key, None)
    gc.collect()
    import torch

    if torch.cuda.is_initialized():
        with contextlib.suppress(Exception):  # a broken context is reported by what broke it
            torch.cuda.empty_cache()
