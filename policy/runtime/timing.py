"""Fused against unfused on the machine at hand: medians of CUDA graph replays, the slower rank counts."""

from __future__ import annotations

import statistics
from typing import Any

from policy.runtime.plan import Consumer
from policy.runtime.workspace import Workspace

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
CALLS, REPLAYS = 20, 15


def table(workspace: Workspace, consumer: Consumer, group: Any) -> list[dict[str, Any]]:
    """Rows of tokens, `fused_us`, `unfused_us` (microseconds a call). Collective over `group`.

    Unfused is the group's all-reduce followed by torch's add and RMSNorm. On the CPU the calls are timed one by one."""
    import torch
    import torch.distributed as dist

    dtype = getattr(torch, consumer.dtype)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    rows = []
    for tokens in (each for each in TOKENS if workspace.fits(each, consumer.hidden_size) and each <= consumer.max_tokens):
        if consumer.one_shot is False and tokens <= dist.get_world_size(group):
            continue
        x = torch.randn(tokens, consumer.hidden_size, device=device).to(dtype)
        residual, weight = torch.zeros_like(x), torch.ones(consumer.hidden_size, dtype=dtype, device=device)
        buffer = torch.empty_like(x)

        def fused(x: Any = x, residual: Any = residual, weight: Any = weight) -> None:
            workspace.all_reduce_rms(x, residual, weight, consumer)

        def unfused(x: Any = x, residual: Any = residual, weight: Any = weight, buffer: Any = buffer) -> None:
            buffer.copy_(x)
            dist.all_reduce(buffer, group=group)
            torch.nn.functional.rms_norm(buffer + residual, (consumer.hidden_size,), weight, consumer.rms_eps)

        through_host = str(dist.get_backend(group)) == "gloo"
        both = torch.tensor([_median(fused, device, group, True), _median(unfused, device, group, not through_host)], dtype=torch.float64)
        on = both if through_host else both.to(device)
        dist.all_reduce(on, op=dist.ReduceOp.MAX, group=group)
        rows.append({"tokens": tokens, "fused_us": round(float(on[0]), 2), "unfused_us": round(float(on[1]), 2)})
    return rows


def _median(call: Any, device: Any, group: Any, capturable: bool) -> float:
    """Microseconds a call, the median of REPLAYS."""
    import time

    import torch
    import torch.distributed as dist

    for _ in range(3):
        call()
    if device.type == "cpu" or not capturable:
        times = []
        for _ in range(REPLAYS):
            if device.type == "cuda":
                torch.cuda.synchronize()
            begun = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            times.append((time.perf_counter() - begun) * 1e6)
        return statistics.median(times)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(CALLS):
            call()
    times = []
    dist.barrier(group=group)
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / CALLS)
    return statistics.median(times)
