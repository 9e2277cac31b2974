"""Pack and launch to decisions: pure, no input or output, no clock.

Rules only narrow. A plan is admitted where no need is false and no excluding rule holds or could hold; the engine's
own outcome, what is possible, what is asked and what is wanted are kept apart, and the posture is a view of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence

from policy.choice import Choice
from policy.conditions import Met, Truth, decisive
from policy.decision import Because, Decision, Finding, LeftAlone, Reason, Verdict
from policy.engine_outcome import EngineOutcome, outcome_of
from policy.launch import Facts, Launch
from policy.pack import REQUEST_PREFIX, Fusion, Pack, Plan, Rule
from policy.plan_states import PlanStates


def evaluate(pack: Pack, launch: Launch, posture: str = "safe", fusions: Sequence[str] | None = None, strict: bool = False) -> Verdict:
    """Every decision about one launch (only `fusions`, with what they require, where given)."""
    wanted = None if fusions is None else _with_required(pack, fusions)
    facts = Facts(pack, launch, strict)
    evaluation = Evaluation(facts, posture)
    decisions: dict[str, Decision] = {}
    for fusion in pack.in_order():
        if wanted is None or fusion.id in wanted:
            decisions[fusion.id] = evaluation.decide(fusion, decisions)
    if posture == "fast":
        presuming = Evaluation(Facts(pack, launch, strict, presuming=True), posture)
        again: dict[str, Decision] = {}
        for name, decision in decisions.items():
            provisional = presuming.decide(pack.fusions[name], again)
            again[name] = provisional if decision.state != "on" and provisional.state == "on" else decision
        decisions = again
    shown = tuple(decision for name, decision in decisions.items() if fusions is None or name in fusions)
    return Verdict(posture, evaluation.launch_state(), shown, pack.digest)


def _with_required(pack: Pack, fusions: Iterable[str]) -> set[str]:
    found: set[str] = set()
    waiting = list(fusions)
    while waiting:
        name = waiting.pop()
        if name not in found and name in pack.fusions:
            found.add(name)
            waiting.extend(pack.fusions[name].requires)
    return found


class Evaluation(PlanStates):
    """One launch under one posture, with the decisions about it."""

    def decide(self, fusion: Fusion, before: dict[str, Decision]) -> Decision:
        """The decision about one fusion, given those it requires."""
        requires = [one for name in fusion.requires if name in before for one in _passed_on(before[name])]
        able = tuple(self.plan_state(plan, requires) for plan in fusion.plans)
        by_plan = {state.plan.id: state for state in able}
        asked = self.request(fusion.id)
        engine = outcome_of(self, fusion, able)
        wanted, wanted_findings = self.ask(fusion.wanted)
        builder = self.facts.values("runtime.builder").single() if self.pack.fact("runtime.builder") else "engine"
        choice = Choice(self, fusion, able, engine, builder)
        decision = Decision(
            fusion.id,
            fusion.title,
            self.posture,
            "undetermined",
            Reason("unknown", "", ""),
            LeftAlone(engine.state, engine.built, engine.plan, engine.findings, engine.gate, engine.place, engine.notes),
            able,
            None if asked in (None, "absent") else asked,
            _absent_is_none(self.request(fusion.id + "_plan")),
            wanted,
        )
        base = self._base(engine, asked, builder, wanted, choice)
        if base is True and asked is None and "off" in self.facts.values(REQUEST_PREFIX + fusion.id):
            base = None
        self._settle(decision, base, asked, engine, choice, wanted_findings)
        chosen = decision.chosen
        if chosen is not None:
            decision.limits = self.limits(chosen)
            decision.final = not decision.better
        decision.conflict = asked == "on" and decision.state == "off"
        watched = chosen or next((by_plan[name].plan for name in [engine.plan] if name in by_plan), None)
        decision.warnings = self._warnings(watched)
        decision.against_engine = _against(decision, engine)
        decision.audit = _audit(decision, engine, choice)
        self._facts_of(decision, engine, choice, wanted_findings if self.posture == "fast" else ())
        if self.facts.presuming:
            presumed = self.facts.presumed()
            decision.provisional = tuple(name for name in presumed if name in decision.support) or presumed
        decision.digest = _digest(decision, self.pack.digest)
        return decision

    def _base(self, engine: EngineOutcome, asked: str | None, builder: object, wanted: Truth, choice: Choice) -> Truth:
        """Whether the posture wants the fusion on, able or not."""
        if asked == "off" or engine.state == "dies":
            return False
        if self.posture == "fast":
            if wanted is False:
                return False
            if engine.state == "on" or (builder == "adapter" and not engine.may_die):
                return wanted
            if engine.state == "unknown" or builder is None:
                return None
            return wanted if choice.turn_on() else None if choice.may_turn_on() else False
        if engine.state == "on":
            return True
        if asked == "on" and builder == "adapter" and not engine.may_die:
            return True
        if asked is None or engine.state == "unknown" or (asked == "on" and builder is None):
            return None
        return False

    def _settle(self, decision: Decision, base: Truth, asked: str | None, engine: EngineOutcome, choice: Choice, wanted_findings: tuple[Finding, ...]) -> None:
        """State, reason, plan and switches."""
        if self.posture == "audit":
            decision.state = {"on": "on", "off": "off", "dies": "off"}.get(engine.state, "undetermined")
            decision.reason = Reason("gate" if engine.gate else "unknown", engine.gate, engine.title, engine.place, engine.findings)
            decision.chosen, _ = choice.plan()
            decision.better = ()
            if engine.state == "on" and engine.built not in ("fused", "unknown"):
                decision.reason = choice.reason()
            return
        if asked == "off":
            decision.state = "off"
            decision.reason = Reason("asked", "", "the launch asks for it off", None, self._asked_finding(decision.fusion))
            if engine.state == "on":
                # what was asked is not how this release is told
                decision.switches = choice.turn_off()
                if not decision.switches:
                    decision.notes = (*decision.notes, "this engine's release has no switch that turns it off")
            return
        if choice.impossible():
            needs = choice.missing_need()
            decision.state = "off"
            if needs is not None and (base is not False or engine.state in ("off", "unknown")):
                decision.reason = needs
            elif base is False and engine.state in ("off", "dies"):
                decision.reason = self._gate_reason(engine)
            else:
                decision.reason = choice.reason()
            if engine.state == "on" and engine.built != "unfused":
                # what comes out unfused by itself needs no words: they would only repeat it
                decision.switches = choice.turn_off()
            return
        if base is False:
            decision.state = "off"
            unwanted = self.posture == "fast" and decision.wanted is False
            decision.reason = Reason("unwanted", "", "it is not worth having for this launch", None, wanted_findings) if unwanted else self._gate_reason(engine)
            return
        plan, switches = choice.plan()
        if base is None or plan is None:
            title = engine.title if base is None and engine.state == "unknown" and engine.gate else "facts that decide it are not known"
            decision.reason = Reason("unknown", "", title)
            return
        decision.state, decision.chosen = "on", plan
        decision.better = choice.better(plan)
        decision.switches = switches if engine.state == "on" or self.posture != "fast" else (*choice.turn_on(), *switches)
        decision.reason = Reason("on", engine.gate, engine.title if engine.state == "on" else "it can be built safely", engine.place, engine.findings)

    def _gate_reason(self, engine: EngineOutcome) -> Reason:
        return Reason("gate", engine.gate, engine.title, engine.place, engine.findings)

    def _asked_finding(self, fusion: str) -> tuple[Finding, ...]:
        name = REQUEST_PREFIX + fusion
        return (Finding(name, "off", self.facts.shown(name), True, str(self.facts.get(name).origin)),)

    def _warnings(self, plan: Plan | None) -> tuple[Because, ...]:
        if plan is None:
            return ()
        return tuple(
            self.because(rule) for rule in sorted(self.pack.rules_for(plan), key=lambda one: one.id) if rule.effect == "warn" and self.rule(rule) is True
        )

    def _facts_of(self, decision: Decision, engine: EngineOutcome, choice: Choice, wanted: tuple[Finding, ...]) -> None:
        """The support, the unknown facts and the assumptions of a decision."""
        findings = [*engine.findings, *decision.reason.findings, *wanted]
        open_: list[Finding] = [finding for finding in engine.findings if finding.truth is None and engine.state == "unknown"]
        for state in choice.relevant():
            for one in state.because:
                findings.extend(one.findings)
                if one.truth is None and (decision.state == "undetermined" or state.plan.id in decision.better):
                    open_.extend(finding for finding in one.findings if finding.truth is None)
        if decision.chosen is not None:
            findings.extend(self._admission(decision.chosen))
            if self.pack.fact("runtime.builder"):
                # which plans are on the menu depends on who builds
                findings.append(Finding("runtime.builder", "", "", True, ""))
        if decision.state == "undetermined" and engine.state == "unknown" and not engine.gate:
            open_.append(Finding("engine.name", "", "", None, ""))
            open_.append(Finding("engine.version", "", "", None, ""))
        if decision.state == "undetermined":
            open_.extend(Finding(name, "", "", None, "") for name in (REQUEST_PREFIX + decision.fusion, "runtime.builder") if self.pack.fact(name))
            open_.extend(finding for finding in (*wanted, *choice.undecided()) if finding.truth is None)
        support = {base for finding in findings for base in self.facts.bases(finding.fact)}
        unknown = {base for finding in open_ for base in self.facts.bases(finding.fact) if not self.settled(base)}
        request = REQUEST_PREFIX + decision.fusion
        always = {"engine.name", "engine.version", "runtime.builder", request, f"{request}_plan", f"{request}_max_bytes"}
        decision.support = {name: self.facts.shown(name) for name in sorted(support | (always & self.facts.launch.given.keys()))}
        decision.unknown_facts = tuple(sorted(unknown))
        decision.assuming = {name: self.facts.shown(name) for name in sorted(support) if self.facts.get(name).origin.kind == "assumed"}

    def _admission(self, plan: Plan) -> list[Finding]:
        """Why a plan is admitted: its needs, and what makes each rule about it false."""
        mets = [*decisive(plan.call, self.facts)[1]]
        for need in plan.needs:
            mets.extend(decisive(need, self.facts)[1])
        for rule in self.pack.rules_for(plan):
            mets.extend(self._settling(rule))
        return list(self.findings(mets))

    def _settling(self, rule: Rule) -> tuple[Met, ...]:
        """What decided a rule; for one that does not hold, without the assumptions it does not need."""
        truth, mets = decisive(rule.when, self.facts)
        if truth is False and any(self.facts.get(met.atom.fact).origin.kind == "assumed" for met in mets):
            without, stated = decisive(rule.when, self._stated)
            return stated if without is False else mets
        return mets


def _absent_is_none(value: str | None) -> str | None:
    return None if value == "absent" else value


def _passed_on(required: Decision) -> list[Because]:
    if required.state == "on":
        return []
    truth: Truth = True if required.state == "off" else None
    return [
        Because(
            required.fusion,
            "requires",
            truth,
            "unfused",
            required.reason.findings,
            f"it requires {required.fusion}, which is {required.state}: {required.reason.title}",
            required.reason.place,
        )
    ]


def _against(decision: Decision, engine: EngineOutcome) -> str:
    if decision.state == "undetermined" or engine.state == "unknown":
        return "unknown"
    runs = engine.state == "on"
    if decision.state == "on":
        return "wider" if not runs else "narrower" if decision.switches else "same"
    return "narrower" if runs else "same"


def _audit(decision: Decision, engine: EngineOutcome, choice: Choice) -> str:
    """hazard: it runs and must not; missed: it does not run, could be turned on and is worth it; agreed; undetermined."""
    if engine.state == "unknown":
        return "undetermined"
    if engine.state == "on":
        given_up = any(one.settles and one.truth is True for state in decision.able if state.plan.id == engine.plan for one in state.because)
        # an engine that gives up before it creates anything, in eager mode say, runs as it was told
        return "agreed" if given_up and engine.built == "unfused" else {"fused": "agreed", "unknown": "undetermined"}.get(engine.built, "hazard")
    reachable = choice.adapter is True or bool(choice.turn_on())
    if decision.wanted is False or decision.asked == "off" or not reachable:
        return "agreed"
    if choice.plan()[0] is not None:
        return "missed" if decision.wanted is True else "undetermined"
    return "agreed" if choice.impossible() else "undetermined"


def _digest(decision: Decision, pack: str) -> str:
    record = {
        "pack": pack,
        "posture": decision.posture,
        "fusion": decision.fusion,
        "support": decision.support,
        "state": decision.state,
        "plan": decision.chosen.id if decision.chosen else None,
        "reason": decision.reason.id,
        "limits": {name: limit.value for name, limit in decision.limits.items()},
    }
    return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
