"""Where something of a pack holds, by the name that people know it by."""

from __future__ import annotations

from policy.analyse.lowering import TABULATED
from policy.analyse.regions import Regions, of_gate, of_named, of_plan, of_rule
from policy.analyse.states import of_on
from policy.pack import Pack


def where(pack: Pack, name: str, traits: str = TABULATED) -> Regions | None:
    """The regions of a rule, a named condition, a gate (left alone), a plan as `FUSION/PLAN`, or of a fusion that is on;
    None where nothing has the name. Raises `TooWideError`."""
    if name in pack.rules:
        return of_rule(pack, pack.rules[name], traits)
    if name in pack.conditions:
        return of_named(pack, name, traits)
    if name in pack.fusions:
        return of_on(pack, pack.fusions[name], traits=traits)
    fusion, _, plan = name.partition("/")
    found = next((one for one in pack.fusions[fusion].plans if one.id == plan), None) if fusion in pack.fusions else None
    if found is not None:
        return of_plan(pack, found, traits)
    gate = next(((product, gate) for product in pack.products.values() for gate in product.gates.values() if gate.id == name), None)
    return None if gate is None else of_gate(pack, *gate, traits=traits)
