"""Launches of a box: facts and values that a person could write, which the launch model resolves into the box."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from itertools import product as combinations_of
from typing import TYPE_CHECKING, Any

from policy.analyse.cells import representatives
from policy.analyse.lookup import BOUND, PointLookup, all_inputs
from policy.analyse.space import Space
from policy.derive import DERIVED
from policy.launch import Facts, Launch
from policy.pack import Pack
from policy.values import ABSENT

if TYPE_CHECKING:
    from policy.analyse.feasible import Feasible


def concrete(feasible: Feasible, box: Mapping[str, int]) -> dict[str, Any] | None:
    """A launch of a narrowed box as facts and values, ordinary ones where the box leaves a choice. Derived facts are left
    to be computed where their inputs make them what the box wants, else stated. None where no launch was found."""
    facts = launch_in(feasible, box)
    if facts is None:
        return None
    # what a stated fact would be computed from is left open, lest a default contradicts it
    bases = {one: "unknown" for name in facts if name in DERIVED for one in feasible.bases(name) if one not in facts}
    for tried in (facts, {**facts, **bases}) if bases else (facts,):
        if _lies_in(feasible, tried, box):
            return tried
    return None


def launch_in(feasible: Feasible, box: Mapping[str, int], state: bool = True, most: int = 64) -> dict[str, Any] | None:
    """Values for every fact that a box restricts. What a derived fact rests on is varied, by itself, until it agrees;
    where it never does the fact is stated, if that is possible beside its inputs and `state` allows it."""
    space = feasible.space
    derived = [name for name in box if name in BOUND and box[name] != space.full[name] and feasible.bases(name)]
    options: dict[str, list[Any]] = {}
    for name in (name for name in box if box[name] != space.full[name]):
        values: list[Any] = []
        for bit in feasible.bits(name, box[name])[:4]:
            cell = space.cells(name)[bit.bit_length() - 1]
            values.extend(representatives(space.fact(name), cell, _releases(feasible, name, box)))
        options[name] = list(dict.fromkeys(values))
    facts = {name: values[0] for name, values in options.items() if name not in derived}
    done: list[str] = []
    for goal in sorted(derived, key=lambda name: len(all_inputs(space, name))):
        varied = [name for name in feasible.bases(goal) if name in options and name not in BOUND]
        done.append(goal)
        choices = islice(combinations_of(*(options[name] for name in varied)), most)
        tried = [dict(zip(varied, chosen, strict=True)) for chosen in choices]
        agreeing = next((one for one in tried if _agrees(feasible, {**facts, **one}, box, done)), None)
        if agreeing is None and state:
            agreeing = next(_stated(feasible, goal, options[goal], facts, tried, box, done[:-1]), None)
        if agreeing is None:
            return None
        facts = {**facts, **agreeing}
    return facts


def _stated(
    feasible: Feasible, goal: str, values: Sequence[Any], facts: Mapping[str, Any], tried: Sequence[dict[str, Any]], box: Mapping[str, int], done: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The derived fact stated beside inputs that do not contradict it."""
    for one in tried:
        possible = BOUND[goal](PointLookup(feasible.space, {**facts, **one}))
        for value in values:
            if value in possible and _agrees(feasible, {**facts, **one}, box, done):
                yield {**one, goal: value}


def _agrees(feasible: Feasible, facts: Mapping[str, Any], box: Mapping[str, int], derived: Sequence[str]) -> bool:
    """Whether these values make the derived facts what the box wants."""
    lookup = PointLookup(feasible.space, facts)
    return all(lookup.values(name).within(feasible.space.values(name, box[name])) for name in derived)  # type: ignore[arg-type]


def known_values(pack: Pack, name: str) -> list[Any]:
    """Values of a fact that exist: the releases of products, what device profiles say."""
    fact = pack.fact(name)
    assert fact is not None
    found = {release for product in pack.products.values() if product.version_fact == name for release in product.releases}
    stated = [fact.values(device.facts[name]).single() for device in pack.devices.values() if name in device.facts]
    return sorted({*found, *(value for value in stated if value is not None and value is not ABSENT)}, key=lambda value: (str(type(value)), value))


def _releases(feasible: Feasible, name: str, box: Mapping[str, int]) -> Sequence[Any]:
    space = feasible.space
    if name != "engine.version":
        return feasible.known(name)
    names = space.values("engine.name", box["engine.name"]) if "engine.name" in box else None
    engines = [product for product in space.pack.products.values() if product.role == "engine" and (names is None or product.name in names)]
    return next((product.releases for product in engines if product.releases), ())


def _lies_in(feasible: Feasible, facts: Mapping[str, Any], box: Mapping[str, int]) -> bool:
    """Whether the launch model resolves the facts to values in the box, and finds no contradiction among them."""
    space = feasible.space
    held = Facts(space.pack, launch_of(space, facts))
    within = all(held.values(name).within(space.values(name, mask)) for name, mask in box.items() if mask != space.full[name])  # type: ignore[arg-type]
    return within and (not any(name in BOUND for name in facts) or not held.contradictions())


def launch_of(space: Space, facts: Mapping[str, Any]) -> Launch:
    """The launch of facts and values as they are written."""
    return Launch.of(space.pack, written(facts))


def written(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts and values as one writes them in YAML: versions and `absent` as text, sets as lists."""
    return {name: _plain(value) for name, value in facts.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | list):
        return value
    if isinstance(value, frozenset):
        return sorted(value)
    return "absent" if value is ABSENT else str(value)
