"""Scores recorded sizes of `PassConfig.flashinfer_max_size`: the largest tensor that vLLM's all-reduce pass takes, in MiB.

The pack answers through the rules about sizes and numbers of ranks alone; what else excludes a plan (kernels that FlashInfer
does not have, say) is another question than the one that was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.pack import Pack, Rule

FUSION = "allreduce_rms"
TABLES = ("vllm-allreduce-max-size", "vllm-allreduce-ranks")
RULES = ("vllm-asked-size",)
MEBIBYTE = 1024 * 1024
UNKNOWN = "unknown"


def handles(row: Mapping[str, Any]) -> bool:
    """Whether a row has this format."""
    return {"version", "capability", "tensor_parallel_size", "user_mb", "expected"} <= set(row)


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as facts of a launch."""
    capability = row["capability"]
    return {
        "engine.name": "vllm",
        "engine.version": row["version"],
        "device.platform": "cuda",
        "device.compute_capability": "absent" if capability is None else f"{capability // 10}.{capability % 10}",
        "parallel.tensor_parallel_size": row["tensor_parallel_size"],
        "engine.allreduce_max_mebibytes": "absent" if row["user_mb"] is None else row["user_mb"],
    }


def of_size(rule: Rule) -> bool:
    """Whether a rule is about sizes or numbers of ranks."""
    return rule.table in TABLES or rule.id in RULES


def answer(pack: Pack, row: Mapping[str, Any]) -> float | str | None:
    """The size in MiB that the pack states; None where the pass has no size."""
    evaluation = Evaluation(Facts(pack, Launch.of(pack, facts_of(row))), "audit")
    plan = next(one for one in pack.fusions[FUSION].plans if one.library == "flashinfer")
    sizes: list[float] = []
    excluded = False
    for rule in pack.rules_for(plan):
        truth = evaluation.rule(rule) if of_size(rule) else False
        if truth is None:
            return UNKNOWN
        if truth and rule.effect == "exclude":
            excluded = True
        elif truth and rule.effect == "limit":
            stated = rule.limits["max_bytes"]
            size = evaluation.facts.values(stated).single() if isinstance(stated, str) else stated
            assert isinstance(size, int)
            sizes.append(size / MEBIBYTE)
    return None if excluded else min(sizes, default=UNKNOWN)


def compare(pack: Pack, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int, list[str]]:
    """Rows, agreements, and each disagreement in words."""
    total, disagreements = 0, []
    for total, row in enumerate(rows, 1):
        got = answer(pack, row)
        if got != row["expected"]:
            disagreements.append(f"row {total}: expected {row['expected']}, got {got}: {dict(row)}")
    return total, total - len(disagreements), disagreements
