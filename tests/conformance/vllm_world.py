"""Scores launches with the number of vLLM's tensor-parallel groups that share torch's WORLD.

`refused` is a launch that a launch-level rule refuses, `broken` one about which a launch-level rule warns of a crash or a
hang. A list of numbers must be exactly the possible ones, and what is unknown must come from a fact that can be given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.pack import Pack

GROUPS = "parallel.tensor_parallel_groups"
BREAKS = ("crash", "hang")
PLAIN = {
    "engine": "engine.name",
    "version": "engine.version",
    "executor": "engine.executor",
    "moe": "model.is_moe",
    "tensor_parallel_size": "parallel.tensor_parallel_size",
    "pipeline_parallel_size": "parallel.pipeline_parallel_size",
    "prefill_context_parallel_size": "parallel.prefill_context_parallel_size",
    "data_parallel_size": "parallel.data_parallel_size",
    "load_balancing": "parallel.load_balancing",
    "nnodes": "parallel.nodes",
    "elastic_ep": "parallel.elastic_ep",
}
#: Facts whose absence is a value.
OPTIONAL = {"trainer_world_size": "parallel.trainer_world_size", "VLLM_DP_SIZE": "parallel.spmd_data_parallel_size"}


def handles(row: Mapping[str, Any]) -> bool:
    """Whether a row has this format."""
    return "expected_tensor_parallel_groups" in row


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as facts of a launch; null is unknown, or absent where that is a value."""
    facts = {fact: row[key] for key, fact in PLAIN.items() if row.get(key) is not None}
    return {**facts, **{fact: "absent" if row.get(key) is None else row[key] for key, fact in OPTIONAL.items()}}


def answer(pack: Pack, row: Mapping[str, Any]) -> tuple[Any, frozenset[str]]:
    """The possible numbers (one, or a list), `refused` or `broken`, and the facts that would settle several numbers."""
    facts = Facts(pack, Launch.of(pack, facts_of(row)))
    state = Evaluation(facts, "audit").launch_state()
    if state.state == "refused":
        return "refused", frozenset()
    if any(one.effect == "warn" and one.consequence in BREAKS for one in state.findings):
        return "broken", frozenset()
    points = facts.values(GROUPS).points()
    if points is not None and len(points) == 1:
        return points[0], frozenset()
    unknown = frozenset(name for name in facts.bases(GROUPS) if facts.values(name).single() is None)
    return points, unknown


def compare(pack: Pack, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int, list[str]]:
    """Rows, agreements, and each disagreement in words."""
    total, disagreements = 0, []
    for total, row in enumerate(rows, 1):
        expected, (got, unknown) = row["expected_tensor_parallel_groups"], answer(pack, row)
        if got != expected:
            disagreements.append(f"row {total}: expected {expected}, got {got}: {dict(row)}")
        elif isinstance(expected, list) and not unknown:
            disagreements.append(f"row {total}: {got} is possible, but no unknown fact is named: {dict(row)}")
    return total, total - len(disagreements), disagreements
