"""Two states of the world to compare: two packs, or one pack with a release pinned to two values; and where anything
that takes part in a decision differs between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.analyse.boxes import Box, leftovers, without_inner
from policy.analyse.lookup import exactly
from policy.analyse.lowering import TABULATED, Lowering, Node, Settling
from policy.analyse.outcomes import can_be_on, gate_is, is_never_on, requested
from policy.analyse.regions import gate_condition
from policy.analyse.relevant import required
from policy.analyse.space import Space
from policy.analyse.whole import taken
from policy.conditions import NEVER, All, AnyOf, Atom, Condition
from policy.facts import show
from policy.pack import Fusion, Pack
from policy.records import dataclass, field
from policy.values import ABSENT, Discrete, Interval, Ordered, Values
from policy.versions import line_start


@dataclass(slots=True)
class Side:
    """A pack, and facts that have one value in it whatever a launch says."""

    name: str
    pack: Pack
    pinned: Mapping[str, Values] = field(default_factory=dict)
    lowering: Lowering = field(init=False)
    settling: Settling = field(init=False)

    def __post_init__(self) -> None:
        self.lowering = Lowering(self.pack, TABULATED)
        self.settling = Settling(self.pinned)

    def node(self, condition: Condition, may: bool) -> Node:
        """A condition over literals, without what the pinned facts decide."""
        return self.settling.of(self.lowering.lower(condition, may))

    @staticmethod
    def of(pack: Pack, name: str, pinned: Mapping[str, Any] | None = None) -> Side:
        """A side with facts pinned to values as one writes them. Raises `ValueProblem`."""
        held: dict[str, Values] = {}
        for fact_name, raw in (pinned or {}).items():
            fact = pack.fact(fact_name)
            if fact is None:
                raise KeyError(fact_name)
            held[fact_name] = exactly(fact, fact.value(raw))
        return Side(name, pack, held)


def parts(pack: Pack, fusion: Fusion) -> dict[str, Condition]:
    """Everything that takes part in deciding a fusion, by what it is: where each holds."""
    found: dict[str, list[Condition]] = {}
    for one in required(pack, fusion):
        found[f"{one.id} is worth having"] = [one.wanted]
        for plan in one.plans:
            found[f"plan {one.id} {plan.id}"] = [All((plan.call, *plan.needs))]
            found[f"preference of {one.id} {plan.id}"] = [plan.when]
            for rule in (rule for rule in pack.rules_for(plan) if rule.effect != "warn"):
                limits = f" {sorted(rule.limits.items())}" if rule.limits else ""
                found.setdefault(f"rule {rule.id} on {one.id} {plan.id}: {rule.effect} {rule.consequence}{limits}", []).append(rule.when)
        for product in pack.products.values():
            name = Atom("engine.name", Discrete.exactly(product.name), product.name)
            gate = product.gates.get(one.id)
            if gate is not None:
                for value, request in ((ABSENT, "unset"), ("on", "requested_on"), ("off", "requested_off")):
                    sure, may = gate_condition(pack, product, gate, request)
                    asked = requested(pack, one, value)
                    found[f"gate {gate.id} on, {request}"] = [All((asked, sure))]
                    found[f"gate {gate.id} read, {request}"] = [All((asked, may))]
                found[f"gate {gate.id} dies"] = [gate_is(pack, one, "dies")]
                for interval, arm in gate.arms.segments():
                    for take in arm.takes if arm is not None and arm.known else ():
                        chain = " then ".join(str(link) for link in take.chain)
                        found.setdefault(f"gate {gate.id} takes {chain}{' or falls back' if take.falls_back else ''}", []).append(
                            All((name, Atom(product.version_fact, Ordered((interval,)), show(Ordered((interval,)))), take.when))
                        )
            for switch in product.switches:
                if switch.fusion == one.id:
                    window = Ordered((Interval(line_start(switch.since), True, None if switch.until is None else line_start(switch.until), False),))
                    found.setdefault(f"switch {switch.turn} of {one.id}: {switch.kind} {switch.text} {switch.reaches or ''}", []).append(
                        All((name, Atom(product.version_fact, window, show(window)), switch.when))
                    )
    return {key: conditions[0] if len(conditions) == 1 else AnyOf(tuple(conditions)) for key, conditions in found.items()}


@dataclass(slots=True)
class Compared:
    """Two sides over one space. Pinned facts are no dimensions: each side sees its own value of them."""

    old: Side
    new: Side
    fusions: Sequence[str]
    space: Space = field(init=False)
    _parts: dict[tuple[str, str], dict[str, Condition]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.space = Space(self.new.pack)
        for side in (self.old, self.new):
            for fusion in self.fusions:
                if fusion in side.pack.fusions:
                    for condition in (*self.parts_of(side, fusion).values(), *_outcomes(side.pack, side.pack.fusions[fusion])):
                        for atom in condition.atoms():
                            for name, accepted in side.lowering.asked(atom):
                                self.space.cut(name, accepted)
            for fact, values in side.pinned.items():
                self.space.cut(fact, values)

    def parts_of(self, side: Side, fusion: str) -> dict[str, Condition]:
        """The parts of a fusion on one side, made once."""
        key = ("old" if side is self.old else "new", fusion)
        held = self._parts.get(key)
        if held is None:
            held = self._parts[key] = parts(side.pack, side.pack.fusions[fusion]) if fusion in side.pack.fusions else {}
        return held

    def boxes(self, side: Side, condition: Condition, may: bool) -> list[Box]:
        """Where a condition holds on one side, as boxes over the facts that are not pinned."""
        return self.space.node_boxes(side.node(condition, may))

    def differing(self, fusion: str) -> Iterator[tuple[str, Box]]:
        """Boxes in which a part of the decision differs, with the name of the part: where it may hold on one side only, and
        where it must on one side only."""
        self.space.freeze()
        ours, theirs = self.parts_of(self.old, fusion), self.parts_of(self.new, fusion)
        for key in dict.fromkeys((*ours, *theirs)):
            one, two = ours.get(key, NEVER), theirs.get(key, NEVER)
            for may in (True, False):
                if self.old.node(one, may) == self.new.node(two, may):
                    continue
                before, after = self.boxes(self.old, one, may), self.boxes(self.new, two, may)
                if before != after:
                    for boxes, denied in ((before, after), (after, before)):
                        for box in without_inner(boxes):
                            yield from ((key, part) for part in leftovers(box, denied, self.space.full))

    def plan_of(self, part: str) -> str | None:
        """The plan of the compared fusion that a part is about, or None where it is about all."""
        words = part.split(": ")[0].split(" ")
        name = f" on {self.fusions[0]} " if part.startswith("rule ") else f"plan {self.fusions[0]} "
        return words[-1] if part.startswith(("rule ", "plan ")) and name in part else None


def _outcomes(pack: Pack, fusion: Fusion) -> Iterator[Condition]:
    """What the boxes of an outcome ask besides the parts."""
    yield from (is_never_on(pack, fusion), can_be_on(pack, fusion, "safe"), can_be_on(pack, fusion, "fast"))
    yield from (taken(pack, fusion, plan) for plan in fusion.plans)
