"""What an engine does with a fusion when left alone: its gate for this version and request, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from policy.conditions import AnyOf, Condition, Truth
from policy.decision import Because, Finding, PlanState
from policy.facts import show
from policy.pack import REQUEST_PREFIX, SEVERITY, Arm, Fusion, Gate, Place, Selector, Take, releases_between
from policy.records import dataclass
from policy.values import ABSENT, Interval, Ordered

if TYPE_CHECKING:
    from policy.plan_states import PlanStates


@dataclass(frozen=True, slots=True)
class Chain:
    """The plans an engine tries in order, by id; each link lists the plans that it may mean."""

    links: tuple[tuple[str, ...], ...]
    falls_back: bool

    def possible(self, able: Mapping[str, PlanState]) -> list[str]:
        """The plans the engine may end up with, as far as is known."""
        found: list[str] = []
        for link in self.links:
            found.extend(link)
            if not self.falls_back or any(one.truth is True and not clean(one) for name in link for one in able[name].because):
                break
        return found


@dataclass(frozen=True, slots=True)
class EngineOutcome:
    """The engine's own outcome. `chains` are the chains it may follow, None where that is not known at all; `may_die` says
    that it cannot be ruled out that the launch does not start."""

    state: str
    built: str
    plan: str | None
    findings: tuple[Finding, ...]
    gate: str
    title: str
    place: Place | None
    chains: tuple[Chain, ...] | None
    notes: tuple[str, ...]
    may_die: bool = False

    def sure_plan(self, able: Mapping[str, PlanState]) -> str | None:
        """The admitted plan that the engine takes by itself, whatever is still unknown; None where none is sure."""
        if not self.chains:
            return None
        ends = {_end(chain, able) for chain in self.chains}
        return ends.pop() if len(ends) == 1 else None


def clean(reason: Because) -> bool:
    """Whether an engine that tries the next plan would get there: nothing worse than not being created."""
    return SEVERITY.get(reason.consequence or "unfused", 0) <= SEVERITY["unfused"]


def _end(chain: Chain, able: Mapping[str, PlanState]) -> str | None:
    """The first admitted link with only clean failures before it."""
    for link in chain.links:
        states = [able[name] for name in link if not _other_call(able[name])]
        if len(states) == 1 and states[0].state == "admitted":
            return states[0].plan.id
        if not chain.falls_back or any(not clean(one) for state in states for one in state.because):
            return None
    return None


def _other_call(state: PlanState) -> bool:
    return state.state == "excluded" and bool(state.because) and state.because[0].id == "call"


def outcome_of(evaluation: PlanStates, fusion: Fusion, able: tuple[PlanState, ...]) -> EngineOutcome:
    """What the engine does with one fusion, left alone with this request."""
    facts = evaluation.facts
    engine = facts.engine()
    gate = engine.gates.get(fusion.id) if engine is not None else None
    if engine is None or gate is None:
        origin = str(facts.get("engine.name").origin)
        unnamed = (Finding("engine.name", "an engine that the pack knows", facts.shown("engine.name"), None, origin),)
        if engine is not None:
            return EngineOutcome(
                "off",
                "unfused",
                None,
                (),
                "",
                f"{engine.title} has no such fusion that the pack knows",
                None,
                (),
                (f"the pack has no gate of {engine.title} for this fusion",),
            )
        nameless = facts.values("engine.name").single() is None
        return EngineOutcome("unknown", "unknown", None, unnamed, "", "the engine is not known", None, None, (), nameless)
    versions = facts.values(engine.version_fact)
    assert isinstance(versions, Ordered)
    arms = [(interval, arm) for interval, arm in gate.arms.met(versions)]
    notes = _horizon(gate, versions, engine.title)
    version = facts.get(engine.version_fact)
    states: list[tuple[str, tuple[Finding, ...], str]] = []
    for interval, arm in arms:
        if arm is None or not arm.known:
            at = Finding(engine.version_fact, _range(engine.releases, interval), facts.shown(engine.version_fact), None, str(version.origin))
            states.append(("unknown", (at,), f"releases {_range(engine.releases, interval)} were not read"))
        else:
            states.append(_configured(evaluation, fusion, gate, arm))
    kinds = {state for state, _, _ in states}
    findings = tuple(dict.fromkeys(finding for _, found, _ in states for finding in found))
    may_die = any(arm is not None and arm.known and evaluation.ask(arm.dies)[0] is not False for _, arm in arms)
    if len(states) > 1 and len(kinds) > 1:
        span = Finding(engine.version_fact, "one release", facts.shown(engine.version_fact), None, str(version.origin))
        return EngineOutcome(
            "unknown",
            "unknown",
            None,
            (span, *findings),
            gate.id,
            "it differs between the possible releases",
            gate.place,
            _chains(evaluation, fusion, able, arms),
            notes,
            may_die,
        )
    state, _, title = states[0]
    place = next((arm.place for _, arm in arms if arm is not None), gate.place)
    notes = (*notes, *dict.fromkeys(arm.note for _, arm in arms if arm is not None and arm.note))
    chains = _chains(evaluation, fusion, able, arms)
    by_plan = {one.plan.id: one for one in able}
    if state == "off":
        return EngineOutcome(state, "unfused", None, findings, gate.id, title, place, chains, notes)
    if state != "on":
        return EngineOutcome(state, "crash" if state == "dies" else "unknown", None, findings, gate.id, title, place, chains, notes, may_die)
    plans = {_taken(chain, by_plan) for chain in chains} if chains else set()
    plan = plans.pop() if len(plans) == 1 else None
    built = {_built(chain, by_plan) for chain in chains} if chains else {"unknown"}
    return EngineOutcome(state, built.pop() if len(built) == 1 else "unknown", plan, findings, gate.id, title, place, chains, notes, may_die)


def _configured(evaluation: PlanStates, fusion: Fusion, gate: Gate, arm: Arm) -> tuple[str, tuple[Finding, ...], str]:
    """What the gate says for the request, by which of its conditions."""
    request = evaluation.facts.values(REQUEST_PREFIX + fusion.id).points() or []
    dies, findings = evaluation.ask(arm.dies)
    if dies is True:
        return "dies", findings, arm.dies_why or "the engine refuses to start"
    answers: dict[str, tuple[Finding, ...]] = {}
    if dies is None:
        answers["unknown"] = findings
    for value in request:
        condition: Condition = arm.unset if value is ABSENT else arm.requested_on if value == "on" else arm.requested_off
        truth, found = evaluation.ask(condition)
        answers[{True: "on", False: "off", None: "unknown"}[truth]] = found
    state = next(iter(answers)) if len(answers) == 1 else "unknown"
    name = REQUEST_PREFIX + fusion.id
    met = tuple(dict.fromkeys(finding for found in answers.values() for finding in found))
    if request and request[0] is not ABSENT:
        met = (Finding(name, str(request[0]), evaluation.facts.shown(name), True, str(evaluation.facts.get(name).origin)), *met)
    titles = {
        "on": f"the engine turns {gate.setting} on by itself" if request[:1] == [ABSENT] else f"{gate.setting} is requested",
        "off": _never(arm, request) or f"the engine leaves {gate.setting} off",
        "unknown": f"it is not known whether the engine turns {gate.setting} on",
    }
    return state, met, titles[state]


def _never(arm: Arm, request: list[object]) -> str:
    if request[:1] == [ABSENT] and isinstance(arm.unset, AnyOf) and not arm.unset.parts:
        return "the engine never turns it on by itself in this release"
    return ""


def _horizon(gate: Gate, versions: Ordered, title: str) -> tuple[str, ...]:
    if versions.outside(Ordered((Interval(gate.through, False, None, False),))):
        return ()
    return (f"{title} after {gate.through} was not read: predicted by what {gate.through} does",)


def _range(releases: tuple[object, ...], interval: Interval) -> str:
    text = show(Ordered((interval,)))
    inside = releases_between(releases, interval)  # type: ignore[arg-type]
    return f"{text} ({inside})" if inside and inside != text else text


def _chains(evaluation: PlanStates, fusion: Fusion, able: tuple[PlanState, ...], arms: list[tuple[Interval, Arm | None]]) -> tuple[Chain, ...] | None:
    """The chains the engine may follow; None where a release that nobody read is possible."""
    found: dict[Chain, None] = {}
    for _, arm in arms:
        if arm is None or not arm.known:
            return None
        for take in arm.takes:
            truth: Truth = evaluation.ask(take.when)[0]
            if truth is not False:
                found[_chain(take, able)] = None
    return tuple(found)


def _chain(take: Take, able: tuple[PlanState, ...]) -> Chain:
    return Chain(tuple(_meant(link, able) for link in take.chain), take.falls_back)


def _meant(link: Selector, able: tuple[PlanState, ...]) -> tuple[str, ...]:
    """The plans that a link may mean: those it selects whose form the call takes or may take."""
    selected = [state for state in able if link.matches(state.plan)]
    formed = [state for state in selected if not _other_call(state)]
    return tuple(state.plan.id for state in formed or selected)


def _taken(chain: Chain, able: Mapping[str, PlanState]) -> str | None:
    """The plan the engine tries: the first link that is not sure to fail cleanly."""
    last: str | None = None
    for link in chain.links:
        if len(link) != 1:
            return last
        state = able[link[0]]
        last = state.plan.id
        if state.state != "excluded" or not chain.falls_back or not all(clean(one) for one in state.because):
            return last
    return last


def _built(chain: Chain, able: Mapping[str, PlanState]) -> str:
    """What comes of trying the links in order; `unknown` where more than one thing may."""
    outcomes: set[str] = set()
    for position, link in enumerate(chain.links):
        here = {outcome for name in link for outcome in _outcomes(able[name])}
        goes_on = chain.falls_back and position + 1 < len(chain.links) and "unfused" in here
        outcomes |= here - {"unfused"} if goes_on else here
        if not goes_on:
            break
    return outcomes.pop() if len(outcomes) == 1 else "unknown"


def _outcomes(state: PlanState) -> set[str]:
    """What may come of one plan: its worst certain consequence, every worse possible one, and nothing where the call may
    not take its form. Where the engine gives the plan up before it creates anything, that is all that comes of it."""
    settling = [one for one in state.because if one.settles]
    certainly = next((one for one in settling if one.truth is True), None)
    if certainly is not None:
        return {certainly.consequence or "unfused"}
    certain = max((SEVERITY[one.consequence or "unfused"] for one in state.because if one.truth is True), default=0)
    found = {next((name for name, weight in SEVERITY.items() if weight == certain), "fused")}
    for one in state.because:
        consequence = one.consequence or "unfused"
        if one.truth is None and (SEVERITY[consequence] > certain or one.id == "call"):
            found.add(consequence)
    found.update(one.consequence or "unfused" for one in settling)
    return {"fused" if name == "slower" else name for name in found}
