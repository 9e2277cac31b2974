"""Ranks of SGLang workers at the point where the adapter commits: the published modules, a gloo WORLD, the stand-in library.

    python -m tests.runtime.sglang_ranks FOLDER VERSION NAME:TENSOR_PARALLEL:PIPELINE_PARALLEL:FAULTY_RANK …

On a CPU two things of the engine cannot run: `ModelRunner.init_torch_distributed` (its two calls that make the groups are
made here instead, before the adapter wraps the method) and the probe that binds the library's names (bound here alike).
Packages that the engine imports and that have no part in this are empty modules."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

from tests.engines.stand_ins import install, tolerate_known_models
from tests.runtime.forkserver import fork
from tests.runtime.vllm_ranks import free_port, wait_for_ranks

#: Packages of kernels, and of what serves and watches, that have no part in this.
ABSENT = ("sgl_kernel", "torchvision", "deep_gemm", "deep_ep", "triton", "orjson", "IPython", "sentencepiece", "xgrammar", "tvm_ffi")


def published_configuration(backend: str) -> Any:
    """The resolved configuration as releases from 0.5.17 on hold it: the bags of the engine, with the leaves that are read here."""
    from sglang.srt import runtime_context
    from sglang.srt.server_args import ServerArgs

    execution, communication = runtime_context._ConfigBag("exec"), runtime_context._ConfigBag("exec.comm")
    communication._set("flashinfer_allreduce_fusion_backend", backend)
    communication._set("enable_symm_mem", False)
    execution._set_sub("comm", communication)
    context = runtime_context.get_context()
    context._config_bags, context._server_args = {"exec": execution}, ServerArgs(model_path="none")  # its type routes the leaves
    return communication


def run_rank(folder: Path, name: str, rank: int, tensor_parallel: int, pipeline_parallel: int, version: str, faulty: int, port: int) -> None:
    import torch
    import torch.distributed as dist
    from sglang.srt.distributed import parallel_state
    from sglang.srt.layers import flashinfer_comm_fusion as fusion
    from sglang.srt.model_executor.model_runner import ModelRunner

    from policy.runtime.engines import sglang as door_module
    from policy.runtime.engines.door import Door
    from policy.runtime.machine import Machine

    os.environ["FUSION_POLICY_STATE"] = str(folder / f"state-{name}")
    import flashinfer.comm as library

    fusion._flashinfer_comm, fusion._create_allreduce_fusion_workspace, fusion._flashinfer_allreduce_unavailable = (
        library,
        library.create_allreduce_fusion_workspace,
        False,
    )

    def groups(self: Any) -> None:
        size = tensor_parallel * pipeline_parallel
        parallel_state.init_distributed_environment(
            world_size=size, rank=rank, local_rank=rank, distributed_init_method=f"tcp://127.0.0.1:{port}", backend="gloo"
        )
        if "tensor_model_parallel_size" in inspect.signature(parallel_state.initialize_model_parallel).parameters:
            parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor_parallel, pipeline_model_parallel_size=pipeline_parallel, backend="gloo")
            return
        from sglang.srt.runtime_context import get_parallel  # later releases read the widths from the context

        widths = {
            "tp_size": tensor_parallel,
            "pp_size": pipeline_parallel,
            "moe_ep_size": 1,
            "attn_dp_size": 1,
            "attn_cp_size": 1,
            "moe_dp_size": 1,
            "attn_dcp_size": 1,
            "shared_experts_tp_size": None,
        }
        with get_parallel().override(**widths):
            parallel_state.initialize_model_parallel(backend="gloo")

    ModelRunner.init_torch_distributed = groups
    capability = (8, 0) if rank == faulty else (9, 0)
    machine = Machine(platform="cuda", node="one", device=f"gpu-{rank}", capability=capability, multiprocessors=132, torch=str(torch.__version__))
    door = door_module.register(Door("sglang", version, machine=machine))
    assert door is not None
    resolved = published_configuration("auto") if version >= "0.5.17" else types.SimpleNamespace(flashinfer_allreduce_fusion_backend="auto")
    runner = object.__new__(ModelRunner)
    runner.__dict__.update(is_draft_worker=False, server_args=resolved, model_config=types.SimpleNamespace(dtype=torch.bfloat16, hidden_size=64))
    runner.init_torch_distributed()
    settled = door.settled
    assert settled is not None
    group = parallel_state.get_tp_group()
    asked = {"backend": "trtllm", "world_size": tensor_parallel, "rank": group.rank_in_group, "max_token_num": 2048, "hidden_dim": 64, "dtype": torch.bfloat16}
    try:
        workspace = fusion._create_allreduce_fusion_workspace(**asked, group=group.device_group)
    except RuntimeError:  # the engine's caller catches it and latches
        workspace = None
    report = {
        "outcome": settled.outcome.word,
        "reason": str(settled.outcome.reason),
        "checks": len(settled.checks),
        "backend": resolved.flashinfer_allreduce_fusion_backend,
        "unavailable": fusion.is_flashinfer_allreduce_unavailable(),
        "is_ours": workspace is not None and settled.workspace is not None and workspace is settled.workspace.raw,
        "span": None if workspace is None else dist.get_process_group_ranks(workspace.group),
    }
    (folder / f"{name}-{rank}.json").write_text(json.dumps(report))
    dist.barrier()
    os._exit(0)


def main(folder: Path, version: str, cases: list[str]) -> None:
    install(ABSENT, always=("sgl_kernel", "torchvision"))
    tolerate_known_models()
    import torch

    # some modules look at the device while they are imported
    torch.cuda.get_device_name = lambda device=None: "NVIDIA H200"  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda device=None: (9, 0)  # type: ignore[assignment]
    import sglang.srt.model_executor.model_runner  # noqa: F401 - once, before the forks

    for case in cases:
        name, *numbers = case.split(":")
        tensor_parallel, pipeline_parallel, faulty = map(int, numbers)
        port = free_port()
        ranks = [
            functools.partial(run_rank, folder, name, rank, tensor_parallel, pipeline_parallel, version, faulty, port)
            for rank in range(tensor_parallel * pipeline_parallel)
        ]
        wait_for_ranks([fork(work, folder / f"{name}-{rank}.log") for rank, work in enumerate(ranks)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
