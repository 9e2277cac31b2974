"""Scores recorded answers of SGLang's gate of the FlashInfer all-reduce fusion: `state`, backend and start error.

The expected backend is the *configured* one. It is read from the pack as follows: a chain of the arm that leads to the
CuTe DSL plan and whose condition holds says `cutedsl`; otherwise it is `engine.allreduce_backend`, whose default is
`auto`. A start error is the condition `backend-not-resolved` of the arm's `dies`: the recorded rows ask whether the
backend's resolution raises for this GPU and number of nodes, also where one rank never gets that far.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from policy.conditions import Condition, Named, Not, Truth
from policy.decision import PlanState
from policy.engine_outcome import outcome_of
from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.load import read_pack
from policy.pack import Arm, Pack
from policy.values import Ordered
from policy.versions import Version

FUSION = "allreduce_rms"
#: Releases with a backend flag; before it the fusion is on or off.
WITH_BACKENDS = Version("0.5.14.dev0")
#: Held constant by the recorded rows.
CONSTANT = {
    "engine.name": "sglang",
    "device.platform": "cuda",
    "model.dtype": "bfloat16",
    "model.hidden_size": 4096,
    "model.type": "absent",
    "model.native_sparse_attention": False,
    "parallel.attention_context_parallel_size": 1,
    "engine.encoder_only": False,
    "engine.pd_multiplexing": False,
    "engine.mnnvl_cutedsl_fusion": False,
    "packages.flashinfer-python": ">=0.5.2",
}
PLAIN = {
    "version": "engine.version",
    "cuda_version": "engine.cuda_version",
    "device_name": "device.name",
    "architecture": "model.architecture",
    "tensor_parallel_size": "parallel.tensor_parallel_size",
    "nnodes": "parallel.nodes",
    "dp_attention": "parallel.dp_attention",
    "data_parallel_size": "parallel.data_parallel_size",
    "moe_a2a_backend": "engine.all2all_backend",
    "deterministic": "engine.batch_invariant",
}


def handles(row: Mapping[str, Any]) -> bool:
    """Whether a row has this format."""
    return {"version", "architecture", "moe_a2a_backend", "expected", "start_error"} <= set(row)


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as facts of a launch."""
    facts = {**CONSTANT, **{fact: row[key] for key, fact in PLAIN.items()}}
    major, minor = divmod(row["capability"], 10)
    facts["device.compute_capability"] = f"{major}.{minor}"
    if row["requested"] is not None:
        facts[f"request.{FUSION}"] = "on" if row["requested"] else "off"
    if row.get("requested_backend") is not None:
        facts["engine.allreduce_backend"] = row["requested_backend"]
    return facts


def answer(pack: Pack, row: Mapping[str, Any]) -> tuple[str, bool]:
    """What the pack says: `off`, `on` or the configured backend, and whether resolving it raises."""
    launch = Launch.of(pack, facts_of(row))
    facts = Facts(pack, launch)
    evaluation = Evaluation(facts, "audit")
    # only the gate is asked: what the rules say of the plans does not change what it configures
    outcome = outcome_of(evaluation, pack.fusions[FUSION], tuple(PlanState(plan, "undetermined") for plan in pack.fusions[FUSION].plans))
    arm = _arm(pack, facts)
    unresolved = next((condition.truth(facts) for condition in _named(arm.dies) if condition.name == "backend-not-resolved"), False)
    if outcome.state not in ("on", "dies"):
        return outcome.state, False
    if unresolved is None:
        return "unknown", False
    if Version(row["version"]) < WITH_BACKENDS:
        return "on", unresolved
    return _backend(arm, facts), unresolved


def _arm(pack: Pack, facts: Facts) -> Arm:
    versions = facts.values("engine.version")
    assert isinstance(versions, Ordered)
    arms = [arm for _, arm in pack.products["sglang"].gates[FUSION].arms.met(versions)]
    assert len(arms) == 1
    return arms[0]


def _backend(arm: Arm, facts: Facts) -> str:
    for take in arm.takes:
        truth: Truth = take.when.truth(facts)
        if truth is True and any("mnnvl-cutedsl" in link.wanted.get("backend", ()) for link in take.chain):
            return "cutedsl"
    return str(facts.values("engine.allreduce_backend").single())


def _named(condition: Condition) -> Iterator[Named]:
    if isinstance(condition, Named):
        yield condition
        yield from _named(condition.body)
    elif isinstance(condition, Not):
        yield from _named(condition.part)
    else:
        for part in getattr(condition, "parts", ()):
            yield from _named(part)


def rows_of(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a file, gzipped or not."""
    opened = gzip.open(path, "rt", encoding="utf-8") if str(path).endswith(".gz") else open(path, encoding="utf-8")
    with opened as lines:
        return [json.loads(line) for line in lines if line.strip()]


def compare(pack: Pack, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int, list[str]]:
    """Rows, agreements, and each disagreement in words."""
    total, disagreements = 0, []
    held: dict[str, tuple[str, bool]] = {}
    for total, row in enumerate(rows, 1):
        # rows that differ in their answer only are one launch
        key = json.dumps({name: row[name] for name in sorted(row) if name not in ("expected", "start_error")})
        got = held.get(key) or held.setdefault(key, answer(pack, row))
        wanted = (row["expected"], bool(row["start_error"]))
        if got != wanted:
            disagreements.append(f"row {total}: expected {wanted}, got {got}: {key}")
    return total, total - len(disagreements), disagreements


def score(path: str | Path) -> tuple[int, int, list[str]]:
    """Rows, agreements and disagreements of a file."""
    return compare(read_pack(compiled=False), rows_of(path))
