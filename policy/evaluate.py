"""Pack and launch to decisions: pure, no input or output, no clock.

Rules only narrow. A plan is admitted where no need is false and no excluding rule holds or could hold; the engine's
own outcome, what is possible, what is asked and what is wanted are kept apart, and the posture is a view of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from policy.conditions import Condition, Met, Truth, decisive
from policy.decision import Because, Decision, Finding, LaunchState, LeftAlone, Limit, PlanState, Reason, SwitchUse, Verdict
from policy.engine_outcome import EngineOutcome, outcome_of
from policy.launch import Facts, Launch
from policy.pack import REQUEST_PREFIX, SEVERITY, Fusion, Pack, Plan, Rule, Switch
from policy.values import ABSENT, Discrete, Ordered


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


class Evaluation:
    """One launch under one posture; answers of conditions are remembered."""

    def __init__(self, facts: Facts, posture: str) -> None:
        self.facts, self.pack, self.posture = facts, facts.pack, posture
        self._rules: dict[str, tuple[Truth, tuple[Met, ...]]] = {}
        self._stated = facts if facts.strict else Facts(facts.pack, facts.launch, True, facts.presuming)

    # --- conditions ---

    def ask(self, condition: Condition) -> tuple[Truth, tuple[Finding, ...]]:
        """A condition's answer with what decided it."""
        truth, mets = decisive(condition, self.facts)
        return truth, self.findings(mets)

    def findings(self, mets: Iterable[Met]) -> tuple[Finding, ...]:
        """What was met, in words, each once."""
        found: dict[Finding, None] = {}
        for met in mets:
            name = met.atom.fact
            found[Finding(name, met.text, self.facts.shown(name), met.truth, str(self.facts.get(name).origin), met.through)] = None
        return tuple(found)

    def rule(self, rule: Rule) -> tuple[Truth, tuple[Met, ...]]:
        """Whether a rule holds, remembered."""
        held = self._rules.get(rule.id)
        if held is None:
            held = self._rules[rule.id] = decisive(rule.when, self.facts)
        return held

    def because(self, rule: Rule) -> Because:
        """A rule as a reason."""
        truth, mets = self.rule(rule)
        return Because(rule.id, rule.effect, truth, rule.consequence, self.findings(mets), rule.title, rule.place, rule.evidence, rule.settles)

    # --- the launch as a whole ---

    def launch_state(self) -> LaunchState:
        """What the launch-level rules say."""
        held: list[Because] = []
        open_: list[Because] = []
        for rule in self.pack.launch_rules():
            truth, _ = self.rule(rule)
            if truth is not False:
                (held if truth else open_).append(self.because(rule))
        held.sort(key=lambda one: (one.effect != "refuse", one.id))
        open_.sort(key=lambda one: one.id)
        state = "refused" if any(one.effect == "refuse" for one in held) else "warn" if held else "ok"
        return LaunchState(state, tuple(held), tuple(open_))

    # --- plans ---

    def plan_state(self, plan: Plan, requires: Sequence[Because]) -> PlanState:
        """Whether a plan is admitted, and every reason why not, definite ones first."""
        call, findings = self.ask(plan.call)
        if call is False:
            return PlanState(plan, "excluded", (Because("call", "needs", True, "unfused", findings, "the builder's call does not take this form"),))
        reasons: list[Because] = [one for one in requires]
        if call is None:
            reasons.append(Because("call", "needs", None, "unfused", findings, "it is not known which form the builder's call takes"))
        for need in plan.needs:
            truth, findings = self.ask(need)
            if truth is not True:
                reasons.append(Because("needs", "needs", None if truth is None else True, "unfused", findings, "something the plan needs is missing" if truth is False else ""))
        reasons.extend(self._pinned_elsewhere(plan))
        for rule in self.pack.rules_for(plan):
            if rule.effect == "exclude":
                truth, _ = self.rule(rule)
                if truth is not False:
                    reasons.append(self.because(rule))
        if not any(one.truth is True for one in reasons):
            reasons.extend(self._empty_limit(plan))
        state = "excluded" if any(one.truth is True for one in reasons) else "undetermined" if reasons else "admitted"
        return PlanState(plan, state, tuple(sorted(reasons, key=_weight)))

    def _pinned_elsewhere(self, plan: Plan) -> Iterable[Because]:
        """The request for one plan, where it is or may be another one."""
        name = f"{REQUEST_PREFIX}{plan.fusion}_plan"
        pinned, this = self.facts.values(name), Discrete(frozenset((plan.id, plan.backend)), False, True)
        assert isinstance(pinned, Discrete)
        if not pinned.within(this):
            sure = pinned.outside(this)
            finding = Finding(name, plan.id, self.facts.shown(name), False if sure else None, str(self.facts.get(name).origin))
            title = f"the launch admits only the plan `{self.facts.shown(name)}`" if sure else "the launch may admit only another plan"
            yield Because("request", "exclude", True if sure else None, "unfused", (finding,), title)

    def limits(self, plan: Plan) -> dict[str, Limit]:
        """The plan's limits folded: `max_*` by minimum, `min_*` by maximum, sets by intersection; an unknown limit applies."""
        return {quantity: limit for quantity, limit in self._folded(plan, sure=False).items() if limit.value is not None}

    def _folded(self, plan: Plan, sure: bool) -> dict[str, Limit]:
        """The limits with everything unknown at its narrowest (None where that has no bound), or, with `sure`, only those
        that hold whatever is learnt."""
        folded: dict[str, Limit] = {}
        for rule_id, quantity, raw in self._bounds(plan, sure):
            known, value = self._limit_value(raw, quantity, sure)
            held = folded.get(quantity)
            if not known or (held is not None and held.value is None):
                continue
            if held is None or value is None:
                folded[quantity] = Limit(value, _unit(quantity), rule_id)
            elif isinstance(value, list):
                folded[quantity] = Limit([one for one in held.value if one in value], "", f"{held.id}, {rule_id}")
            elif (quantity.startswith("max_") and value < held.value) or (quantity.startswith("min_") and value > held.value):
                folded[quantity] = Limit(value, held.unit, rule_id)
        return folded

    def _bounds(self, plan: Plan, sure: bool) -> Iterable[tuple[str, str, Any]]:
        """Rule, quantity and bound of every limit of a plan; a bound that is a text names a fact."""
        yield "request", "max_bytes", f"{REQUEST_PREFIX}{plan.fusion}_max_bytes"
        for rule in sorted(self.pack.rules_for(plan), key=lambda one: one.id):
            truth = self.rule(rule)[0] if rule.effect == "limit" else False
            if truth is True or (truth is None and not sure):
                for quantity, raw in rule.limits.items():
                    yield rule.id, quantity, raw

    def _limit_value(self, raw: Any, quantity: str, sure: bool) -> tuple[bool, Any]:
        """Whether there is a bound at all, and the bound: the narrowest possible one, the widest where `sure`."""
        if not isinstance(raw, str):
            return True, raw
        values = self.facts.values(raw)
        assert isinstance(values, Ordered)
        if not values.intervals or (sure and values.absent):
            return False, None
        end = values.intervals[0].low if quantity.startswith("max_") is not sure else values.intervals[-1].high
        return not sure or end is not None, end

    def _empty_limit(self, plan: Plan) -> Iterable[Because]:
        """The limit that leaves no size, for sure or possibly."""
        for sure in (True, False):
            folded = self._folded(plan, sure)
            for quantity, limit in folded.items():
                least = folded.get("min_" + quantity[4:]) if quantity.startswith("max_") else None
                empty = limit.value is None or limit.value == [] or (quantity.startswith("max_") and limit.value <= 0)
                if empty or (least is not None and least.value is not None and least.value > limit.value):
                    yield self._limit_reason(plan, quantity, limit, True if sure else None)
                    return

    def _limit_reason(self, plan: Plan, quantity: str, limit: Limit, truth: Truth) -> Because:
        shown = "not known" if limit.value is None else ", ".join(limit.value) or "nothing" if isinstance(limit.value, list) else limit.value
        rule = self.pack.rules.get(limit.id)
        findings = list(self.because(rule).findings) if rule else []
        for raw in rule.limits.values() if rule else (f"{REQUEST_PREFIX}{plan.fusion}_max_bytes",):
            if isinstance(raw, str) and not self._settled(raw):
                findings.append(Finding(raw, quantity, self.facts.shown(raw), None, str(self.facts.get(raw).origin)))
        title = f"no size is left ({quantity} {shown})" if truth else f"it is not known whether a size is left ({quantity} {shown})"
        return Because(limit.id, "limit", truth, "unfused", tuple(findings), title, rule.place if rule else None)

    def _request(self, suffix: str) -> str | None:
        single = self.facts.values(REQUEST_PREFIX + suffix).single()
        return "absent" if single is ABSENT else single

    # --- the decision ---

    def decide(self, fusion: Fusion, before: dict[str, Decision]) -> Decision:
        """The decision about one fusion, given those it requires."""
        requires = [one for name in fusion.requires if name in before for one in _passed_on(before[name])]
        able = tuple(self.plan_state(plan, requires) for plan in fusion.plans)
        by_plan = {state.plan.id: state for state in able}
        asked = self._request(fusion.id)
        engine = outcome_of(self, fusion, able)
        wanted, wanted_findings = self.ask(fusion.wanted)
        builder = self.facts.values("runtime.builder").single() if self.pack.fact("runtime.builder") else "engine"
        choice = _Choice(self, fusion, able, engine, builder)
        decision = Decision(
            fusion.id,
            fusion.title,
            self.posture,
            "undetermined",
            Reason("unknown", "", ""),
            LeftAlone(engine.state, engine.built, engine.plan, engine.findings, engine.gate, engine.place, engine.notes),
            able,
            None if asked in (None, "absent") else asked,
            _absent_is_none(self._request(fusion.id + "_plan")),
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

    def _base(self, engine: EngineOutcome, asked: str | None, builder: object, wanted: Truth, choice: _Choice) -> Truth:
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

    def _settle(self, decision: Decision, base: Truth, asked: str | None, engine: EngineOutcome, choice: _Choice, wanted_findings: tuple[Finding, ...]) -> None:
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
                decision.notes = (*decision.notes, "this engine's release has no switch that turns it off",)
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
            if engine.state == "on" and engine.built not in ("unfused", "fused"):
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
        return tuple(self.because(rule) for rule in sorted(self.pack.rules_for(plan), key=lambda one: one.id) if rule.effect == "warn" and self.rule(rule)[0] is True)

    def _facts_of(self, decision: Decision, engine: EngineOutcome, choice: _Choice, wanted: tuple[Finding, ...]) -> None:
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
        unknown = {base for finding in open_ for base in self.facts.bases(finding.fact) if not self._settled(base)}
        request = REQUEST_PREFIX + decision.fusion
        always = {"engine.name", "engine.version", "runtime.builder", request, f"{request}_plan", f"{request}_max_bytes"}
        decision.support = {name: self.facts.shown(name) for name in sorted(support | (always & self.facts.launch.given.keys()))}
        decision.unknown_facts = tuple(sorted(unknown))
        decision.assuming = {name: self.facts.shown(name) for name in sorted(support) if self.facts.get(name).origin.kind == "assumed"}

    def _settled(self, name: str) -> bool:
        fact = self.pack.fact(name)
        return fact is not None and fact.known(self.facts.values(name))

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
        truth, mets = self.rule(rule)
        if truth is False and any(self.facts.get(met.atom.fact).origin.kind == "assumed" for met in mets):
            without, stated = decisive(rule.when, self._stated)
            return stated if without is False else mets
        return mets


class _Choice:
    """Which plans can be taken, and by which switches."""

    def __init__(self, evaluation: Evaluation, fusion: Fusion, able: tuple[PlanState, ...], engine: EngineOutcome, builder: object) -> None:
        self.evaluation, self.fusion, self.able, self.engine = evaluation, fusion, able, engine
        self.by_plan = {state.plan.id: state for state in able}
        self.adapter: Truth = None if builder is None else builder == "adapter"
        product = evaluation.facts.engine()
        versions = evaluation.facts.values("engine.version")
        rows = [] if product is None else [switch for switch in product.switches if switch.fusion == fusion.id]
        holding = [(switch, decisive(switch.when, evaluation.facts)[0]) for switch in rows]
        assert isinstance(versions, Ordered)
        self.sure = [switch for switch, truth in holding if truth is True and switch.covers(versions)]
        self.maybe = [switch for switch, truth in holding if truth is not False and switch.overlaps(versions)]
        self.known_engine = product is not None

    def _reached(self, switches: Iterable[Switch], plan: Plan) -> list[SwitchUse]:
        return [
            SwitchUse(switch.kind, switch.text, plan.id)
            for switch in switches
            if switch.turn == "plan" and switch.kind != "none" and switch.reaches is not None and switch.reaches.matches(plan)
        ]

    def candidates(self) -> list[PlanState]:
        """The plans that could be taken if what is unknown turned out well."""
        if self.adapter is not False or not self.known_engine or self.engine.chains is None:
            return list(self.able)
        possible = {name for chain in self.engine.chains for name in chain.possible(self.by_plan)}
        return [state for state in self.able if state.plan.id in possible or self._reached(self.maybe, state.plan)]

    def impossible(self) -> bool:
        """Whether no plan can be taken, whatever is learnt."""
        return all(state.state == "excluded" for state in self.candidates())

    def plan(self) -> tuple[Plan | None, tuple[SwitchUse, ...]]:
        """The plan to take and the switches that reach it, on what is known."""
        preferred = self.in_preference()
        if self.adapter is True:
            return next(((state.plan, ()) for state in preferred if state.state == "admitted"), (None, ()))
        if self.adapter is None:
            return None, ()
        own = self.engine.sure_plan(self.by_plan)
        if own is not None:
            return self.by_plan[own].plan, ()
        for state in preferred:
            switches = self._reached(self.sure, state.plan)
            if state.state == "admitted" and switches:
                return state.plan, tuple(switches)
        return None, ()

    def in_preference(self) -> list[PlanState]:
        """The plans with those first whose `when` holds, else in the order of the fusion."""
        return sorted(self.able, key=lambda state: 0 if decisive(state.plan.when, self.evaluation.facts)[0] is True else 1)

    def better(self, chosen: Plan) -> tuple[str, ...]:
        """Plans that would be taken instead of the chosen one if what hides them turned out well."""
        own = [name for chain in self.engine.chains or () for link in chain.links for name in link]
        if self.adapter is True:
            ahead = self.in_preference()
        elif chosen.id in own:
            ahead = [self.by_plan[name] for name in own]
        else:
            ahead = [self.by_plan[name] for name in own] + [state for state in self.in_preference() if self._reached(self.maybe, state.plan) or state.plan is chosen]
        before = list(dict.fromkeys(state.plan.id for state in ahead))
        before = before[: before.index(chosen.id)] if chosen.id in before else before
        return tuple(name for name in before if self.by_plan[name].state == "undetermined")

    def relevant(self) -> list[PlanState]:
        """The plans whose reasons matter to the answer."""
        return [state for state in self.candidates() if not (state.because and state.because[0].id == "call" and state.state == "excluded")]

    def missing_need(self) -> Reason | None:
        """The need that every plan lacks, where nothing stronger excludes them."""
        states = self.relevant() or self.candidates() or list(self.able)
        needs = [next((one for one in state.because if one.id == "needs" and one.truth is True), None) for state in states]
        if not needs or any(one is None for one in needs):
            return None
        first = needs[0]
        assert first is not None
        return Reason("needs", "needs", "something every plan needs is missing", None, first.findings, "")

    def reason(self) -> Reason:
        """The rule that excludes the engine's plan, or else the first plan that could have been taken."""
        tried = [self.engine.plan, *(name for chain in self.engine.chains or () for name in chain.possible(self.by_plan))]
        own = [self.by_plan[name] for name in tried if name in self.by_plan]
        states = [state for state in (*own, *self.relevant(), *self.able) if state.state == "excluded" and state.because]
        if not states:
            return Reason("unknown", "", "no plan can be taken")
        top = next((one for one in states[0].because if one.truth is True), states[0].because[0])
        kind = {"needs": "needs", "call": "needs", "request": "asked", "requires": "requires"}.get(top.id, "rule")
        if top.effect == "requires":
            kind = "requires"
        return Reason(kind, top.id, top.title, top.place, top.findings, top.evidence)

    def turn_on(self) -> tuple[SwitchUse, ...]:
        """The switches that turn the fusion on in every possible version."""
        return self._turn("on")

    def undecided(self) -> tuple[Finding, ...]:
        """What is asked by the switches that may exist."""
        return tuple(finding for switch in self.maybe if switch not in self.sure for finding in self.evaluation.ask(switch.when)[1])

    def may_turn_on(self) -> bool:
        """Whether a switch that turns the fusion on may exist."""
        return any(switch.turn == "on" and switch.kind != "none" for switch in self.maybe)

    def turn_off(self) -> tuple[SwitchUse, ...]:
        """The switches that turn the fusion off in every possible version."""
        return self._turn("off")

    def _turn(self, way: str) -> tuple[SwitchUse, ...]:
        return tuple(SwitchUse(switch.kind, switch.text, way) for switch in self.sure if switch.turn == way and switch.kind != "none")


def _weight(reason: Because) -> tuple[int, bool, int, str]:
    return (0 if reason.truth is True else 1, not reason.settles, -SEVERITY.get(reason.consequence or "", 0), reason.id)


def _unit(quantity: str) -> str:
    return quantity.rsplit("_", 1)[-1]


def _absent_is_none(value: str | None) -> str | None:
    return None if value == "absent" else value


def _passed_on(required: Decision) -> list[Because]:
    if required.state == "on":
        return []
    truth: Truth = True if required.state == "off" else None
    return [Because(required.fusion, "requires", truth, "unfused", required.reason.findings, f"it requires {required.fusion}, which is {required.state}: {required.reason.title}", required.reason.place)]


def _against(decision: Decision, engine: EngineOutcome) -> str:
    if decision.state == "undetermined" or engine.state == "unknown":
        return "unknown"
    runs = engine.state == "on"
    if decision.state == "on":
        return "wider" if not runs else "narrower" if decision.switches else "same"
    return "narrower" if runs else "same"


def _audit(decision: Decision, engine: EngineOutcome, choice: _Choice) -> str:
    """hazard: it runs and must not; missed: it does not run, could be turned on and is worth it; agreed; undetermined."""
    if engine.state == "unknown":
        return "undetermined"
    if engine.state == "on":
        return {"fused": "agreed", "unknown": "undetermined"}.get(engine.built, "hazard")
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

