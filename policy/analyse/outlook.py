"""Many launches that differ from one in a fact or two: their facts without resolving everything again, and a quick look
whether a fusion can be on at all. The look only says no for sure; the evaluation has the last word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from policy.analyse.relevant import inputs_of
from policy.conditions import Condition, Met, Truth
from policy.decision import Because, Finding
from policy.evaluate import Evaluation
from policy.facts import PACKAGE_PREFIX
from policy.launch import Facts, Launch
from policy.pack import REQUEST_PREFIX, Fusion, Pack, Plan, Rule, Take
from policy.values import ABSENT, Ordered, Values

ENGINE = ("engine.name", "engine.version")


class Fork(Facts):
    """The facts of a launch that differs from another in some facts; what does not rest on them is taken over."""

    def __init__(self, base: Facts, launch: Launch, dependents: frozenset[str]) -> None:
        super().__init__(base.pack, launch, base.strict, base.presuming)
        self._held = {name: given for name, given in base._held.items() if name not in dependents}


class Inheriting(Evaluation):
    """An evaluation of a box inside another one, which takes over the answers that rest on nothing narrowed."""

    def __init__(self, facts: Facts, posture: str, before: Inheriting | None = None, narrowed: frozenset[str] = frozenset()) -> None:
        super().__init__(facts, posture)
        self._answers: dict[int, tuple[Condition, Truth, tuple[Finding, ...]]] = {}
        self._spoken: dict[int, frozenset[str]] = {} if before is None else before._spoken
        if before is not None:
            self._answers = {key: held for key, held in before._answers.items() if narrowed.isdisjoint(self._spoken[key])}
            self._rules = {key: held for key, held in before._rules.items() if narrowed.isdisjoint(self.speaks_of(self.pack.rules[key].when))}

    def speaks_of(self, condition: Condition) -> frozenset[str]:
        """The facts that a condition asks for."""
        held = self._spoken.get(id(condition))
        if held is None:
            held = self._spoken[id(condition)] = frozenset(atom.fact for atom in condition.atoms())
        return held

    def _facts_of(self, *parts: Any) -> None:
        """A search needs neither the support nor the digest of a decision."""

    def ask(self, condition: Condition) -> tuple[Truth, tuple[Finding, ...]]:
        """A condition's answer with what decided it, remembered."""
        key = id(condition)
        held = self._answers.get(key)
        if held is None:
            truth, findings = super().ask(condition)
            held = self._answers[key] = (condition, truth, findings)
            self.speaks_of(condition)
        return held[1], held[2]


class Silent(Inheriting):
    """An evaluation whose decisions carry no findings: for the state, the plan and the reason's name alone."""

    def ask(self, condition: Condition) -> tuple[Truth, tuple[Finding, ...]]:
        """A condition's answer."""
        held = self._answers.get(id(condition))
        return (condition.truth(self.facts) if held is None else held[1]), ()

    def findings(self, mets: Iterable[Met]) -> tuple[Finding, ...]:
        """Nothing."""
        return ()

    def because(self, rule: Rule) -> Because:
        """A rule as a reason, without what it met."""
        return Because(rule.id, rule.effect, self.rule(rule), rule.consequence, (), rule.title, rule.place, rule.evidence, rule.settles)


