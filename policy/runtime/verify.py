"""Is what was built right: membership, then fused calls against all-reduce and RMSNorm in float32, each under a deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from policy.runtime.plan import Consumer
from policy.runtime.workspace import Workspace, WorkspaceBuildError


class FusedCallHungError(RuntimeError):
    """A fused kernel has not finished in time; the stream is lost and the process must be started again."""


class WrongNumbersError(WorkspaceBuildError):
    """The fused call returned, with numbers that the reference does not confirm."""


@dataclass(frozen=True, slots=True)
class Check:
    """One verified call: tokens, one-shot as called, largest error of the normed values, the limit, seconds."""

    consumer: str
    tokens: int
    one_shot: bool | None
    error: float
    limit: float
    seconds: float


def token_counts(consumer: Consumer, group_size: int, one_shot: bool | None) -> tuple[int, ...]:
    """A few sizes, the same on every rank, never zero: one token, one more than ranks, the maximum (two-shot needs more tokens than ranks)."""
    lowest = group_size + 1 if one_shot is False else 1
    counts = {max(1, lowest), min(group_size + 1, consumer.max_tokens), consumer.max_tokens}
    return tuple(sorted(count for count in counts if lowest <= count <= consumer.max_tokens))


def verify(workspace: Workspace, consumers: Sequence[Consumer], device: Any, until: float) -> list[Check]:
    """Run the checks of every distinct consumer. `until` is monotonic.

    Raises WorkspaceBuildError, WrongNumbersError or FusedCallHungError."""
    import torch.distributed as dist

    problem = workspace.membership_problem()
    if problem is not None:
        raise WorkspaceBuildError(problem)
    size = dist.get_world_size(workspace.group)
    done: list[Check] = []
    wrong: list[WrongNumbersError] = []
    for consumer in consumers:
        for tokens in token_counts(consumer, size, consumer.one_shot):
            try:
                done.append(_one(workspace, consumer, tokens, device, until, seed=len(done) + len(wrong)))
            except WrongNumbersError as error:  # go on: the peers' next reference sum waits for this rank
                wrong.append(error)
    if wrong:
        raise wrong[0]
    return done


def _one(workspace: Workspace, consumer: Consumer, tokens: int, device: Any, until: float, seed: int) -> Check:
    import torch
    import torch.distributed as dist

    rank = dist.get_rank(workspace.group)
    dtype = getattr(torch, consumer.dtype)
    generator = torch.Generator().manual_seed(7919 * seed + rank)  # own data on every rank, or a wrong peer would not show
    shared = torch.Generator().manual_seed(104729 + seed)
    x = torch.randn(tokens, consumer.hidden_size, generator=generator).to(dtype).to(device)
    residual = torch.randn(tokens, consumer.hidden_size, generator=shared).to(dtype).to(device)
    weight = (1 + 0.1 * torch.randn(consumer.hidden_size, generator=shared)).to(dtype).to(device)
    expected_residual = _summed(x, workspace.group) + residual.float()
    expected = _rms(expected_residual, weight.float(), consumer.rms_eps)
    begun = time.monotonic()
    normed, new_residual = workspace.all_reduce_rms(x, residual, weight, consumer)
    _wait(device, until, f"the fused call of {tokens} tokens x {consumer.hidden_size}")
    seconds = time.monotonic() - begun
    rounded = _rms(expected_residual.to(dtype).float(), weight.float(), consumer.rms_eps).to(dtype).float()
    error = float((normed.float() - expected).abs().max())
    limit = max(3 * float((rounded - expected).abs().max()), {2: 0.07, 4: 1e-3}[dtype.itemsize])
    residual_error = float((new_residual.float() - expected_residual).abs().max())
    residual_limit = max(4 * torch.finfo(dtype).eps * float(expected_residual.abs().max()) + 1e-5, 1e-4)
    if not (error <= limit and residual_error <= residual_limit):  # written so that NaN fails
        what = f"{tokens} tokens x {consumer.hidden_size} for `{consumer.name}`"
        off = f"off by {error:.3g} (limit {limit:.3g}), its residual by {residual_error:.3g} (limit {residual_limit:.3g})"
        raise WrongNumbersError(f"the fused call of {what} is {off}")
    return Check(consumer.name, tokens, consumer.one_shot, error, limit, seconds)


def _summed(x: Any, group: Any) -> Any:
    """The float32 sum over the group, through the host where the group has no device collectives."""
    import torch.distributed as dist

    total = x.float()
    if x.is_cuda and str(dist.get_backend(group)) == "gloo":
        total = total.cpu()
    total = total.clone()
    dist.all_reduce(total, group=group)
    return total.to(x.device)


def _rms(value: Any, weight: Any, eps: float) -> Any:
    import torch

    return value * torch.rsqrt(value.square().mean(-1, keepdim=True) + eps) * weight


def _wait(device: Any, until: float, what: str) -> None:
    """Poll an event instead of synchronising: a spinning kernel never lets a synchronisation return."""
    import torch

    if torch.device(device).type != "cuda":
        return
    event = torch.cuda.Event()
    event.record()
    begun = time.monotonic()
    while not event.query():
        if time.monotonic() > until:
            raise FusedCallHungError(f"{what} has not finished within {time.monotonic() - begun:.1f} s")
        time.sleep(0.001)
