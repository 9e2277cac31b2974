"""The nouns of a pack: fusions, plans, rules, traits, gates, switches, products, devices, and the pack itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from policy.conditions import ALWAYS, NEVER, Condition
from policy.facts import PACKAGE_PREFIX, Fact, package_fact
from policy.records import dataclass, field
from policy.values import ABSENT, Interval, Ordered, Values
from policy.versions import Version, line_start, shown

EFFECTS = ("exclude", "limit", "warn", "refuse")
#: What happens when a rule is ignored, worst first.
CONSEQUENCES = ("hang", "wrong_numbers", "crash", "partly_fused", "unfused", "slower")
SEVERITY = {name: len(CONSEQUENCES) - position for position, name in enumerate(CONSEQUENCES)}
REQUEST_PREFIX = "request."
TRAIT_PREFIX = "traits."
ENGINE_TRAITS = "traits.engine."
#: No release is below it: a row since "0" holds for every version.
LOWEST = Version("0.dev0")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something of the pack is written: a path below the pack's folder, line and column from 1."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class OnDemand(MutableMapping[str, Any]):
    """A mapping whose values may be made when they are first asked for, for packs that are known to be right."""

    def __init__(self) -> None:
        self._makers: dict[str, Callable[[], Any] | None] = {}
        self._made: dict[str, Any] = {}

    def promise(self, key: str, maker: Callable[[], Any]) -> None:
        """Have a value made when it is first asked for."""
        self._makers[key] = maker

    def __getitem__(self, key: str) -> Any:
        if key not in self._made:
            maker = self._makers[key]
            assert maker is not None
            self._made[key] = maker()
        return self._made[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._makers[key], self._made[key] = None, value

    def __delitem__(self, key: str) -> None:
        del self._makers[key]
        self._made.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._makers

    def __repr__(self) -> str:
        return repr(dict(self))

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@dataclass(frozen=True, slots=True)
class Selector:
    """Chooses plans by attribute: each named attribute must have one of its values."""

    wanted: Mapping[str, frozenset[str]]

    def matches(self, plan: Plan) -> bool:
        """Whether the plan has every wanted attribute."""
        return all(plan.attributes.get(name) in values for name, values in self.wanted.items())

    def __str__(self) -> str:
        return ", ".join(f"{name} {' or '.join(sorted(values))}" for name, values in self.wanted.items()) or "every plan"


@dataclass(frozen=True, slots=True)
class Plan:
    """One concrete way to run a fusion. `call` holds where the builder's call takes this form at all; `needs` are the
    positive conditions without which it is excluded; `when` says where it is preferred."""

    id: str
    fusion: str
    attributes: Mapping[str, str]
    title: str = ""
    call: Condition = ALWAYS
    needs: tuple[Condition, ...] = ()
    when: Condition = ALWAYS

    @property
    def library(self) -> str:
        """Whose kernels run."""
        return self.attributes.get("library", "")

    @property
    def backend(self) -> str:
        """Which of the library's backends."""
        return self.attributes.get("backend", "")

    @property
    def scope(self) -> str:
        """What the workspace spans, as the call names it."""
        return self.attributes.get("scope", "")


@dataclass(frozen=True, slots=True)
class Fusion:
    """A thing that can be on or off, with its plans in order of preference."""

    id: str
    title: str
    plans: tuple[Plan, ...]
    wanted: Condition = ALWAYS
    requires: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    description: str = ""
    references: tuple[str, ...] = ()
    place: Place = Place("")


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a rule: a launch as facts, and whether the rule `fires`, is `silent` or `unknown`."""

    name: str
    launch: Mapping[str, Any]
    expect: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One situation and what it does to plans or to the launch. Rules only narrow. `condition` may be given as a
    function, for packs whose conditions are known to be right: it is read when it is first asked for."""

    id: str
    title: str
    effect: str
    condition: Condition | Callable[[], Condition] = ALWAYS
    plans: Selector | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    consequence: str | None = None
    why: str = ""
    fix: str = ""
    symptoms: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    verified: Mapping[str, Any] | None = None
    confidence: str = "read in source"
    settles: bool = False
    asks: bool = False
    cases: tuple[Case, ...] = ()
    retired: str = ""
    table: str = ""
    place: Place = Place("")

    @property
    def when(self) -> Condition:
        """The situation."""
        if callable(self.condition):
            object.__setattr__(self, "condition", self.condition())
        return self.condition  # type: ignore[return-value]

    @property
    def evidence(self) -> str:
        """How sure the rule is, in a few words."""
        if self.verified:
            return f"measured on {self.verified.get('hardware', 'hardware')}"
        return self.confidence


