"""The adapter in the running ranks: all ranks fused, or none.

    from policy.runtime import Consumer, Deadline, Decision, settle
    settled = settle(decision, [Consumer("target", hidden_size=8192, max_tokens=2048)], tensor_parallel_group)
    settled.exit_if_restart()
    if settled.workspace is not None:
        normed, residual = settled.workspace.all_reduce_rms(x, residual, weight, consumer)

torch and the kernel library are imported inside functions only, so this package can be read anywhere.
"""

from __future__ import annotations

from policy.runtime.plan import FUSED, RESTART, UNFUSED, Consumer, Deadline, Decision, Outcome, Reason, RuntimeRequestError, WorkspacePlan
from policy.runtime.settle import Settled, settle

__all__ = ["FUSED", "RESTART", "UNFUSED", "Consumer", "Deadline", "Decision", "Outcome", "Reason", "RuntimeRequestError", "Settled", "WorkspacePlan", "settle"]
