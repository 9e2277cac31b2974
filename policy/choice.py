"""Which plans can be taken for one fusion, and by which switches."""

from __future__ import annotations

from collections.abc import Iterable

from policy.conditions import Truth
from policy.decision import Finding, PlanState, Reason, SwitchUse
from policy.engine_outcome import EngineOutcome
from policy.pack import Fusion, Plan, Switch
from policy.plan_states import PlanStates
from policy.values import Ordered


class Choice:
    """Which plans can be taken, and by which switches."""

    def __init__(self, evaluation: PlanStates, fusion: Fusion, able: tuple[PlanState, ...], engine: EngineOutcome, builder: object) -> None:
        self.evaluation, self.fusion, self.able, self.engine = evaluation, fusion, able, engine
        self.by_plan = {state.plan.id: state for state in able}
        self.adapter: Truth = None if builder is None else builder == "adapter"
        product = evaluation.facts.engine()
        versions = evaluation.facts.values("engine.version")
        rows = [] if product is None else [switch for switch in product.switches if switch.fusion == fusion.id]
        holding = [(switch, evaluation.truth(switch.when)) for switch in rows]
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
        return sorted(self.able, key=lambda state: 0 if self.evaluation.truth(state.plan.when) is True else 1)

    def better(self, chosen: Plan) -> tuple[str, ...]:
        """Plans that would be taken instead of the chosen one if what hides them turned out well."""
        own = [name for chain in self.engine.chains or () for link in chain.links for name in link]
        if self.adapter is True:
            ahead = self.in_preference()
        elif chosen.id in own:
            ahead = [self.by_plan[name] for name in own]
        else:
            ahead = [self.by_plan[name] for name in own] + [
                state for state in self.in_preference() if self._reached(self.maybe, state.plan) or state.plan is chosen
            ]
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