@dataclass(frozen=True, slots=True)
class Breakpoints:
    """A value by version: each row holds from `since` on; beyond `through` nothing is known. None is `not known`."""

    rows: tuple[tuple[Version, Any], ...]
    through: Version | None = None
    _segments: tuple[tuple[Interval, Any, Ordered], ...] | None = field(default=None, init=False, repr=False, compare=False)

    def segments(self) -> Iterator[tuple[Interval, Any]]:
        """The rows as intervals of versions, with the unknown ends; `None` values where nothing is known."""
        for interval, value, _ in self._remembered():
            yield interval, value

    def _remembered(self) -> tuple[tuple[Interval, Any, Ordered], ...]:
        """The segments, each with its interval as a set of values; made once, since every trait of a launch asks for them."""
        held = self._segments
        if held is None:
            held = tuple((interval, value, Ordered((interval,))) for interval, value in self._cut())
            object.__setattr__(self, "_segments", held)
        return held

    def _cut(self) -> Iterator[tuple[Interval, Any]]:
        start: Version | None = None
        value: Any = None
        for since, following in self.rows:
            point = line_start(since)
            if point > LOWEST:
                yield Interval(start, start is not None, point, False), value
                start = point
            value = following
        if self.through is None:
            yield Interval(start, start is not None, None, False), value
        else:
            yield Interval(start, start is not None, self.through, True), value
            yield Interval(self.through, False, None, False), None

    def met(self, versions: Ordered) -> Iterator[tuple[Interval, Any]]:
        """The segments that share a version with the set."""
        for interval, value, segment in self._remembered():
            if not versions.outside(segment):
                yield interval, value


@dataclass(frozen=True, slots=True)
class Trait:
    """What the releases of a product can do, as a fact `traits.NAMESPACE.NAME`."""

    fact: str
    breakpoints: Breakpoints
    references: tuple[str, ...] = ()
    place: Place = Place("")


@dataclass(frozen=True, slots=True)
class Take:
    """Which plans an engine tries: the links of `chain` in order. `falls_back` says that it goes on cleanly to the next
    link where one cannot be created."""

    chain: tuple[Selector, ...]
    when: Condition = ALWAYS
    falls_back: bool = False


@dataclass(frozen=True, slots=True)
class Arm:
    """What one range of releases does when left alone, for the three requests: the conditions under which the fusion is
    configured on, the conditions under which the launch does not start, and the plans it takes. `known` is False where
    nobody read the release."""

    unset: Condition = NEVER
    requested_on: Condition = ALWAYS
    requested_off: Condition = NEVER
    dies: Condition = NEVER
    dies_why: str = ""
    takes: tuple[Take, ...] = ()
    known: bool = True
    note: str = ""
    place: Place = Place("")


@dataclass(frozen=True, slots=True)
class Gate:
    """What one engine does with one fusion when left alone, by version."""

    id: str
    product: str
    fusion: str
    setting: str
    arms: Breakpoints
    through: Version
    references: tuple[str, ...] = ()
    place: Place = Place("")


@dataclass(frozen=True, slots=True)
class Switch:
    """How a range of releases is told. `turn` is on, off, plan, or carry for what brings variables to workers that
    somebody else starts; `reaches` selects the plans that a `plan` switch leads to; `kind` is flag, env, config, or none where there is no switch."""

    fusion: str
    turn: str
    kind: str
    text: str
    since: Version
    until: Version | None = None
    reaches: Selector | None = None
    note: str = ""
    when: Condition = ALWAYS
    place: Place = Place("")

    def covers(self, versions: Ordered) -> bool:
        """Whether the switch exists in every one of these versions."""
        return versions.within(self._window())

    def overlaps(self, versions: Ordered) -> bool:
        """Whether the switch exists in one of these versions."""
        return not versions.outside(self._window())

    def _window(self) -> Ordered:
        return Ordered((Interval(line_start(self.since), True, None if self.until is None else line_start(self.until), False),))


@dataclass(frozen=True, slots=True)
class SettingMap:
    """What a setting of an engine says about a fact: its `values` translated (by lower-case text), or `given` where it
    is given at all; with `only`, other values say nothing, and with `contains` those without that part."""

    fact: str
    values: Mapping[str, Any] = field(default_factory=dict)
    given: Any = None
    only: tuple[str, ...] = ()
    contains: str = ""

    def fact_value(self, raw: Any) -> Any:
        """The fact's value for a setting's value; None where it says nothing."""
        text = str(raw).lower()
        if (self.only and text not in self.only) or self.contains not in text:
            return None
        if self.given is not None:
            return self.given
        return self.values.get(text, raw)


