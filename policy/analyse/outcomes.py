"""The parts of a decision that are plain conditions on facts: what a gate says, and what has to hold for on."""

from __future__ import annotations

from collections.abc import Iterable

from policy.analyse.regions import gate_condition
from policy.conditions import All, AnyOf, Atom, Condition
from policy.facts import show
from policy.pack import REQUEST_PREFIX, Fusion, Pack
from policy.values import ABSENT, Discrete, Interval, Ordered
from policy.versions import line_start


def requested(pack: Pack, fusion: Fusion, value: object) -> Condition:
    """The launch asks this of the fusion: on, off, or nothing (`ABSENT`)."""
    name = REQUEST_PREFIX + fusion.id
    fact = pack.facts[name]
    return Atom(name, fact.values(value), show(fact.values(value)))


def gate_is(pack: Pack, fusion: Fusion, state: str) -> Condition:
    """Where an engine's own state is `on`, or it `dies`."""
    found: list[Condition] = []
    for product in pack.products.values():
        gate = product.gates.get(fusion.id)
        if gate is None:
            continue
        if state == "on":
            for value, request in ((ABSENT, "unset"), ("on", "requested_on"), ("off", "requested_off")):
                found.append(All((requested(pack, fusion, value), gate_condition(pack, product, gate, request)[0])))
            continue
        name = Atom("engine.name", Discrete.exactly(product.name), product.name)
        for interval, arm in gate.arms.segments():
            if arm is not None and arm.known:
                found.append(All((name, Atom(product.version_fact, Ordered((interval,)), show(Ordered((interval,)))), arm.dies)))
    return AnyOf(tuple(found))


def can_be_on(pack: Pack, fusion: Fusion, posture: str) -> Condition:
    """What has to hold for the fusion to be on, plans apart: the engine turns it on, or the adapter is asked to; in
    posture fast, that it is worth having and somebody can."""
    ways: list[Condition] = [gate_is(pack, fusion, "on")]
    builder = pack.fact("runtime.builder")
    if builder is not None:
        adapter: Condition = Atom("runtime.builder", builder.values("adapter"), "adapter")
        ways.append(adapter if posture == "fast" else All((adapter, requested(pack, fusion, "on"))))
    if posture == "fast":
        return All((AnyOf((*ways, switch_exists(pack, fusion, frozenset(("on",))))), fusion.wanted))
    return AnyOf(tuple(ways))


def is_never_on(pack: Pack, fusion: Fusion) -> Condition:
    """Where the fusion is off whatever else holds: the launch asks it off, or does not start."""
    return AnyOf((requested(pack, fusion, "off"), gate_is(pack, fusion, "dies")))


def switch_exists(pack: Pack, fusion: Fusion, turns: Iterable[str]) -> Condition:
    """The releases that the pack knows how to tell this, or knows to have no way to be told."""
    found: list[Condition] = []
    for product in pack.products.values():
        for switch in product.switches:
            if switch.fusion == fusion.id and switch.turn in turns:
                until = None if switch.until is None else line_start(switch.until)
                window = Ordered((Interval(line_start(switch.since), True, until, False),))
                name = Atom("engine.name", Discrete.exactly(product.name), product.name)
                found.append(All((name, Atom(product.version_fact, window, show(window)), switch.when)))
    return AnyOf(tuple(found))
