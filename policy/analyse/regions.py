"""Where a condition, a rule, a plan or a gate holds: disjoint boxes over facts, in the pack's own words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from policy.analyse.boxes import Box, disjoint, leftovers, merged
from policy.analyse.cells import test_words, words
from policy.analyse.concrete import concrete, known_values, written
from policy.analyse.feasible import Feasible, declare
from policy.analyse.lowering import TABULATED
from policy.analyse.space import Space
from policy.conditions import All, AnyOf, Atom, Condition, Not, SetTest
from policy.facts import plain, show
from policy.pack import Gate, Pack, Plan, Product, Rule, releases_between
from policy.records import dataclass, field
from policy.values import Discrete, Ordered, Values

#: Regions that are listed where the caller names no number.
MOST = 100


@dataclass(frozen=True, slots=True)
class Region:
    """One box: the values of every fact that it restricts. `truth` is None where it only may hold, because a release in
    it was not read."""

    facts: Mapping[str, Values]
    truth: bool | None
    witness: Mapping[str, Any] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def as_json(self, pack: Pack) -> dict[str, Any]:
        """The stable keys of a region."""
        witness = None if self.witness is None else dict(self.witness)
        return {"truth": self.truth, "facts": dict(self.texts), "releases": releases_in(pack, self.facts), "witness": witness}

    def lines(self, pack: Pack) -> list[str]:
        """The box as lines `fact: values (releases)`."""
        releases = releases_in(pack, self.facts)
        return [f"{name}: {self.texts[name]}{f' ({releases[name]})' if name in releases else ''}" for name in sorted(self.facts)]


@dataclass(frozen=True, slots=True)
class Regions:
    """Every region of one question. `traits` says whether traits were taken from the tables or left free; `complete` is
    False where there are more than were asked for."""

    subject: str
    regions: tuple[Region, ...]
    traits: str
    complete: bool = True

    def as_json(self, pack: Pack) -> dict[str, Any]:
        """The stable keys of an answer."""
        found = [region.as_json(pack) for region in self.regions]
        return {"subject": self.subject, "traits": self.traits, "complete": self.complete, "regions": found}


@dataclass(slots=True)
class Analysis:
    """One space with everything that several questions about it share."""

    pack: Pack
    conditions: Sequence[Condition]
    traits: str = TABULATED
    space: Space = field(init=False)
    feasible: Feasible = field(init=False)

    def __post_init__(self) -> None:
        self.space = Space(self.pack, self.traits)
        self.space.add(*self.conditions)
        declare(self.space)
        self.space.freeze()
        self.feasible = Feasible(self.space)

    def all_of(self, conditions: Iterable[Condition], may: bool = False) -> list[Box]:
        """The boxes in which every condition must (may) hold."""
        return self.space.boxes(All(tuple(conditions)), may)

    def possible(self, boxes: Iterable[Box], outside: Sequence[Box] = (), most: int | None = None) -> list[Box]:
        """Disjoint boxes that hold launches, of these outside of those; `most` of them."""
        parts = (part for box in disjoint(boxes, self.space.full) for part in leftovers(box, outside, self.space.full))
        return list(islice((part for part in parts if self.feasible.narrowed(part, sure=False) is not None), most))

    def witness(self, box: Box) -> dict[str, Any] | None:
        """One launch of a box, as facts one can write; None where none could be made concrete."""
        narrowed = self.feasible.narrowed(box)
        found = concrete(self.feasible, narrowed) if narrowed is not None else None
        return None if found is None else written(found)

    def regions(self, subject: str, sure: Sequence[Box], maybe: Sequence[Box], complete: bool = True) -> Regions:
        """Boxes as regions, with as few of them as merging gives; `maybe` are those that may hold."""
        found: list[tuple[Box, bool | None]] = [(box, True) for box in merged(sure, self.space.full)]
        found += [(box, None) for box in merged(maybe, self.space.full)]
        return Regions(subject, tuple(self.region(box, truth) for box, truth in found), self.traits, complete)

    def region(self, box: Box, truth: bool | None) -> Region:
        """One box as a region with a launch in it."""
        facts = self.space.of_box(box)
        return Region(facts, truth, self.witness(box), {name: self.words(name, values) for name, values in facts.items()})

    def words(self, name: str, values: Values) -> str:
        """Values of a fact as one writes them in a rule; sets of names by what was asked of them."""
        fact = self.space.fact(name)
        asked = test_words([test for test in self.space.asked(name) if isinstance(test, SetTest)], values) if fact.type == "set" else None
        return asked or words(fact, values)


def of_condition(pack: Pack, condition: Condition, subject: str, traits: str = TABULATED) -> Regions:
    """Where a condition holds. Raises `TooWideError`."""
    analysis = Analysis(pack, [condition], traits)
    sure = analysis.space.boxes(condition)
    certain = analysis.possible(sure)
    return analysis.regions(subject, certain, analysis.possible(analysis.space.boxes(condition, may=True), sure))


def of_rule(pack: Pack, rule: Rule, traits: str = TABULATED) -> Regions:
    """Where a rule holds."""
    return of_condition(pack, rule.when, rule.id, traits)


def of_named(pack: Pack, name: str, traits: str = TABULATED) -> Regions:
    """Where a named condition holds. KeyError where there is none."""
    return of_condition(pack, pack.conditions[name], name, traits)


def of_plan(pack: Pack, plan: Plan, traits: str = TABULATED, most: int = MOST) -> Regions:
    """Where a plan is admitted by its needs and every rule about it; unions of limits are left out. Where there are more
    than `most` regions for sure, those that may be are left out too."""
    rules = [rule.when for rule in pack.rules_for(plan) if rule.effect == "exclude"]
    positive = (plan.call, *plan.needs)
    analysis = Analysis(pack, [*positive, *rules], traits)
    sure = analysis.possible(analysis.all_of(positive), [box for rule in rules for box in analysis.space.boxes(rule, may=True)], most + 1)
    maybe: list[Box] = []
    if len(sure) <= most:
        held = [box for rule in rules for box in analysis.space.boxes(rule)]
        maybe = analysis.possible(analysis.all_of(positive, may=True), [*held, *sure], most + 1)
    return analysis.regions(f"{plan.fusion} {plan.id}", sure[:most], maybe[:most], max(len(sure), len(maybe)) <= most)


def of_gate(pack: Pack, product: Product, gate: Gate, request: str = "unset", traits: str = TABULATED) -> Regions:
    """Where an engine configures a fusion on for a request: `unset`, `requested_on` or `requested_off`."""
    sure_condition, may_condition = gate_condition(pack, product, gate, request)
    analysis = Analysis(pack, [sure_condition, may_condition], traits)
    sure = analysis.space.boxes(sure_condition)
    certain = analysis.possible(sure)
    return analysis.regions(f"{gate.id} {request}", certain, analysis.possible(analysis.space.boxes(may_condition, may=True), sure))


def gate_condition(pack: Pack, product: Product, gate: Gate, request: str) -> tuple[Condition, Condition]:
    """When a gate says on, as conditions on the version too: for sure, and where unread releases may do so as well."""
    sure: list[Condition] = []
    unread: list[Condition] = []
    name = Atom("engine.name", Discrete.exactly(product.name), product.name)
    for interval, arm in gate.arms.segments():
        version = Atom(product.version_fact, Ordered((interval,)), show(Ordered((interval,))))
        if arm is None or not arm.known:
            unread.append(All((name, version)))
        else:
            sure.append(All((name, version, Not(arm.dies), getattr(arm, request))))
    return AnyOf(tuple(sure)), AnyOf((*sure, *unread))


def render(pack: Pack, found: Regions) -> str:
    """The regions as text: one paragraph each, a fact a line, with the releases that a range contains."""
    if not found.regions:
        return f"{found.subject}: nowhere"
    lines = [f"{found.subject}: {len(found.regions)} region{'s' if len(found.regions) > 1 else ''} (traits {found.traits})"]
    for number, region in enumerate(found.regions, 1):
        lines.append(f"  {number}. {'may hold, since a release in it was not read' if region.truth is None else 'holds'}")
        lines.extend(f"       {line}" for line in region.lines(pack))
        if not region.facts:
            lines.append("       for every launch")
        if region.witness is not None:
            lines.append(f"       such as {', '.join(f'{name}={plain(value)}' for name, value in sorted(region.witness.items()))}")
    if not found.complete:
        lines.append("  and more, which were not listed")
    return "\n".join(lines)


def releases_in(pack: Pack, facts: Mapping[str, Values]) -> dict[str, str]:
    """The releases that the version ranges of a box contain, in words."""
    found: dict[str, str] = {}
    for name, values in facts.items():
        known = _known(pack, name, facts)
        if isinstance(values, Ordered) and known:
            inside = [text for interval in values.intervals if interval.low != interval.high and (text := releases_between(known, interval))]
            if inside:
                found[name] = ", ".join(inside)
    return found


def _known(pack: Pack, name: str, facts: Mapping[str, Values]) -> Sequence[Any]:
    fact = pack.fact(name)
    if fact is None or fact.type != "version":
        return ()
    if name == "engine.version":
        engines = facts.get("engine.name")
        names = [product for product in pack.products.values() if product.role == "engine" and (engines is None or product.name in engines)]
        return names[0].releases if len(names) == 1 else ()
    return known_values(pack, name)


__all__ = ["Analysis", "Region", "Regions", "gate_condition", "of_condition", "of_gate", "of_named", "of_plan", "of_rule", "releases_in", "render"]
