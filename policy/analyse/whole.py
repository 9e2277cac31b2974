"""One space over everything that a pack says, shared by all questions about the pack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from policy.analyse.boxes import Box
from policy.analyse.lowering import TABULATED
from policy.analyse.outcomes import can_be_on, gate_is, is_never_on, switch_exists
from policy.analyse.regions import Analysis
from policy.conditions import All, AnyOf, Atom, Condition
from policy.facts import show
from policy.pack import Fusion, Pack, Plan
from policy.values import Discrete, Interval, Ordered
from policy.versions import line_start


class Whole:
    """The conditions of a pack with the space over them. Conditions made here are made once, so that their boxes are
    found again."""

    def __init__(self, pack: Pack, traits: str = TABULATED, further: Iterable[Condition] = ()) -> None:
        self.pack = pack
        self._made: dict[tuple[str, ...], Condition] = {}
        self._left: dict[tuple[int, str, str], tuple[object, tuple[list[Box], list[Box]]]] = {}
        own = [self.never_on(fusion) for fusion in pack.fusions.values()]
        own += [self.can_be_on(fusion, posture) for fusion in pack.fusions.values() for posture in ("safe", "fast")]
        own += [self.taken(fusion, plan) for fusion in pack.fusions.values() for plan in fusion.plans]
        self.analysis = Analysis(pack, [*self._conditions(), *own, *further], traits)

    def _conditions(self) -> Iterator[Condition]:
        for rule in self.pack.rules.values():
            yield rule.when
        for fusion in self.pack.fusions.values():
            yield fusion.wanted
            for plan in fusion.plans:
                yield from (plan.call, plan.when, *plan.needs)

    def never_on(self, fusion: Fusion) -> Condition:
        """Where a fusion is off whatever else holds."""
        return self._once(("never", fusion.id), lambda: is_never_on(self.pack, fusion))

    def can_be_on(self, fusion: Fusion, posture: str) -> Condition:
        """What has to hold for on, plans apart."""
        return self._once(("can", fusion.id, posture), lambda: can_be_on(self.pack, fusion, posture))

    def gate_is(self, fusion: Fusion, state: str) -> Condition:
        """Where an engine's own state is such."""
        return self._once(("gate", fusion.id, state), lambda: gate_is(self.pack, fusion, state))

    def switch(self, fusion: Fusion, turns: frozenset[str]) -> Condition:
        """The releases that can be told so."""
        return self._once(("switch", fusion.id, *sorted(turns)), lambda: switch_exists(self.pack, fusion, turns))

    def taken(self, fusion: Fusion, plan: Plan) -> Condition:
        """Where somebody would build a plan: the adapter, an engine by itself, an engine that is told to."""
        return self._once(("taken", fusion.id, plan.id), lambda: taken(self.pack, fusion, plan))

    def left_of(self, clause: object, plan: Plan, make: Callable[[], tuple[list[Box], list[Box]]]) -> tuple[list[Box], list[Box]]:
        """What `make` finds of a clause and a plan, which is the same in every posture: found once."""
        key = (id(clause), plan.fusion, plan.id)
        held = self._left.get(key)
        if held is None:
            # the clause is kept with it, so that its identity stays its own
            held = self._left[key] = (clause, make())
        return held[1]

    def _once(self, key: tuple[str, ...], make: Callable[[], Condition]) -> Condition:
        held = self._made.get(key)
        if held is None:
            held = self._made[key] = make()
        return held


def taken(pack: Pack, fusion: Fusion, plan: Plan) -> Condition:
    """Where somebody would build a plan."""
    ways: list[Condition] = []
    builder = pack.fact("runtime.builder")
    if builder is not None:
        ways.append(Atom("runtime.builder", builder.values("adapter"), "adapter"))
    for product in pack.products.values():
        name = Atom("engine.name", Discrete.exactly(product.name), product.name)
        gate = product.gates.get(fusion.id)
        for interval, arm in gate.arms.segments() if gate is not None else ():
            version = Atom(product.version_fact, Ordered((interval,)), show(Ordered((interval,))))
            if arm is None or not arm.known:
                ways.append(All((name, version)))
            else:
                ways.extend(All((name, version, take.when)) for take in arm.takes if any(link.matches(plan) for link in take.chain))
        for switch in product.switches:
            if switch.fusion == fusion.id and switch.turn == "plan" and switch.reaches is not None and switch.reaches.matches(plan):
                until = None if switch.until is None else line_start(switch.until)
                window = Ordered((Interval(line_start(switch.since), True, until, False),))
                ways.append(All((name, Atom(product.version_fact, window, show(window)), switch.when)))
    return AnyOf(tuple(ways))
