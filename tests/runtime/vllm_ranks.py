"""Ranks of vLLM workers up to the point where the adapter commits: the published modules, a gloo WORLD, the stand-in library.

    python -m tests.runtime.vllm_ranks FOLDER VERSION NAME:TENSOR_PARALLEL:PIPELINE_PARALLEL:FAULTY_RANK …

The engine is imported once and the ranks are forked. Every case leaves `FOLDER/NAME-RANK.json`."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from tests.engines.stand_ins import install, know_model_classes
from tests.runtime.forkserver import fork

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 4,
    "vocab_size": 128,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def configuration(folder: Path, tensor_parallel: int, pipeline_parallel: int) -> Any:
    """A real VllmConfig of a small model whose config.json lies in `folder`; the fusion asked for, with a size of 1/64 MiB."""
    from vllm.config import CompilationConfig, DeviceConfig, ModelConfig, ParallelConfig, VllmConfig

    model = ModelConfig(model=str(folder / "model"), tokenizer=str(folder / "model"), skip_tokenizer_init=True, dtype="bfloat16", enforce_eager=True)
    parallel = ParallelConfig(tensor_parallel_size=tensor_parallel, pipeline_parallel_size=pipeline_parallel, distributed_executor_backend="mp")
    compilation = CompilationConfig(pass_config={"fuse_allreduce_rms": True, "fi_allreduce_fusion_max_size_mb": 0.015625})
    return VllmConfig(model_config=model, parallel_config=parallel, compilation_config=compilation, device_config=DeviceConfig(device="cpu"))


def asked_workspace(version: str, size: int, hidden: int) -> Any:
    """Ask for the workspace as the engine's own consumers do."""
    import torch
    import vllm.distributed.device_communicators.flashinfer_all_reduce as module
    from vllm.distributed.parallel_state import get_tp_group

    group = get_tp_group()
    arguments = {
        "world_size": size,
        "rank": group.rank_in_group,
        "max_token_num": 64,
        "hidden_dim": hidden,
        "dtype": torch.bfloat16,
        "group": group.device_group,
    }
    if version.startswith(("0.17", "0.18")):
        try:
            module.initialize_fi_ar_workspace(**arguments)
        except Exception:  # the engine's own caller catches it and leaves the fusion off
            return None
        return module.get_fi_ar_workspace()
    return module.get_fi_ar_workspace(**arguments)


def run_rank(folder: Path, name: str, rank: int, tensor_parallel: int, pipeline_parallel: int, version: str, faulty: int, port: int) -> None:
    """Register, let the engine start its distributed environment, report what came of it."""
    import torch
    import torch.distributed as dist
    from vllm.config import set_current_vllm_config

    from policy.runtime.engines import vllm as door_module
    from policy.runtime.engines.door import Door
    from policy.runtime.machine import Machine

    os.environ["FUSION_POLICY_STATE"] = str(folder / f"state-{name}")
    os.environ["FUSION_POLICY_REPORT"] = str(folder / f"report-{name}")
    if name in ("missing", "without") and rank == faulty:
        del os.environ["FUSION_POLICY_DECISION"]
    if name == "missing":
        os.environ["FUSION_POLICY_BUILDER"] = "adapter"
    if name == "without":
        os.environ["FUSION_POLICY_DEADLINE"] = "6"
        faulty = -1
    capability = (8, 0) if rank == faulty and name == "faulty" else (9, 0)
    machine = Machine(platform="cuda", node="one", device=f"gpu-{rank}", capability=capability, multiprocessors=132, torch=str(torch.__version__))
    door = door_module.register(Door("vllm", version, machine=machine))
    import vllm.v1.worker.gpu_worker as worker

    config, later = (configuration(folder, tensor_parallel, pipeline_parallel) for _ in range(2))
    before = config.compilation_config.pass_config.fuse_allreduce_rms
    with set_current_vllm_config(config):
        worker.init_worker_distributed_environment(config, rank, f"tcp://127.0.0.1:{port}", rank, "gloo")
        if door is None:  # a rank without the adapter; on its own it would wait in the library for the others
            (folder / f"{name}-{rank}.json").write_text(json.dumps({"outcome": None}))
            dist.barrier()
            os._exit(0)
        settled = door.settled
        assert settled is not None
        workspace = asked_workspace(version, tensor_parallel, 64)
    with set_current_vllm_config(later):
        worker.init_worker_distributed_environment(later, rank, f"tcp://127.0.0.1:{port}", rank, "gloo")
    report: dict[str, Any] = {
        "outcome": settled.outcome.word,
        "reason": str(settled.outcome.reason),
        "checks": len(settled.checks),
        "before": before,
        "fuse_allreduce_rms": config.compilation_config.pass_config.fuse_allreduce_rms,
        "later": (door.settled is settled, later.compilation_config.pass_config.fuse_allreduce_rms),
        "backend": os.environ.get("VLLM_FLASHINFER_ALLREDUCE_BACKEND"),
        "standalone": os.environ.get("VLLM_ALLREDUCE_USE_FLASHINFER"),
        "has_workspace": workspace is not None,
        "is_ours": workspace is not None and settled.workspace is not None and workspace is settled.workspace.raw,
        "span": None if workspace is None else dist.get_process_group_ranks(workspace.group),
    }
    (folder / f"{name}-{rank}.json").write_text(json.dumps(report))
    dist.barrier()
    os._exit(0)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_ranks(pids: list[int], seconds: float = 150) -> None:
    """Wait for the ranks of one case, then end those that are left, by their ids."""
    until = time.monotonic() + seconds
    for pid in pids:
        ended = False
        while not ended and time.monotonic() < until:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            time.sleep(0.05)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main(folder: Path, version: str, cases: list[str]) -> None:
    install(("xgrammar", "vllm_flash_attn", "deep_gemm"))
    import vllm.v1.worker.gpu_worker  # noqa: F401 - once, before the forks

    know_model_classes()
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
