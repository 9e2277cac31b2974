"""Which conditions take part in deciding a fusion, and which facts they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from policy.conditions import Atom, Condition, SetTest
from policy.derive import DERIVED, INPUTS
from policy.pack import ENGINE_TRAITS, REQUEST_PREFIX, TRAIT_PREFIX, Fusion, Pack, Product
from policy.values import Interval, Ordered, Values
from policy.versions import Version, line_start


def conditions_of(pack: Pack, fusion: Fusion, engine: Product | None) -> Iterator[Condition]:
    """Every condition that may decide a fusion on one engine: its gate in every release, plans, rules, switches, and
    those of the fusions it requires."""
    yield fusion.wanted
    for plan in fusion.plans:
        yield plan.call
        yield plan.when
        yield from plan.needs
    selected = {rule.id: rule for plan in fusion.plans for rule in pack.rules_for(plan)}
    for rule in selected.values():
        yield rule.when
    gate = engine.gates.get(fusion.id) if engine is not None else None
    for _, arm in gate.arms.rows if gate is not None else ():
        yield from (arm.unset, arm.requested_on, arm.requested_off, arm.dies)
        yield from (take.when for take in arm.takes)
    if engine is not None:
        yield from (switch.when for switch in engine.switches if switch.fusion == fusion.id)
    for name in fusion.requires:
        yield from conditions_of(pack, pack.fusions[name], engine)


def atoms_by_fact(conditions: Iterable[Condition]) -> dict[str, list[Values | SetTest]]:
    """Fact -> every accepted set that one of the conditions asks of it."""
    found: dict[str, dict[Values | SetTest, None]] = {}
    for condition in conditions:
        for atom in condition.atoms():
            found.setdefault(atom.fact, {})[atom.accepted] = None
    return {fact: list(accepted) for fact, accepted in found.items()}


def inputs_of(pack: Pack, name: str, engine: Product | None) -> tuple[str, ...]:
    """The facts that one fact is computed from, one step; empty for a base fact."""
    if name in DERIVED:
        return INPUTS[name]
    if name.startswith(ENGINE_TRAITS):
        return ("engine.name", engine.version_fact if engine is not None else "engine.version")
    if name.startswith(TRAIT_PREFIX):
        product = pack.products.get(name.split(".")[1])
        return (product.version_fact,) if product is not None else ()
    return ()


def base_facts(pack: Pack, names: Iterable[str], engine: Product | None) -> set[str]:
    """Everything that these facts are computed from, down to what can be given."""
    found: set[str] = set()
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        inputs = inputs_of(pack, name, engine)
        if inputs:
            waiting.extend(inputs)
        else:
            found.add(name)
    return found


def version_cuts(pack: Pack, product: Product, facts: Iterable[str], fusion: str | None = None) -> list[Values]:
    """The sets of a product's versions between which something changes for these facts: rows of traits and defaults,
    arms of gates, windows of switches (of one fusion where named)."""
    points: set[Version] = set()
    names = set(facts)
    for name, trait in product.traits.items():
        if name in names:
            points.update(line_start(since) for since, _ in trait.breakpoints.rows)
    ends = {trait.breakpoints.through for name, trait in product.traits.items() if name in names and trait.breakpoints.through is not None}
    for name, rows in product.defaults.items():
        if name in names:
            points.update(line_start(since) for since, _ in rows.rows)
    for gate in product.gates.values():
        if fusion is None or gate.fusion == fusion:
            points.update(line_start(since) for since, _ in gate.arms.rows)
    for switch in product.switches:
        if fusion is None or switch.fusion == fusion:
            points.add(line_start(switch.since))
            if switch.until is not None:
                points.add(line_start(switch.until))
    found: list[Values] = [Ordered((Interval(point, True, None, False),)) for point in sorted(points)]
    found.extend(Ordered((Interval(end, False, None, False),)) for end in sorted(ends))
    return found


def request_names(fusion: str) -> tuple[str, str, str]:
    """The facts in which a launch asks something of a fusion."""
    name = REQUEST_PREFIX + fusion
    return name, name + "_plan", name + "_max_bytes"


def atom_facts(condition: Condition) -> set[str]:
    """The facts that a condition speaks of."""
    return {atom.fact for atom in condition.atoms() if isinstance(atom, Atom)}


def required(pack: Pack, fusion: Fusion) -> list[Fusion]:
    """A fusion after those it requires."""
    wanted, waiting = {fusion.id}, list(fusion.requires)
    while waiting:
        name = waiting.pop()
        if name in pack.fusions and name not in wanted:
            wanted.add(name)
            waiting.extend(pack.fusions[name].requires)
    return [one for one in pack.in_order() if one.id in wanted]


def silent_conditions(pack: Pack, fusion: Fusion) -> Iterator[Condition]:
    """Conditions that decide without leaving a finding: which chain an engine takes, which plan is preferred, where a
    switch exists."""
    for one in required(pack, fusion):
        yield from (plan.when for plan in one.plans)
        yield one.wanted
        for product in pack.products.values():
            gate = product.gates.get(one.id)
            yield from (take.when for _, arm in (gate.arms.rows if gate is not None else ()) for take in arm.takes)
            yield from (switch.when for switch in product.switches if switch.fusion == one.id)
