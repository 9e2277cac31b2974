"""Where a fusion is on: the regions of every plan that somebody builds, each with a launch that was decided again."""

from __future__ import annotations

from collections.abc import Iterator

from policy.analyse.boxes import Box, disjoint, leftovers
from policy.analyse.concrete import concrete, written
from policy.analyse.lowering import TABULATED
from policy.analyse.regions import MOST, Region, Regions
from policy.analyse.whole import Whole
from policy.evaluate import evaluate
from policy.launch import Launch
from policy.pack import Fusion, Pack, Plan


def of_on(pack: Pack, fusion: Fusion, posture: str = "safe", traits: str = TABULATED, most: int = MOST) -> Regions:
    """Where a fusion is on with each of its plans, as far as plans, gates and rules tell: everywhere else it is not.
    `truth` is None for a region whose launch came out otherwise (an engine that takes another plan first, a size that
    is left out). Raises `TooWideError`."""
    whole = Whole(pack, traits)
    found: list[Region] = []
    complete = True
    for plan in fusion.plans:
        for box in _boxes(whole, fusion, plan, posture):
            if len(found) >= most:
                complete = False
                break
            region = whole.analysis.region(box, True)
            if region.witness is not None:
                found.append(_decided(whole, fusion, plan, posture, box, region))
    return Regions(f"{fusion.id} on in posture {posture}", tuple(found), traits, complete)


def _decided(whole: Whole, fusion: Fusion, plan: Plan, posture: str, box: Box, region: Region) -> Region:
    """The region with a launch at which the plan is taken, or else one that may hold only."""
    feasible = whole.analysis.feasible
    narrowed = feasible.narrowed(box)
    full = concrete(feasible, feasible.filled(narrowed)) if narrowed is not None else None
    for facts in (region.witness, None if full is None else written(full)):
        if facts is not None:
            decision = evaluate(whole.pack, Launch.of(whole.pack, facts), posture, (fusion.id,))[fusion.id]
            if decision.state == "on" and decision.chosen is not None and decision.chosen.id == plan.id:
                return Region(region.facts, True, facts, region.texts)
    return Region(region.facts, None, region.witness, region.texts)


def _boxes(whole: Whole, fusion: Fusion, plan: Plan, posture: str) -> Iterator[Box]:
    """Disjoint boxes in which one plan is admitted and built."""
    analysis = whole.analysis
    admitted = analysis.all_of((plan.call, *plan.needs, whole.taken(fusion, plan), whole.can_be_on(fusion, posture)))
    rules = [rule.when for rule in whole.pack.rules_for(plan) if rule.effect == "exclude"]
    denied = [box for condition in (*rules, whole.never_on(fusion)) for box in analysis.space.boxes(condition, may=True)]
    for box in disjoint(admitted, analysis.space.full):
        for part in leftovers(box, denied, analysis.space.full):
            if analysis.feasible.narrowed(part, sure=False) is not None:
                yield part
