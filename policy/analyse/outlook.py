"""Many launches that differ from one in a fact or two: their facts without resolving everything again, and a quick look
whether a fusion can be on at all. The look only says no for sure; the evaluation has the last word."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any

from policy.analyse.relevant import inputs_of, request_names, required
from policy.conditions import Condition, Met, Truth
from policy.decision import Because, Finding
from policy.evaluate import Evaluation
from policy.facts import PACKAGE_PREFIX, Fact
from policy.launch import Facts, Given, Launch
from policy.pack import REQUEST_PREFIX, Fusion, Pack, Plan, Rule, Take
from policy.values import ABSENT, Ordered, Values

ENGINE = ("engine.name", "engine.version")


class Fork(Facts):
    """The facts of a launch that differs from another in some facts; what does not rest on them is taken over."""

    def __init__(self, base: Facts, launch: Launch, dependents: frozenset[str]) -> None:
        super().__init__(base.pack, launch, base.strict, base.presuming)
        self._base, self._dependents = base, dependents

    def _resolve(self, fact: Fact) -> Given:
        return super()._resolve(fact) if fact.name in self._dependents else self._base.get(fact.name)


class Inheriting(Evaluation):
    """An evaluation of a box inside another one, which takes over the answers that rest on nothing narrowed."""

    def __init__(self, facts: Facts, posture: str, before: Inheriting | None = None, narrowed: frozenset[str] = frozenset()) -> None:
        super().__init__(facts, posture)
        self._before, self.narrowed = before, narrowed
        self._answers: dict[int, tuple[Condition, Truth, tuple[Finding, ...]]] = {}
        self._truths: dict[int, tuple[Condition, Truth]] = {}
        self._spoken: dict[int, tuple[Condition, frozenset[str]]] = {} if before is None else before._spoken

    def speaks_of(self, condition: Condition) -> frozenset[str]:
        """The facts that a condition asks for."""
        held = self._spoken.get(id(condition))
        if held is None:
            # the condition is kept with its facts, so that its identity stays its own
            held = self._spoken[id(condition)] = (condition, frozenset(atom.fact for atom in condition.atoms()))
        return held[1]

    def _facts_of(self, *parts: Any) -> None:
        """A search needs neither the support nor the digest of a decision."""

    def ask(self, condition: Condition) -> tuple[Truth, tuple[Finding, ...]]:
        """A condition's answer with what decided it, remembered."""
        key = id(condition)
        held = self._answers.get(key)
        if held is None:
            if self._before is not None and self.narrowed.isdisjoint(self.speaks_of(condition)):
                truth, findings = self._before.ask(condition)
            else:
                truth, findings = super().ask(condition)
            held = self._answers[key] = (condition, truth, findings)
        return held[1], held[2]

    def truth(self, condition: Condition) -> Truth:
        """A condition's answer alone, remembered."""
        key = id(condition)
        held = self._truths.get(key) or self._answers.get(key)
        if held is None:
            held = self._truths[key] = (condition, self._truth(condition))
        return held[1]

    def _truth(self, condition: Condition) -> Truth:
        if self._before is not None and self.narrowed.isdisjoint(self.speaks_of(condition)):
            return self._before.truth(condition)
        return condition.truth(self.facts)

    def rule(self, rule: Rule) -> Truth:
        """Whether a rule holds, remembered."""
        held = self._rules.get(rule.id, self)
        if held is self:
            held = self._rules[rule.id] = self.truth(rule.when)
        return held  # type: ignore[return-value]


