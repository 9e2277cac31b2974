"""Scores recorded values of vLLM's `pass_config.fuse_allreduce_rms` where the user leaves it unset.

Only the gate is asked: what the rules say of the plans is about later stages of the engine. Rows that every condition of
their release's gate answers alike are one launch, and are evaluated once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from policy.decision import PlanState
from policy.engine_outcome import EngineOutcome, outcome_of
from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.pack import Pack
from policy.values import Ordered
from policy.versions import parse

FUSION = "allreduce_rms"
PLAIN = {
    "version": "engine.version",
    "platform": "device.platform",
    "tensor_parallel_size": "parallel.tensor_parallel_size",
    "pipeline_parallel_size": "parallel.pipeline_parallel_size",
    "data_parallel_size": "parallel.data_parallel_size",
    "nvcc": "engine.nvcc",
    "ninja": "engine.ninja",
    "batch_invariant": "engine.batch_invariant",
    "aiter": "engine.aiter",
    "optimization_level": "engine.optimization_level",
}
#: Whether the package is there; which release it is, the gate never asks.
PACKAGES = {"flashinfer": "packages.flashinfer-python", "flashinfer_cubin": "packages.flashinfer-cubin"}


def handles(row: Mapping[str, Any]) -> bool:
    """Whether a row has this format."""
    return {"version", "flashinfer_cubin", "aiter", "optimization_level", "expected"} <= set(row)


def facts_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as facts of a launch."""
    facts: dict[str, Any] = {"engine.name": "vllm", **{fact: row[key] for key, fact in PLAIN.items()}}
    facts.update({fact: ">=0" if row[key] else "absent" for key, fact in PACKAGES.items()})
    capability = row["capability"]
    facts["device.compute_capability"] = "absent" if capability is None else f"{capability // 10}.{capability % 10}"
    return facts


def outcome(pack: Pack, facts: Mapping[str, Any]) -> EngineOutcome:
    """What the gate says."""
    evaluation = Evaluation(Facts(pack, Launch.of(pack, facts)), "audit")
    plans = tuple(PlanState(plan, "undetermined") for plan in pack.fusions[FUSION].plans)
    return outcome_of(evaluation, pack.fusions[FUSION], plans)


class Cells:
    """Which answers the atoms of one release's gate give to a fact's value: values with the same answers are one cell."""

    def __init__(self, pack: Pack, version: str) -> None:
        self.pack, self.held = pack, dict[tuple[str, Any], tuple[Any, ...]]()
        release = parse(version)
        arms = [arm for _, arm in pack.products["vllm"].gates[FUSION].arms.met(Ordered.exactly(release)) if arm is not None]
        self.atoms = [atom for arm in arms for condition in (arm.unset, arm.dies, *(take.when for take in arm.takes)) for atom in condition.atoms()]

    def of(self, name: str, raw: Any) -> tuple[Any, ...]:
        """The answers for one value of one fact."""
        if (name, raw) not in self.held:
            fact = self.pack.fact(name)
            assert fact is not None
            values = fact.values(raw)
            self.held[name, raw] = tuple(atom.of(values) for atom in self.atoms if atom.fact == name)
        return self.held[name, raw]


def compare(pack: Pack, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int, list[str]]:
    """Rows, agreements, and each disagreement in words."""
    cells: dict[str, Cells] = {}
    held: dict[tuple[Any, ...], EngineOutcome] = {}
    total, disagreements = 0, []
    for total, row in enumerate(rows, 1):
        version, facts = row["version"], facts_of(row)
        here = cells.get(version) or cells.setdefault(version, Cells(pack, version))
        key = (version, *(here.of(name, raw) for name, raw in facts.items() if name != "engine.version"))
        got = held.get(key) or held.setdefault(key, outcome(pack, facts))
        if got.state != ("on" if row["expected"] else "off"):
            disagreements.append(f"row {total}: expected {row['expected']}, got {got.state} ({'; '.join(_words(got))}): {dict(row)}")
    return total, total - len(disagreements), disagreements


def _words(got: EngineOutcome) -> Iterator[str]:
    yield got.title
    yield from (f"{finding.fact} {finding.condition}: it is {finding.value}" for finding in got.findings)