class Outlook:
    """One launch and fusion, asked what changes of facts can bring."""

    def __init__(self, pack: Pack, launch: Launch, fusion: Fusion, posture: str, strict: bool) -> None:
        self.pack, self.launch, self.fusion, self.posture = pack, launch, fusion, posture
        self.request = REQUEST_PREFIX + fusion.id
        self.base = Facts(pack, launch, strict)
        self.evaluation = Inheriting(self.base, posture)
        self.plans = [(plan, tuple(rule for rule in pack.rules_for(plan) if rule.effect == "exclude")) for plan in fusion.plans]
        self.last_in_the_way: dict[str, Rule] = {}
        self._dependents: dict[str, frozenset[str]] = {}
        self._inputs: dict[str, tuple[str, ...]] = {}

    def fork(self, changes: Mapping[str, Values]) -> Fork:
        """The facts once these have changed."""
        dependents: frozenset[str] = frozenset().union(*(self.dependents(name) for name in changes))
        return Fork(self.base, self.launch.with_facts(self.pack, changes), dependents)

    def dependents(self, name: str) -> frozenset[str]:
        """The facts, known or not, whose values may rest on this one; itself among them."""
        held = self._dependents.get(name)
        if held is None:
            found = {name}
            grown = True
            while grown:
                more = {other for other in (*self.base._held, *self.pack.facts) if other not in found and not found.isdisjoint(self._inputs_of(other))}
                found |= more
                grown = bool(more)
            held = self._dependents[name] = frozenset(found)
        return held

    def _inputs_of(self, name: str) -> tuple[str, ...]:
        held = self._inputs.get(name)
        if held is None:
            held = inputs_of(self.pack, name, None)
            if name not in self.launch.given and name not in ENGINE:
                if name.startswith(PACKAGE_PREFIX) or any(name in product.defaults for product in self.pack.products.values()):
                    held = (*held, *ENGINE)
                fact = self.pack.fact(name)
                if self.base.presuming and fact is not None and fact.presume_when is not None:
                    held = (*held, *(atom.fact for atom in fact.presume_when.atoms()))
            self._inputs[name] = held
        return held

    def evaluate(self, facts: Fork, changed: Iterable[str], silent: bool = False) -> Inheriting:
        """An evaluation of a fork; a `silent` one tells the state and no findings."""
        narrowed: frozenset[str] = frozenset().union(*(self.dependents(name) for name in changed))
        return (Silent if silent else Inheriting)(facts, self.posture, self.evaluation, narrowed)

    def may_be_on(self, facts: Fork, changed: Iterable[str]) -> bool:
        """False where the fusion is not on, or not without a switch, for sure. `changed` are the facts that differ."""
        dependents: frozenset[str] = frozenset().union(*(self.dependents(name) for name in changed))
        answers = _Answers(self, facts, dependents)
        builder = facts.values("runtime.builder").single()
        if builder == "engine" and self.posture == "safe":
            return self._runs(facts, answers)
        if self.posture == "safe" and facts.values(self.request).single() != "on" and not self._runs(facts, None):
            return False
        return any(answers.admits(plan, rules) for plan, rules in self.plans)

    def _runs(self, facts: Facts, answers: _Answers | None) -> bool:
        """Whether the engine turns it on for sure, and ends at an admitted plan where `answers` are given."""
        engine = facts.engine()
        gate = engine.gates.get(self.fusion.id) if engine is not None else None
        if engine is None or gate is None:
            return False
        versions, asked = facts.values(engine.version_fact), facts.values(self.request)
        assert isinstance(versions, Ordered)
        for _, arm in gate.arms.met(versions):
            if arm is None or not arm.known or arm.dies.truth(facts) is not False:
                return False
            for value in asked.points() or ():
                condition: Condition = arm.unset if value is ABSENT else arm.requested_on if value == "on" else arm.requested_off
                if condition.truth(facts) is not True:
                    return False
            if answers is not None and not all(self._ends_well(take, answers) for take in arm.takes if take.when.truth(facts) is not False):
                return False
        return True

    def _ends_well(self, take: Take, answers: _Answers) -> bool:
        links = take.chain if take.falls_back else take.chain[:1]
        return any(link.matches(plan) and answers.admits(plan, rules) for link in links for plan, rules in self.plans)


class _Answers:
    """The rules' answers for one set of facts; those that rest on nothing that changed are taken over."""

    def __init__(self, outlook: Outlook, facts: Facts, dependents: frozenset[str]) -> None:
        self.outlook, self.facts, self.dependents = outlook, facts, dependents
        self._rules: dict[str, Truth] = {}
        self._plans: dict[str, bool] = {}

    def admits(self, plan: Plan, rules: tuple[Rule, ...]) -> bool:
        held = self._plans.get(plan.id)
        if held is None:
            held = self._plans[plan.id] = self._admits(plan, rules)
        return held

    def _admits(self, plan: Plan, rules: tuple[Rule, ...]) -> bool:
        if plan.call.truth(self.facts) is not True:
            return False
        last = self.outlook.last_in_the_way.get(plan.id)
        if last is not None and self._rule(last) is not False:
            return False
        for rule in rules:
            if self._rule(rule) is not False:
                self.outlook.last_in_the_way[plan.id] = rule
                return False
        return all(need.truth(self.facts) is True for need in plan.needs)

    def _rule(self, rule: Rule) -> Truth:
        if rule.id not in self._rules:
            base = self.outlook.evaluation
            touched = not self.dependents.isdisjoint(base.speaks_of(rule.when))
            self._rules[rule.id] = rule.when.truth(self.facts) if touched else base.rule(rule)
        return self._rules[rule.id]