class Silent(Inheriting):
    """An evaluation whose decisions carry no findings: for the state, the plan and the reason's name alone. `beside` is
    one of another launch that differs in the same facts: what rests on facts that came out alike is taken from it."""

    def __init__(
        self, facts: Facts, posture: str, before: Inheriting | None = None, narrowed: frozenset[str] = frozenset(), beside: Silent | None = None
    ) -> None:
        super().__init__(facts, posture, before, narrowed)
        self.beside = beside
        self._alike: dict[str, bool] = {}
        self._by_fact: dict[str, list[tuple[Condition, Truth]]] = {}

    def ask(self, condition: Condition) -> tuple[Truth, tuple[Finding, ...]]:
        """A condition's answer."""
        return self.truth(condition), ()

    def _truth(self, condition: Condition) -> Truth:
        held = None if self.beside is None else self.beside._truths.get(id(condition))
        if held is not None and all(self._is_alike(name) for name in self.speaks_of(condition) & self.narrowed):
            return held[1]
        return super()._truth(condition)

    def _is_alike(self, name: str) -> bool:
        """Whether the neighbour has the same values of a fact."""
        alike = self._alike.get(name)
        if alike is None:
            assert self.beside is not None
            alike = self._alike[name] = self.facts.values(name) == self.beside.facts.values(name)
        return alike

    def answers_like(self, reference: Silent, names: Iterable[str], nearby: Facts) -> bool:
        """Whether every condition that was asked of `reference` has the same answer here, where only what rests on `names`
        can have changed since `nearby`, in which they have the answers of `reference`."""
        asked = reference.asked_by_fact()
        for name in names:
            conditions = asked.get(name)
            if conditions and self.facts.values(name) != nearby.values(name) and any(self.truth(one) is not answer for one, answer in conditions):
                return False
        return True

    def asked_by_fact(self) -> dict[str, list[tuple[Condition, Truth]]]:
        """Fact -> the conditions on it that were asked, with their answers."""
        if not self._by_fact:
            for condition, answer in self._truths.values():
                for name in self.speaks_of(condition):
                    self._by_fact.setdefault(name, []).append((condition, answer))
        return self._by_fact

    def findings(self, mets: Iterable[Met]) -> tuple[Finding, ...]:
        """Nothing."""
        return ()

    def because(self, rule: Rule) -> Because:
        """A rule as a reason, without what it met."""
        return Because(rule.id, rule.effect, self.rule(rule), rule.consequence, (), rule.title, rule.place, rule.evidence, rule.settles)

    def _warnings(self, plan: Plan | None) -> tuple[Because, ...]:
        """Nobody reads them."""
        return ()


class Footing:
    """What a decision about a fusion takes from the facts without a condition: arms of gates, switches, requests, limits."""

    def __init__(self, pack: Pack, fusion: Fusion) -> None:
        self.pack, self.needed = pack, required(pack, fusion)
        self.plainly = tuple(dict.fromkeys(self._asked_plainly()))
        self.names = frozenset((*ENGINE, *self.plainly))

    def _asked_plainly(self) -> Iterator[str]:
        """The facts that a decision takes the values of."""
        yield from ("runtime.builder",) if self.pack.fact("runtime.builder") else ()
        for fusion in self.needed:
            yield from (name for name in request_names(fusion.id) if self.pack.fact(name))
            for rule in {rule.id: rule for plan in fusion.plans for rule in self.pack.rules_for(plan)}.values():
                yield from (bound for bound in rule.limits.values() if isinstance(bound, str))

    def of(self, facts: Facts) -> tuple[object, ...]:
        """It for one launch, to be compared."""
        engine = facts.engine()
        found: list[object] = [facts.values(name) for name in self.plainly]
        if engine is not None:
            versions = facts.values(engine.version_fact)
            assert isinstance(versions, Ordered)
            for fusion in self.needed:
                gate = engine.gates.get(fusion.id)
                found.extend(id(arm) for _, arm in (gate.arms.met(versions) if gate is not None else ()))
                found.extend((one.covers(versions), one.overlaps(versions)) for one in engine.switches if one.fusion == fusion.id)
        return (engine and engine.name, facts.values(ENGINE[0]), *found)


class Dependents:
    """Which facts' values may rest on others, in any launch of a pack, or in those that state these facts."""

    def __init__(self, pack: Pack, given: Container[str] = (), presuming: bool = False) -> None:
        self.pack, self.given, self.presuming = pack, given, presuming
        self._with_defaults = {name for product in pack.products.values() for name in product.defaults}
        self._held: dict[str, frozenset[str]] = {}
        self._users: dict[str, set[str]] = {}
        self._seen = 0

    def of(self, names: Iterable[str]) -> frozenset[str]:
        """The facts, known or not, whose values may rest on one of these; themselves among them."""
        found = [self._of(name) for name in names]
        return found[0] if len(found) == 1 else frozenset().union(*found)

    def _of(self, name: str) -> frozenset[str]:
        if len(self.pack.facts) != self._seen:  # a package was asked for that no rule names
            self._seen = len(self.pack.facts)
            self._users, self._held = self._used_by(), {}
        held = self._held.get(name)
        if held is None:
            found, waiting = {name}, [name]
            while waiting:
                more = self._users.get(waiting.pop(), set()) - found
                found |= more
                waiting.extend(more)
            held = self._held[name] = frozenset(found)
        return held

    def _used_by(self) -> dict[str, set[str]]:
        """Fact -> the facts that rest on it, one step."""
        users: dict[str, set[str]] = {}
        for other in self.pack.facts:
            for one in self._inputs_of(other):
                users.setdefault(one, set()).add(other)
        return users

    def _inputs_of(self, name: str) -> tuple[str, ...]:
        held = inputs_of(self.pack, name, None)
        if name == ENGINE[1]:
            held = (*held, ENGINE[0])  # whose releases a development build lies between
        elif name not in self.given and name != ENGINE[0]:
            if name.startswith(PACKAGE_PREFIX) or name in self._with_defaults:
                held = (*held, *ENGINE)
            fact = self.pack.fact(name)
            if self.presuming and fact is not None and fact.presume_when is not None:
                held = (*held, *(atom.fact for atom in fact.presume_when.atoms()))
        return held


