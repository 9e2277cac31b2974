"""What can be asked about one launch: conditions, rules, the launch as a whole, and the state and limits of every plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from policy.conditions import Condition, Met, Truth, decisive
from policy.decision import Because, Finding, LaunchState, Limit, PlanState
from policy.launch import Facts
from policy.pack import REQUEST_PREFIX, SEVERITY, Plan, Rule
from policy.values import ABSENT, Discrete, Ordered


class PlanStates:
    """One launch under one posture; answers of conditions are remembered."""

    def __init__(self, facts: Facts, posture: str) -> None:
        self.facts, self.pack, self.posture = facts, facts.pack, posture
        self._rules: dict[str, Truth] = {}
        self._stated = facts if facts.strict else Facts(facts.pack, facts.launch, True, facts.presuming)

    # --- conditions ---

    def ask(self, condition: Condition) -> tuple[Truth, tuple[Finding, ...]]:
        """A condition's answer with what decided it."""
        truth, mets = decisive(condition, self.facts)
        return truth, self.findings(mets)

    def truth(self, condition: Condition) -> Truth:
        """A condition's answer alone."""
        return condition.truth(self.facts)

    def findings(self, mets: Iterable[Met]) -> tuple[Finding, ...]:
        """What was met, in words, each once."""
        found: dict[Finding, None] = {}
        for met in mets:
            name = met.atom.fact
            found[Finding(name, met.text, self.facts.shown(name), met.truth, str(self.facts.get(name).origin), met.through)] = None
        return tuple(found)

    def rule(self, rule: Rule) -> Truth:
        """Whether a rule holds, remembered."""
        if rule.id not in self._rules:
            self._rules[rule.id] = rule.when.truth(self.facts)
        return self._rules[rule.id]

    def because(self, rule: Rule) -> Because:
        """A rule as a reason."""
        truth, mets = decisive(rule.when, self.facts)
        return Because(rule.id, rule.effect, truth, rule.consequence, self.findings(mets), rule.title, rule.place, rule.evidence, rule.settles)

    # --- the launch as a whole ---

    def launch_state(self) -> LaunchState:
        """What the launch-level rules say."""
        held: list[Because] = []
        open_: list[Because] = []
        for rule in self.pack.launch_rules():
            truth = self.rule(rule)
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
        reasons = list(requires)
        if call is None:
            reasons.append(Because("call", "needs", None, "unfused", findings, "it is not known which form the builder's call takes"))
        for need in plan.needs:
            truth, findings = self.ask(need)
            if truth is not True:
                reasons.append(
                    Because(
                        "needs", "needs", None if truth is None else True, "unfused", findings, "something the plan needs is missing" if truth is False else ""
                    )
                )
        reasons.extend(self._pinned_elsewhere(plan))
        for rule in self.pack.rules_for(plan):
            if rule.effect == "exclude":
                truth = self.rule(rule)
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
            truth = self.rule(rule) if rule.effect == "limit" else False
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
            if isinstance(raw, str) and not self.settled(raw):
                findings.append(Finding(raw, quantity, self.facts.shown(raw), None, str(self.facts.get(raw).origin)))
        title = f"no size is left ({quantity} {shown})" if truth else f"it is not known whether a size is left ({quantity} {shown})"
        return Because(limit.id, "limit", truth, "unfused", tuple(findings), title, rule.place if rule else None)

    def request(self, suffix: str) -> str | None:
        """What is requested: a value, `absent`, or None where it is not known."""
        single = self.facts.values(REQUEST_PREFIX + suffix).single()
        return "absent" if single is ABSENT else single

    def settled(self, name: str) -> bool:
        """Whether a fact has exactly one value."""
        fact = self.pack.fact(name)
        return fact is not None and fact.known(self.facts.values(name))


def _weight(reason: Because) -> tuple[int, bool, int, str]:
    return (0 if reason.truth is True else 1, not reason.settles, -SEVERITY.get(reason.consequence or "", 0), reason.id)


def _unit(quantity: str) -> str:
    return quantity.rsplit("_", 1)[-1]
