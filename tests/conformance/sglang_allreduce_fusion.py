"""Scores recorded answers of SGLang's gate of the FlashInfer all-reduce fusion: `state`, backend and start error.

The expected backend is the *configured* one. It is read from the pack as follows: a chain of the arm that leads to the
CuTe DSL plan and whose condition holds says `cutedsl`; otherwise it is `engine.allreduce_backend`, whose default is
`auto`. A start error is the condition `sglang-backend-not-resolved` of the arm's `dies`: the recorded rows ask whether the
backend's resolution raises for this GPU and number of nodes, also where one rank never gets that far.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from policy.conditions import Atom, Condition, Named, Not, Truth
from policy.decision import PlanState
from policy.engine_outcome import outcome_of
from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
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
#: Facts that take part in another way than by a comparison of the gate: through a derived fact, or as part of the answer.
READ_OTHERWISE = ("device.name", f"request.{FUSION}", "engine.allreduce_backend")


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
    unresolved = next((condition.truth(facts) for condition in _named(arm.dies) if condition.name == "sglang-backend-not-resolved"), False)
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


def atoms_of(pack: Pack, version: str) -> dict[str, list[Atom]]:
    """The comparisons of one release's gate by fact."""
    versions = Ordered.exactly(Version(version))
    found: dict[str, list[Atom]] = {}
    for _, arm in pack.products["sglang"].gates[FUSION].arms.met(versions):
        for condition in (arm.unset, arm.requested_on, arm.requested_off, arm.dies, *(take.when for take in arm.takes)):
            for atom in condition.atoms():
                found.setdefault(atom.fact, []).append(atom)
    return found


def cell(pack: Pack, atoms: Mapping[str, list[Atom]], name: str, raw: Any) -> Any:
    """What the gate can tell of a fact's value: its comparisons' answers, or the value itself where it is read otherwise."""
    fact = pack.fact(name)
    assert fact is not None
    return raw if name in READ_OTHERWISE else tuple(atom.of(fact.values(raw)) for atom in atoms.get(name, ()))


def compare(pack: Pack, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int, list[str]]:
    """Rows, agreements, and each disagreement in words. Rows that the gate cannot tell apart are evaluated once."""
    total, disagreements = 0, []
    atoms: dict[str, dict[str, list[Atom]]] = {}
    cells: dict[tuple[str, str, Any], Any] = {}
    held: dict[tuple[Any, ...], tuple[str, bool]] = {}
    for total, row in enumerate(rows, 1):
        version, facts = row["version"], facts_of(row)
        asked = atoms.get(version) or atoms.setdefault(version, atoms_of(pack, version))
        for name, raw in facts.items():
            if (version, name, raw) not in cells:
                cells[version, name, raw] = cell(pack, asked, name, raw)
        key = (version, *((name, cells[version, name, raw]) for name, raw in facts.items()))
        got = held.get(key) or held.setdefault(key, answer(pack, row))
        wanted = (row["expected"], bool(row["start_error"]))
        if got != wanted:
            disagreements.append(f"row {total}: expected {wanted}, got {got}: {dict(row)}")
    return total, total - len(disagreements), disagreements