class Outlook:
    """One launch and fusion, asked what changes of facts can bring."""

    def __init__(self, pack: Pack, launch: Launch, fusion: Fusion, posture: str, strict: bool) -> None:
        self.pack, self.launch, self.fusion, self.posture = pack, launch, fusion, posture
        self.request = REQUEST_PREFIX + fusion.id
        self.base = Facts(pack, launch, strict)
        self.evaluation = Inheriting(self.base, posture)
        self.plans = [(plan, tuple(rule for rule in pack.rules_for(plan) if rule.effect == "exclude")) for plan in fusion.plans]
        self.last_in_the_way: dict[str, Rule] = {}
        self.dependents = Dependents(pack, launch.given, self.base.presuming)
        self.footing = Footing(pack, fusion)
        self._latest: Silent | None = None
        self._decided_on: tuple[object, ...] = ()
        self._answer = False

    def fork(self, changes: Mapping[str, Values]) -> Fork:
        """The facts once these have changed."""
        return Fork(self.base, self.launch.with_facts(self.pack, changes), self.dependents.of(changes))

    def evaluate(self, facts: Fork, changed: Iterable[str]) -> Inheriting:
        """An evaluation of a fork, with findings."""
        return Inheriting(facts, self.posture, self.evaluation, self.dependents.of(changed))

    def silently(self, facts: Fork, changed: Iterable[str]) -> Silent:
        """An evaluation of a fork that tells the state and no findings."""
        touched = self.dependents.of(changed)
        beside = self._latest if self._latest is not None and self._latest.narrowed == touched else None
        return Silent(facts, self.posture, self.evaluation, touched, beside)

    def decided(self, evaluation: Silent, decide: Callable[[Silent], bool]) -> bool:
        """What `decide` finds, which is taken over from the launch decided last where everything that a decision rests on
        is the same in both."""
        footing, beside = self.footing.of(evaluation.facts), evaluation.beside
        if beside is None or footing != self._decided_on or not evaluation.answers_like(beside, evaluation.narrowed, beside.facts):
            self._answer, self._latest, self._decided_on = decide(evaluation), evaluation, footing
        return self._answer

    def may_be_on(self, evaluation: Silent) -> bool:
        """False where the fusion is not on, or not without a switch, for sure."""
        facts, admitted = evaluation.facts, dict[str, bool]()
        builder = facts.values("runtime.builder").single()
        if builder == "engine" and self.posture == "safe":
            return self._runs(evaluation, admitted)
        if self.posture == "safe" and facts.values(self.request).single() != "on" and not self._runs(evaluation, None):
            return False
        return any(self._admits(evaluation, plan, rules) for plan, rules in self.plans)

    def _runs(self, evaluation: Silent, admitted: dict[str, bool] | None) -> bool:
        """Whether the engine turns it on for sure, and ends at an admitted plan where `admitted` (known plans) is given."""
        facts = evaluation.facts
        engine = facts.engine()
        gate = engine.gates.get(self.fusion.id) if engine is not None else None
        if engine is None or gate is None:
            return False
        versions, asked = facts.values(engine.version_fact), facts.values(self.request)
        assert isinstance(versions, Ordered)
        for _, arm in gate.arms.met(versions):
            if arm is None or not arm.known or evaluation.truth(arm.dies) is not False:
                return False
            for value in asked.points() or ():
                condition: Condition = arm.unset if value is ABSENT else arm.requested_on if value == "on" else arm.requested_off
                if evaluation.truth(condition) is not True:
                    return False
            if admitted is not None and not all(self._ends_well(evaluation, take, admitted) for take in arm.takes if evaluation.truth(take.when) is not False):
                return False
        return True

    def _ends_well(self, evaluation: Silent, take: Take, admitted: dict[str, bool]) -> bool:
        for link in take.chain if take.falls_back else take.chain[:1]:
            for plan, rules in self.plans:
                if link.matches(plan):
                    if plan.id not in admitted:
                        admitted[plan.id] = self._admits(evaluation, plan, rules)
                    if admitted[plan.id]:
                        return True
        return False

    def _admits(self, evaluation: Silent, plan: Plan, rules: tuple[Rule, ...]) -> bool:
        if evaluation.truth(plan.call) is not True:
            return False
        last = self.last_in_the_way.get(plan.id)
        if last is not None and evaluation.rule(last) is not False:
            return False
        for rule in rules:
            if evaluation.rule(rule) is not False:
                self.last_in_the_way[plan.id] = rule
                return False
        return all(evaluation.truth(need) is True for need in plan.needs)
