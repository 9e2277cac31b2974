"""What a pack says in vain: rules that never hold, never matter or are always covered by others, plans that no launch gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policy.analyse.boxes import Box, TooWideError
from policy.analyse.whole import Whole
from policy.pack import SEVERITY, Fusion, Plan, Rule
from policy.records import dataclass


@dataclass(frozen=True, slots=True)
class Idle:
    """One thing that makes no difference: the kind of it, its id, what is the matter, and the rules that cover it."""

    kind: str
    id: str
    message: str
    by: tuple[str, ...] = ()


def idle(whole: Whole) -> Iterator[Idle]:
    """Everything of a pack that makes no difference to any launch."""
    for rule in whole.pack.rules.values():
        if not rule.retired:
            found = _idle_rule(whole, rule)
            if found is not None:
                yield found
    for fusion in whole.pack.fusions.values():
        for plan in fusion.plans:
            message = _idle_plan(whole, fusion, plan)
            if message:
                yield Idle("plan", f"{fusion.id} {plan.id}", message)


def _idle_rule(whole: Whole, rule: Rule) -> Idle | None:
    analysis = whole.analysis
    try:
        holding = analysis.space.boxes(rule.when, may=True)
        if not analysis.feasible.holds_launches(holding):
            return Idle("rule", rule.id, "it holds for no launch: its conditions contradict each other")
        if rule.plans is None:
            return None
        plans = [plan for fusion in whole.pack.fusions.values() for plan in fusion.plans if rule.plans.matches(plan)]
        if not any(analysis.feasible.holds_launches(analysis.all_of((rule.when, plan.call), may=True)) for plan in plans):
            return Idle("rule", rule.id, "no plan that it selects is formed where it holds")
        if rule.effect == "exclude":
            return _covered(whole, rule, plans)
    except TooWideError:
        return Idle("rule", rule.id, "not decided: its condition takes too many boxes")
    return None


def _covered(whole: Whole, rule: Rule, plans: Sequence[Plan]) -> Idle | None:
    """Whether others exclude every plan of a rule, for something as bad, wherever it holds."""
    by: dict[str, None] = {}
    for plan in plans:
        others = [
            other
            for other in whole.pack.rules_for(plan)
            if other.effect == "exclude" and other.id != rule.id and SEVERITY[other.consequence or "unfused"] >= SEVERITY[rule.consequence or "unfused"]
        ]
        boxes = {other.id: whole.analysis.space.boxes(other.when) for other in others}
        region = whole.analysis.all_of((rule.when, plan.call), may=True)
        if whole.analysis.feasible.holds_launches(region, [one for held in boxes.values() for one in held]):
            return None
        by.update(dict.fromkeys(_few(whole, region, boxes)))
    if not by:
        return None
    names = " and ".join(f"`{name}`" for name in by)
    return Idle("rule", rule.id, f"wherever it holds, {names} already exclude{'s' if len(by) == 1 else ''} its plans for something as bad", tuple(by))


def _few(whole: Whole, region: Sequence[Box], boxes: dict[str, list[Box]]) -> list[str]:
    """Few rules that still cover a region: those are left out that the others do without."""
    kept = [name for name, held in boxes.items() if held]
    for name in list(kept):
        rest = [one for other in kept if other != name for one in boxes[other]]
        if not whole.analysis.feasible.holds_launches(region, rest):
            kept.remove(name)
    return kept


def _idle_plan(whole: Whole, fusion: Fusion, plan: Plan) -> str:
    analysis = whole.analysis
    rules = [rule.when for rule in whole.pack.rules_for(plan) if rule.effect == "exclude"]
    try:
        admitted = analysis.all_of((plan.call, *plan.needs), may=True)
        if not whole.analysis.feasible.holds_launches(admitted):
            return "its needs contradict each other or its call: no launch can get it"
        denied = [box for rule in rules for box in analysis.space.boxes(rule)]
        if not whole.analysis.feasible.holds_launches(admitted, denied):
            return "rules exclude it wherever it could be built: no launch can get it"
        taken = analysis.all_of((whole.taken(fusion, plan), plan.call, *plan.needs), may=True)
        if not whole.analysis.feasible.holds_launches(taken, denied):
            return "no engine takes it where it is admitted, no switch reaches it and the adapter cannot build it"
    except TooWideError:
        return "not decided: its conditions take too many boxes"
    return ""