@dataclass(frozen=True, slots=True)
class Product:
    """One engine or library: its version fact, known releases, traits, gates, switches, pins and defaults."""

    name: str
    title: str
    role: str
    package: str
    version_fact: str
    releases: tuple[Version, ...] = ()
    through: Version | None = None
    traits: Mapping[str, Trait] = field(default_factory=dict)
    gates: Mapping[str, Gate] = field(default_factory=dict)
    switches: tuple[Switch, ...] = ()
    pins: Mapping[Version, Mapping[str, str]] = field(default_factory=dict)
    defaults: Mapping[str, Breakpoints] = field(default_factory=dict)
    settings: Mapping[str, tuple[SettingMap, ...]] = field(default_factory=dict)
    environment: Mapping[str, tuple[SettingMap, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Device:
    """A named machine whose facts are known."""

    name: str
    title: str
    facts: Mapping[str, Any]
    matches: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


@dataclass(slots=True)
class Pack:
    """Everything known, read-only once loaded. `folder` is where its files lie; `digest` names its content."""

    name: str
    version: str
    digest: str
    folder: str
    facts: dict[str, Fact]
    conditions: MutableMapping[str, Condition]
    condition_titles: dict[str, str]
    fusions: dict[str, Fusion]
    rules: dict[str, Rule]
    products: dict[str, Product]
    devices: dict[str, Device]
    _selected: dict[tuple[str, str], tuple[Plan, tuple[int, ...], tuple[Rule, ...]]] = field(default_factory=dict, repr=False, compare=False)

    def fact(self, name: str) -> Fact | None:
        """The fact of that name; any distribution may follow `packages.`, any fusion `request.`."""
        found = self.facts.get(name)
        if found is None and name.startswith(PACKAGE_PREFIX) and len(name) > len(PACKAGE_PREFIX):
            found = self.facts[name] = package_fact(name)
        return found

    def named(self, name: str) -> Condition | None:
        """The named condition, or None."""
        return self.conditions.get(name)

    def suggest(self, name: str) -> str:
        """A did-you-mean sentence for an unknown fact or condition."""
        return did_you_mean(name, (*self.facts, *self.conditions))

    def engine(self, name: str) -> Product | None:
        """The engine of that name, or None."""
        product = self.products.get(name)
        return product if product is not None and product.role == "engine" else None

    def releases_of(self, fact: str) -> tuple[Version, ...]:
        """Known releases of the one product whose version the fact is; empty where there is none, or more than one."""
        found = [product.releases for product in self.products.values() if product.version_fact == fact]
        return found[0] if len(found) == 1 else ()

    def rules_for(self, plan: Plan) -> tuple[Rule, ...]:
        """The rules in force that select the plan; remembered for as long as the rules are the same."""
        rules = tuple(map(id, self.rules.values()))
        held = self._selected.get((plan.fusion, plan.id))
        if held is None or held[0] is not plan or held[1] != rules:
            found = tuple(rule for rule in self.rules.values() if rule.plans is not None and not rule.retired and rule.plans.matches(plan))
            held = self._selected[plan.fusion, plan.id] = (plan, rules, found)
        return held[2]

    def launch_rules(self) -> Iterator[Rule]:
        """The rules in force that speak of the launch as a whole."""
        return (rule for rule in self.rules.values() if rule.plans is None and not rule.retired)

    def in_order(self) -> list[Fusion]:
        """The fusions, each after those it requires or is decided after."""
        done: dict[str, Fusion] = {}

        def visit(fusion: Fusion) -> None:
            for other in sorted((*fusion.requires, *fusion.after)):
                if other not in done and other in self.fusions:
                    visit(self.fusions[other])
            done[fusion.id] = fusion

        for _, fusion in sorted(self.fusions.items()):
            if fusion.id not in done:
                visit(fusion)
        return list(done.values())


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean …?` with the nearest known names, or an empty text."""
    import difflib  # only where something is wrong

    known = sorted(set(known))
    near = difflib.get_close_matches(name, known, 3, 0.6)
    closeness = [difflib.SequenceMatcher(None, one, name).ratio() for one in near]
    near = [one for one, ratio in zip(near, closeness, strict=True) if ratio > closeness[0] - 0.1]
    if not near:
        tail = name.rsplit(".", 1)[-1].replace("-", "_")
        near = [candidate for candidate in known if candidate.rsplit(".", 1)[-1].replace("-", "_") == tail][:3]
    return f"did you mean {' or '.join(f'`{one}`' for one in near)}?" if near else ""


def trait_values(fact: Fact, trait: Trait, versions: Values) -> Values:
    """What the trait may be for a set of versions: the union of the rows met; `absent` where the product is."""
    assert isinstance(versions, Ordered)
    joined: Values | None = None
    if versions.absent:
        joined = fact.values(ABSENT) if fact.optional else fact.domain
    for _, value in trait.breakpoints.met(versions):
        these = fact.domain if value is None else fact.values(value)
        joined = these if joined is None else joined | these  # type: ignore[operator]
    return fact.domain if joined is None else joined


def releases_between(releases: Iterable[Version], interval: Interval) -> str:
    """An interval of versions with the releases that it contains, in words: `>=0.6.10.post1,<0.6.15 (0.6.10.post1 to 0.6.14)`."""
    inside = [release for release in releases if interval.holds(release)]
    if not inside:
        return ""
    return shown(inside[0]) if len(inside) == 1 else f"{shown(inside[0])} to {shown(inside[-1])}"
