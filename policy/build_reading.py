"""What reading the parts of a pack has in common: its sources, its vocabulary, and the values that stand everywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, Protocol

from policy.conditions import ALWAYS, NEVER, Condition, Path, parse
from policy.facts import Fact, ValueProblem, plain
from policy.pack import Breakpoints, OnDemand, Pack, Place, Selector, did_you_mean
from policy.records import dataclass, field, replace
from policy.versions import Version
from policy.versions import parse as parse_version


class Source(Protocol):
    """One file of a pack, already of the right shape."""

    @property
    def kind(self) -> str:
        """Which kind of file."""
        ...

    @property
    def file(self) -> str:
        """Its path below the pack's folder."""
        ...

    @property
    def value(self) -> Any:
        """The file's data."""
        ...

    @property
    def trusted(self) -> bool:
        """Checked before: nothing is checked again, and what is not asked for is not read."""
        ...

    def place(self, path: Path) -> Place:
        """Where the value at `path` is written."""
        ...

    def complain(self, path: Path, message: str, help: str, key: bool = False) -> None:
        """Report a defect of the value at `path`."""
        ...


@dataclass(slots=True)
class Vocabulary:
    """What conditions may speak of, gate-private conditions before those of the pack."""

    facts: Callable[[str], Fact | None]
    conditions: Mapping[str, Condition]
    private: Mapping[str, Condition] = field(default_factory=dict)
    known: Callable[[], list[str]] = list

    def fact(self, name: str) -> Fact | None:
        """The fact of that name, or None."""
        return self.facts(name)

    def named(self, name: str) -> Condition | None:
        """The named condition, the gate's own before the pack's, or None."""
        return self.private.get(name) or self.conditions.get(name)

    def suggest(self, name: str) -> str:
        """A did-you-mean sentence, or an empty text."""
        return did_you_mean(name, (*self.known(), *self.conditions, *self.private))


#: Whether the fields of a rule that a table makes have the shape of a rule; complains through the source where not.
Shaped = Callable[[Source, Path, Mapping[str, Any]], bool]


class Reading:
    """Reads sources into a pack; defects are reported through the sources."""

    def __init__(self, sources: list[Source], pack: Pack, shaped: Shaped | None) -> None:
        self.sources, self.pack, self.shaped = sources, pack, shaped
        self.vocabulary = Vocabulary(pack.fact, pack.conditions, {}, lambda: list(pack.facts))

    def of(self, *kinds: str) -> Iterator[Source]:
        """The sources of these kinds."""
        return (source for source in self.sources if source.kind in kinds)

    def _conditions(self, sources: list[Source], vocabulary: Vocabulary, into: MutableMapping[str, Condition], titles: dict[str, str]) -> None:
        """Named conditions may name each other in any order; a circle is a problem."""
        raws: dict[str, tuple[Source, Any]] = {}
        for source in sources:
            for name, raw in source.value.get("conditions", {}).items():
                if name in raws or name in into or (into is not self.pack.conditions and name in self.pack.conditions):
                    source.complain(("conditions", name), f"the condition `{name}` is declared twice", "")
                    continue
                if name in ("absent", "present", "unknown"):
                    source.complain(("conditions", name), f"`{name}` is a value and cannot name a condition", "")
                if source.trusted and isinstance(into, OnDemand):
                    titles[name] = raw["title"]
                    into.promise(name, partial(parse, raw["when"], vocabulary, ("conditions", name, "when"), source.complain))
                else:
                    raws[name] = (source, raw)
        open_names: list[str] = []

        def resolve(name: str) -> Condition | None:
            if name in into:
                return into[name]
            if name not in raws:
                return self.pack.conditions.get(name)
            source, raw = raws[name]
            if name in open_names:
                source.complain(("conditions", name), f"the condition `{name}` names itself: {' -> '.join((*open_names, name))}", "")
                return NEVER
            open_names.append(name)
            into[name] = parse(raw["when"], lookup, ("conditions", name, "when"), source.complain)
            titles[name] = raw["title"]
            open_names.pop()
            return into[name]

        lookup = _Resolving(vocabulary, resolve, list(raws))
        for name in raws:
            resolve(name)

    def _when(self, source: Source, raw: Any, path: Path, default: Condition = ALWAYS, private: Mapping[str, Condition] | None = None) -> Condition:
        if raw is None:
            return default
        vocabulary = replace(self.vocabulary, private=private) if private else self.vocabulary
        return parse(raw, vocabulary, path, source.complain)

    def _value(self, source: Source, path: Path, fact: Fact, raw: Any) -> None:
        if source.trusted:
            return
        try:
            fact.values(raw)
        except ValueProblem as problem:
            source.complain(path, str(problem), problem.help)

    def _version(self, source: Source, raw: Any, path: Path) -> Version:
        version = parse_version(raw) if isinstance(raw, str) else None
        if version is None or version.local:
            source.complain(path, f"`{plain(raw)}` is no version of a release", "write it as PEP 440 does, without a local part")
            return Version("0")
        return version

    def _breakpoints(self, source: Source, rows: list[Any], path: Path, through: Version | None, read: Callable[[Any, Path], Any]) -> Breakpoints:
        found: list[tuple[Version, Any]] = []
        for number, row in enumerate(rows):
            here = (*path, number)
            since = self._version(source, row["since"], (*here, "since"))
            if found and since <= found[-1][0] and parse_version(str(row["since"])) is not None:
                source.complain((*here, "since"), f"`{since}` is not above the row before it", "rows ascend")
            found.append((since, read(row, here)))
        if through is not None and found and through < found[-1][0]:
            source.complain(path, f"`through` {through} is below the newest row {found[-1][0]}", "raise `through` with every row")
        return Breakpoints(tuple(found), through)

    def _selector(self, source: Source, raw: Mapping[str, Any], path: Path, fusion: str = "") -> Selector:
        wanted = {name: frozenset([values] if isinstance(values, str) else values) for name, values in raw.items()}
        if fusion:
            wanted["fusion"] = frozenset((fusion,))
        selector = Selector(wanted)
        if source.trusted:
            return selector
        plans = [plan for one in self.pack.fusions.values() for plan in one.plans]
        attributes = {name for plan in plans for name in plan.attributes}
        for name in raw:
            if name not in attributes:
                source.complain((*path, name), f"no plan has an attribute `{name}`", did_you_mean(name, attributes), key=True)
                return selector
            known = {plan.attributes[name] for plan in plans if name in plan.attributes}
            for value in wanted[name] - known:
                source.complain((*path, name), f"no plan has `{name}: {value}`", did_you_mean(value, known))
        if not any(selector.matches(plan) for plan in plans):
            source.complain(path, f"no plan matches {selector}", "")
        return selector

    def _given(self, source: Source, path: Path, name: str, value: Any) -> None:
        fact = self.pack.fact(name)
        if fact is None:
            source.complain(path, f"no fact is named `{name}`", self.vocabulary.suggest(name), key=True)
        else:
            self._value(source, path, fact, value)


@dataclass(slots=True)
class _Resolving:
    """The vocabulary while named conditions are still being read."""

    outer: Vocabulary
    resolve: Callable[[str], Condition | None]
    names: list[str]

    def fact(self, name: str) -> Fact | None:
        return self.outer.fact(name)

    def named(self, name: str) -> Condition | None:
        return self.resolve(name)

    def suggest(self, name: str) -> str:
        return did_you_mean(name, (*self.outer.known(), *self.outer.conditions, *self.names))
