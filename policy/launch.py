"""A launch: what is given about one server start, and every fact of it resolved to a set of possible values.

A fact's value is taken from the first of: what is given, what is derived from other facts, what the engine's release
requires (its pins) or defaults to, what is assumed, and, only where the caller accepts a provisional answer, what is
presumed. Where none of them speaks the whole domain is possible: the fact is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from policy.derive import DERIVED, INPUTS
from policy.facts import PACKAGE_PREFIX, Fact, ValueProblem, builds_between, fold
from policy.origin import Origin
from policy.pack import ENGINE_TRAITS, REQUEST_PREFIX, TRAIT_PREFIX, Pack, Product, trait_values
from policy.problems import LaunchError, Problem
from policy.records import dataclass, field, replace
from policy.values import ABSENT, Ordered, Values

UNKNOWN = Origin("unknown")
NOT_ASKED = Origin("engine_default", "nothing is asked")


@dataclass(frozen=True, slots=True)
class Given:
    """One fact's possible values, where they come from, and the words they were given in."""

    values: Values
    origin: Origin
    text: str = ""


@dataclass(slots=True)
class Launch:
    """What is given about one server start. Build one with `Launch.of`; `given` maps fact names to values."""

    given: dict[str, Given] = field(default_factory=dict)

    @staticmethod
    def of(pack: Pack, facts: Mapping[str, Any], origin: Origin | Callable[[str], Origin] | None = None) -> Launch:
        """A launch from fact names (or nested groups of them) and values. Raises `LaunchError` with every problem."""
        launch, problems = Launch(), []
        for name, raw in flat(facts, pack):
            where = origin(name) if callable(origin) else origin or Origin("facts")
            try:
                launch.state(pack, name, raw, where)
            except ValueProblem as problem:
                problems.append(Problem(str(problem), None, problem.help, source=str(where)))
        if problems:
            raise LaunchError(problems)
        return launch

    def state(self, pack: Pack, name: str, raw: Any, origin: Origin) -> None:
        """State one fact; a stronger origin wins over what was stated before. Raises `ValueProblem`."""
        fact = pack.fact(name)
        if fact is None:
            raise ValueProblem(f"no fact is named `{name}`", pack.suggest(name) or "`policy facts` lists them all")
        values = fact.values(raw, pack.releases_of(name))
        held = self.given.get(name)
        if held is None or origin.rank <= held.origin.rank:
            self.given[name] = Given(values, origin, raw if isinstance(raw, str) else "")

    def with_facts(self, pack: Pack, changes: Mapping[str, Any], origin: Origin | None = None) -> Launch:
        """A copy in which these facts have these values whatever was given."""
        copy = Launch(dict(self.given))
        for name, raw in changes.items():
            fact = pack.fact(name)
            assert fact is not None
            copy.given[name] = Given(fact.values(raw, pack.releases_of(name)), origin or Origin("set"), raw if isinstance(raw, str) else "")
        return copy


