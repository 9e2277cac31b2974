"""The changes that a search may try: the cells of the facts that can be changed for a launch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from policy.analyse.cells import cells, words
from policy.analyse.relevant import atom_facts, atoms_by_fact, base_facts, conditions_of, request_names, version_cuts
from policy.conditions import SetTest, written
from policy.derive import INPUTS
from policy.facts import COSTS, PACKAGE_PREFIX, Fact
from policy.launch import Facts, Launch
from policy.pack import REQUEST_PREFIX, Fusion, Pack, Product
from policy.records import dataclass
from policy.values import ABSENT, Ordered, Values
from policy.versions import Version, line_start, shown

#: Sizes worth trying for a number that other facts are computed from.
SIZES = (1, 2, 4, 8, 16)
WORLD = ("parallel.tensor_parallel_size", "parallel.pipeline_parallel_size", "parallel.prefill_context_parallel_size")


@dataclass(frozen=True, slots=True)
class Move:
    """One fact given these values; `releases` are the releases that behave alike where it is a version."""

    fact: str
    values: Values
    releases: tuple[Version, ...] = ()


class Moves:
    """The moves of every fact for one launch and fusion."""

    def __init__(self, pack: Pack, launch: Launch, fusion: Fusion, facts: Facts) -> None:
        self.pack, self.launch, self.fusion, self.facts = pack, launch, fusion, facts
        self.engine = facts.engine()
        conditions = list(conditions_of(pack, fusion, self.engine))
        self.atoms = atoms_by_fact(conditions)
        self.computed_from = {one for name in self.atoms for one in _all_inputs(name)}
        gate = self.engine.gates.get(fusion.id) if self.engine is not None else None
        self.chain_facts = {name for _, arm in (gate.arms.rows if gate is not None else ()) for take in arm.takes for name in atom_facts(take.when)}
        self._held: dict[str, list[Move]] = {}
        self._borders: dict[str, tuple[Sequence[Version], tuple[Version, ...]]] = {}
        self._cuts: dict[str, list[Ordered]] = {}

    def facts_of_fusion(self, fusion: str) -> set[str]:
        """The base facts that any condition of a fusion rests on."""
        conditions = conditions_of(self.pack, self.pack.fusions[fusion], self.engine) if fusion in self.pack.fusions else ()
        return base_facts(self.pack, atoms_by_fact(conditions), self.engine) | {request_names(fusion)[0]}

    def can_change(self, name: str) -> bool:
        """Whether a search may move the fact."""
        fact = self.pack.fact(name)
        return fact is not None and fact.change is not None and not fact.derived

    def cost(self, name: str) -> str:
        """What a change of the fact costs."""
        fact = self.pack.fact(name)
        return (fact.change if fact is not None else None) or COSTS[-1]

    def order(self, names: Iterable[str]) -> list[str]:
        """The facts that can change, cheapest first."""
        return sorted((name for name in names if self.can_change(name)), key=lambda name: (cost_rank(self.cost(name)), name))

    def of(self, name: str) -> list[Move]:
        """Every move of one fact away from the value it has."""
        held = self._held.get(name)
        if held is None:
            fact = self.pack.fact(name)
            assert fact is not None
            held = self._held[name] = [move for move in self._moves(fact) if not self.facts.values(name).within(move.values)]  # type: ignore[arg-type]
        return held

    def _moves(self, fact: Fact) -> list[Move]:
        if fact.name.startswith(REQUEST_PREFIX):
            return self._requests(fact)
        releases = self.pack.releases_of(fact.name)
        if self.engine is not None and fact.name == self.engine.version_fact:
            return self._releases(fact, self.engine, self.engine.releases)
        product = next((one for one in self.pack.products.values() if one.version_fact == fact.name and one.role != "engine"), None)
        if product is not None and releases:
            return self._releases(fact, product, releases)
        if fact.name == "engine.version":
            return []
        return [Move(fact.name, cell) for cell in cells(fact, self._asked(fact))]

    def _asked(self, fact: Fact) -> list[Values | SetTest]:
        asked = list(self.atoms.get(fact.name, ()))
        if fact.type == "integer" and fact.name in self.computed_from:
            known = {single for name in self.computed_from if isinstance(single := self.facts.values(name).single(), int) and not isinstance(single, bool)}
            asked.extend(Ordered.exactly(size, 1) for size in sorted({*SIZES, *known}))
        return asked

    def _requests(self, fact: Fact) -> list[Move]:
        """What the launch asks: nothing, or on where it is the fusion itself; never one plan instead of another."""
        wanted = [ABSENT, "on"] if fact.choices else [ABSENT]
        return [Move(fact.name, fact.values(value)) for value in wanted]

    def _releases(self, fact: Fact, product: Product, releases: Sequence[Version]) -> list[Move]:
        """The releases in groups that no condition, trait, default, gate or pin tells apart."""
        cuts = cells(fact, [*self.atoms.get(fact.name, ()), *version_cuts(self.pack, product, {*self.atoms, *self.computed_from}, self.fusion.id)])
        borders = (interval.low for cell in cuts if isinstance(cell, Ordered) for interval in cell.intervals)
        self._borders[fact.name] = (releases, tuple(border for border in borders if border is not None))
        groups: dict[tuple[object, ...], list[Version]] = {}
        here = self.facts.values(fact.name).single()
        for release in releases:
            cell = next(number for number, values in enumerate(cuts) if release in values)
            groups.setdefault((cell, *self._pinned(product, release), release == here), []).append(release)
        found = [Move(fact.name, Ordered.exactly(group[len(group) // 2]), tuple(group)) for group in groups.values()]
        absent = [Move(fact.name, cell) for cell in cuts if cell.absent]
        return found + absent

    def _pinned(self, product: Product, release: Version) -> tuple[object, ...]:
        """The cells of the packages that a release of the engine brings along, where the launch names none itself."""
        found: list[object] = []
        for package, wanted in sorted(product.pins.get(release, {}).items()):
            name = PACKAGE_PREFIX + package
            cuts = self._package_cuts(name) if name not in self.launch.given else None
            if cuts is None:
                continue
            fact = self.pack.fact(name)
            assert fact is not None
            try:
                version = fact.value(wanted.removeprefix("=="))
                found.append((name, *(version in cut for cut in cuts)))
            except ValueError:
                found.append((name, wanted))
        return tuple(found)

    def _package_cuts(self, name: str) -> list[Ordered] | None:
        """The sets of a package's versions that anything asks about, remembered; None where nothing does."""
        if name not in self._cuts:
            library = next((one for one in self.pack.products.values() if one.version_fact == name), None)
            if name not in self.atoms and library is None:
                return None
            cuts = [*self.atoms.get(name, ()), *(version_cuts(self.pack, library, self.atoms) if library is not None else ())]
            self._cuts[name] = [cut for cut in dict.fromkeys(cuts) if isinstance(cut, Ordered)]
        return self._cuts[name]

    def fits_machine(self, facts: Facts, changed: Iterable[str]) -> bool:
        """Whether the ranks still fit on the GPUs that are known to be there, where a change touches their number."""
        if {*WORLD, "parallel.nodes", "device.gpus_per_node"}.isdisjoint(changed):
            return True
        nodes, per_node = (_least(facts.values(name), top=True) for name in ("parallel.nodes", "device.gpus_per_node"))
        if nodes is None or per_node is None:
            return True
        ranks = 1
        for name in WORLD:
            ranks *= _least(facts.values(name)) or 1
        return ranks <= nodes * per_node

    def shown(self, name: str, moves: Iterable[Move]) -> str:
        """The values of several moves of one fact, as one writes them in a rule."""
        moves = list(moves)
        fact = self.pack.fact(name)
        assert fact is not None
        parts = self._runs(name, sorted(release for move in moves for release in move.releases))
        rest = [move.values for move in moves if not move.releases]
        if rest:
            joined = rest[0]
            for values in rest[1:]:
                joined = joined | values  # type: ignore[operator]
            parts.extend(words(fact, joined).split(" or "))
        return parts[0] if len(parts) == 1 else written(parts)

    def _runs(self, name: str, versions: Sequence[Version]) -> list[str]:
        """Neighbouring releases as ranges: up to the next release where nothing changes before it, else up to the last one."""
        releases, borders = self._borders.get(name, ((), ()))
        parts: list[str] = []
        position = 0
        while position < len(versions):
            start = bisect_right(releases, versions[position]) - 1
            length = 1
            while versions[position + length : position + length + 1] == list(releases[start + length : start + length + 1]) != []:
                length += 1
            first, last = versions[position], versions[position + length - 1]
            following = releases[start + length] if start + length < len(releases) else None
            goes_on = following is not None and not any(last < border < line_start(following) for border in borders)
            upper = f"<{shown(following)}" if goes_on and following is not None else f"<={shown(last)}"
            parts.append(shown(first) if length == 1 else f">={shown(first)},{upper}")
            position += length
        return parts


def _least(values: Values, top: bool = False) -> int | None:
    """The smallest (largest) possible whole number; None where there is none."""
    if not isinstance(values, Ordered) or not values.intervals:
        return None
    end = values.intervals[-1].high if top else values.intervals[0].low
    return end if isinstance(end, int) else None


def _all_inputs(name: str) -> set[str]:
    found: set[str] = set()
    for one in INPUTS.get(name, ()):
        found |= {one, *_all_inputs(one)}
    return found


def cost_rank(cost: str) -> int:
    """Position among the costs, cheapest first."""
    return COSTS.index(cost) if cost in COSTS else len(COSTS)
