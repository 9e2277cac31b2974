"""The nouns of an answer: findings, plan states, what the engine does left alone, and the decision itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy.conditions import Truth
from policy.pack import Place, Plan
from policy.records import dataclass, field

SCHEMA_VERSION = 1
POSTURES = ("safe", "fast", "audit")


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition with the value it met. `through` names the named conditions it came through."""

    fact: str
    condition: str
    value: str
    truth: Truth
    origin: str
    through: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The stable keys of a finding."""
        return {"fact": self.fact, "condition": self.condition, "value": self.value, "truth": self.truth, "origin": self.origin}


@dataclass(frozen=True, slots=True)
class Because:
    """One reason for the state of a plan or a launch: a rule's id, or `needs`, `call`, `requires`, `request`. `settles` says
    that the engine gives the plan up before it creates anything, so that no other consequence follows."""

    id: str
    effect: str
    truth: Truth
    consequence: str | None
    findings: tuple[Finding, ...] = ()
    title: str = ""
    place: Place | None = None
    evidence: str = ""
    settles: bool = False

    def as_json(self) -> dict[str, Any]:
        """The stable keys of a reason."""
        return {"id": self.id, "effect": self.effect, "consequence": self.consequence, "findings": [finding.as_json() for finding in self.findings]}


@dataclass(frozen=True, slots=True)
class PlanState:
    """Whether a plan is `admitted`, `excluded` or `undetermined`, and why."""

    plan: Plan
    state: str
    because: tuple[Because, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The stable keys of a plan's state."""
        return {"plan": self.plan.id, "state": self.state, "because": [one.as_json() for one in self.because]}


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """What the engine does for this request if nobody interferes: `state` is on, off, dies or unknown; `built` is what
    comes of it."""

    state: str
    built: str
    engine_plan: str | None
    findings: tuple[Finding, ...] = ()
    gate: str = ""
    place: Place | None = None
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The stable keys of the engine's own outcome."""
        return {"state": self.state, "built": self.built, "engine_plan": self.engine_plan, "findings": [finding.as_json() for finding in self.findings]}


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on the chosen plan, and the rule it comes from."""

    value: Any
    unit: str
    id: str


@dataclass(frozen=True, slots=True)
class SwitchUse:
    """Words that make the engine do it."""

    kind: str
    text: str
    reaches: str


@dataclass(frozen=True, slots=True)
class Flip:
    """A smallest change of facts that turns the fusion on, as one writes it in a rule."""

    changes: Mapping[str, str]
    cost: str


@dataclass(frozen=True, slots=True)
class Reason:
    """What the headline names. `kind` is asked, needs, gate, rule, requires, unwanted, unknown or on."""

    kind: str
    id: str
    title: str
    place: Place | None = None
    findings: tuple[Finding, ...] = ()
    evidence: str = ""


@dataclass(slots=True)
class Decision:
    """The answer for one fusion."""

    fusion: str
    title: str
    posture: str
    state: str
    reason: Reason
    left_alone: LeftAlone
    able: tuple[PlanState, ...]
    asked: str | None
    asked_plan: str | None
    wanted: Truth
    chosen: Plan | None = None
    final: bool = True
    better: tuple[str, ...] = ()
    provisional: tuple[str, ...] = ()
    against_engine: str = "unknown"
    conflict: bool = False
    limits: dict[str, Limit] = field(default_factory=dict)
    warnings: tuple[Because, ...] = ()
    unknown_facts: tuple[str, ...] = ()
    assuming: dict[str, str] = field(default_factory=dict)
    flips: tuple[Flip, ...] = ()
    switches: tuple[SwitchUse, ...] = ()
    support: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    audit: str = "agreed"
    digest: str = ""

    def as_json(self) -> dict[str, Any]:
        """The stable keys of a decision."""
        chosen = self.chosen
        return {
            "fusion": self.fusion,
            "state": self.state,
            "reason": {"kind": self.reason.kind, "id": self.reason.id, "title": self.reason.title, "evidence": self.reason.evidence},
            "chosen_plan": None if chosen is None else {"id": chosen.id, "library": chosen.library, "backend": chosen.backend, "scope": chosen.scope},
            "final": self.final,
            "provisional": list(self.provisional),
            "against_engine": self.against_engine,
            "conflict": self.conflict,
            "left_alone": self.left_alone.as_json(),
            "able": [state.as_json() for state in self.able],
            "asked": {"state": self.asked, "plan": self.asked_plan},
            "wanted": self.wanted,
            "limits": {name: {"value": limit.value, "unit": limit.unit, "id": limit.id} for name, limit in self.limits.items()},
            "warnings": [one.as_json() for one in self.warnings],
            "unknown_facts": list(self.unknown_facts),
            "assuming": dict(self.assuming),
            "flips": [{"set": dict(flip.changes), "cost": flip.cost} for flip in self.flips],
            "switches": [{"kind": switch.kind, "text": switch.text, "reaches": switch.reaches} for switch in self.switches],
            "audit": self.audit,
            "digest": self.digest,
        }


@dataclass(slots=True)
class LaunchState:
    """What is said of the launch as a whole: `state` is ok, warn or refused."""

    state: str = "ok"
    findings: tuple[Because, ...] = ()
    unknown: tuple[Because, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The stable keys of the launch's state."""
        return {"state": self.state, "findings": [{**one.as_json(), "title": one.title} for one in self.findings]}


@dataclass(slots=True)
class Verdict:
    """Every decision about one launch."""

    posture: str
    launch: LaunchState
    decisions: tuple[Decision, ...]
    pack: str

    def __getitem__(self, fusion: str) -> Decision:
        """The decision about one fusion; KeyError where there is none."""
        for decision in self.decisions:
            if decision.fusion == fusion:
                return decision
        raise KeyError(fusion)

    def as_json(self) -> dict[str, Any]:
        """The stable keys of the whole answer."""
        return {
            "schema_version": SCHEMA_VERSION,
            "posture": self.posture,
            "pack": self.pack,
            "launch": self.launch.as_json(),
            "decisions": [decision.as_json() for decision in self.decisions],
        }