def flat(facts: Mapping[str, Any], pack: Pack, prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Nested groups as dotted names; a mapping that is a value (`{any_of: …}`) stays one."""
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and "any_of" not in value and (pack.fact(name) is None or name + "." == PACKAGE_PREFIX):
            yield from flat(value, pack, name + ".")
        else:
            yield name, value


def folded(pack: Pack, launches: Iterable[Launch]) -> Launch:
    """One launch for all ranks: each fact joined as its declaration says."""
    ranks = list(launches)
    names = {name for launch in ranks for name in launch.given}
    joined = Launch()
    for name in sorted(names):
        fact = pack.fact(name)
        assert fact is not None
        held = [launch.given.get(name) for launch in ranks]
        values = fold(fact, [fact.domain if given is None else given.values for given in held])
        first = next(given for given in held if given is not None)
        joined.given[name] = Given(values, first.origin, first.text if all(given == first for given in held) else "")
    return joined


class Facts:
    """Every fact of one launch, resolved on demand and remembered. `strict` turns assumptions off; `presuming` admits
    presumptions. Satisfies the `Lookup` of conditions and derivations."""

    def __init__(self, pack: Pack, launch: Launch, strict: bool = False, presuming: bool = False) -> None:
        self.pack, self.launch, self.strict, self.presuming = pack, launch, strict, presuming
        self._held: dict[str, Given] = {}
        self._derived_from: dict[str, Origin] = {}

    def values(self, fact: str) -> Values:
        """The possible values of a fact."""
        held = self._held.get(fact)
        return held.values if held is not None else self.get(fact).values

    def get(self, name: str) -> Given:
        """A fact's possible values with their origin."""
        held = self._held.get(name)
        if held is None:
            fact = self.pack.fact(name)
            if fact is None:
                raise KeyError(name)
            held = self._held[name] = self._resolve(fact)
        return held

    def _resolve(self, fact: Fact) -> Given:
        given = self.launch.given.get(fact.name)
        if given is not None and fact.name == "engine.version":
            given = self._between_releases(given)
        if given is not None and (given.values != fact.domain or not self._computed(fact)):
            return given
        for source in (self._trait, self._derived, self._pin, self._default):
            found = source(fact)
            if found is not None:
                return found
        if given is not None:
            return given
        if fact.assume is not None and not self.strict:
            return Given(fact.values(fact.assume), Origin("assumed"))
        if fact.presume is not None and self.presuming and self._presumable(fact):
            return Given(fact.values(fact.presume), Origin("presumed"))
        return Given(fact.domain, UNKNOWN)

    def _between_releases(self, given: Given) -> Given:
        """A development build of the engine as anything between its final releases, which only the engine's name tells."""
        engine = self.engine()
        if engine is None or not isinstance(given.values, Ordered):
            return given
        values = builds_between(given.values, engine.releases)
        return given if values == given.values else replace(given, values=values)

    def _computed(self, fact: Fact) -> bool:
        return fact.name in DERIVED or fact.name.startswith(TRAIT_PREFIX)

    def _presumable(self, fact: Fact) -> bool:
        return fact.presume_when is None or fact.presume_when.truth(self) is True

    def pinned(self, fact: str) -> bool:
        """Whether a fact's value is only what the engine's release requires."""
        return self.get(fact).origin.kind == "engine_pin"

    def written(self, fact: str) -> str:
        """A given fact in the words it was given in; empty where it was not given as one text."""
        given = self.launch.given.get(fact)
        return given.text if given is not None else ""

    def presumed(self) -> tuple[str, ...]:
        """The facts that were asked for and presumed."""
        return tuple(sorted(name for name, held in self._held.items() if held.origin.kind == "presumed"))

    def engine(self) -> Product | None:
        """The engine, where exactly one is possible and the pack knows it."""
        name = self.values("engine.name").single()
        return self.pack.engine(name) if isinstance(name, str) else None

    def _trait(self, fact: Fact) -> Given | None:
        if not fact.name.startswith(TRAIT_PREFIX):
            return None
        if fact.name.startswith(ENGINE_TRAITS):
            product = self.engine()
        else:
            product = self.pack.products.get(fact.name.split(".")[1])
        trait = product.traits.get(fact.name) if product is not None else None
        if product is None or trait is None:
            return Given(fact.domain, UNKNOWN)
        version = self.get(product.version_fact)
        origin = self._derived_from.get(product.version_fact)
        if origin is None:
            origin = self._derived_from[product.version_fact] = Origin("derived", f"{product.version_fact} {self.shown(product.version_fact)}")
        return Given(trait_values(fact, trait, version.values), origin)

    def _derived(self, fact: Fact) -> Given | None:
        function = DERIVED.get(fact.name)
        if function is None:
            return None
        values: Values = function(self) & fact.domain  # type: ignore[operator]
        if values == fact.domain and fact.assume is not None:
            return None
        return Given(
            values, Origin("derived", ", ".join(f"{name.rsplit('.', 1)[-1]} {self.shown(name)}" for name in INPUTS[fact.name] if name in self.launch.given))
        )

    def _engine_versions(self) -> tuple[Product, Ordered] | None:
        engine = self.engine()
        if engine is None:
            return None
        versions = self.values(engine.version_fact)
        assert isinstance(versions, Ordered)
        return engine, versions

    def _pin(self, fact: Fact) -> Given | None:
        if not fact.name.startswith(PACKAGE_PREFIX):
            return None
        found = self._engine_versions()
        pins = found[0].pins.get(found[1].single()) if found else None
        requirement = pins.get(fact.name[len(PACKAGE_PREFIX) :]) if pins else None
        if found is None or requirement is None:
            return None
        wanted = requirement.removeprefix("==")
        try:
            return Given(
                fact.values(wanted, self.pack.releases_of(fact.name)),
                Origin("engine_pin", f"{found[0].name} {self.shown('engine.version')} requires {requirement}"),
                wanted,
            )
        except ValueProblem:
            return None

    def _default(self, fact: Fact) -> Given | None:
        if fact.name.startswith(REQUEST_PREFIX):
            return Given(fact.values(ABSENT), NOT_ASKED)
        if fact.name in ("engine.name", "engine.version"):
            return None
        found = self._engine_versions()
        if found is None or fact.name not in found[0].defaults:
            return None
        joined: Values | None = None
        for _, value in found[0].defaults[fact.name].met(found[1]):
            these = fact.domain if value is None else fact.values(value)
            joined = these if joined is None else joined | these  # type: ignore[operator]
        if joined is None or joined == fact.domain:
            return None
        return Given(joined, Origin("engine_default", found[0].name))

    def shown(self, name: str) -> str:
        """A fact's value in words, as it was given where that says more."""
        fact = self.pack.fact(name)
        assert fact is not None
        given = self.get(name)
        return given.text or fact.show(given.values)

    def bases(self, name: str) -> frozenset[str]:
        """The facts that this one was computed from, down to what can be given; itself where it was not computed."""
        if name in self.launch.given and self.launch.given[name] is self.get(name):
            return frozenset((name,))
        if name in INPUTS:
            return frozenset().union(*(self.bases(one) for one in INPUTS[name]))
        if name.startswith(TRAIT_PREFIX):
            if name.startswith(ENGINE_TRAITS):
                engine = self.engine()
                return frozenset(("engine.name", engine.version_fact if engine else "engine.version"))
            product = self.pack.products.get(name.split(".")[1])
            return frozenset((product.version_fact,)) if product else frozenset((name,))
        return frozenset((name,))

    def contradictions(self) -> list[str]:
        """Derived facts that were given and cannot be true of their inputs, in words."""
        found = []
        for name, function in DERIVED.items():
            given = self.launch.given.get(name)
            fact = self.pack.fact(name)
            if given is None or fact is None:
                continue
            computed: Values = function(self) & fact.domain  # type: ignore[operator]
            if computed and given.values.outside(computed):  # type: ignore[arg-type]
                inputs = ", ".join(f"{one} {self.shown(one)}" for one in INPUTS[name] if one in self.launch.given)
                found.append(f"`{name}` is given as {fact.show(given.values)}, but {inputs} make it {fact.show(computed)}")
        return found
