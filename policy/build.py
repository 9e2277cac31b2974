"""Validated data to the nouns of a pack. Used after the loader has checked the shapes, and on a compiled pack."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from policy.conditions import ALWAYS, NEVER, Condition, Path, parse
from policy.derive import INPUTS
from policy.facts import Fact, ValueProblem, plain
from policy.pack import (
    REQUEST_PREFIX,
    Arm,
    Breakpoints,
    Case,
    Device,
    Fusion,
    Gate,
    OnDemand,
    Pack,
    Place,
    Plan,
    Product,
    Rule,
    Selector,
    SettingMap,
    Switch,
    Take,
    Trait,
    did_you_mean,
)
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
class _Vocabulary:
    """What conditions may speak of, gate-private conditions before those of the pack."""

    facts: Callable[[str], Fact | None]
    conditions: Mapping[str, Condition]
    private: Mapping[str, Condition] = field(default_factory=dict)
    known: Callable[[], list[str]] = list

    def fact(self, name: str) -> Fact | None:
        return self.facts(name)

    def named(self, name: str) -> Condition | None:
        return self.private.get(name) or self.conditions.get(name)

    def suggest(self, name: str) -> str:
        return did_you_mean(name, (*self.known(), *self.conditions, *self.private))


#: Whether the fields of a rule that a table makes have the shape of a rule; complains through the source where not.
Shaped = Callable[[Source, Path, Mapping[str, Any]], bool]


def build(sources: list[Source], name: str, version: str, digest: str, folder: str, shaped: Shaped | None = None) -> Pack:
    """The pack. Defects are reported through the sources; with any of them the result is not to be used."""
    return _Builder(sources, Pack(name, version, digest, folder, {}, {}, {}, {}, {}, {}, {}), shaped).build()


class _Builder:
    def __init__(self, sources: list[Source], pack: Pack, shaped: Shaped | None) -> None:
        self.sources, self.pack, self.shaped = sources, pack, shaped
        self.vocabulary = _Vocabulary(pack.fact, pack.conditions, {}, lambda: list(pack.facts))

    def of(self, *kinds: str) -> Iterator[Source]:
        return (source for source in self.sources if source.kind in kinds)

    def build(self) -> Pack:
        for source in self.of("facts"):
            self._facts(source)
        for source in self.of("fusion"):
            for suffix, fact in request_facts(source.value["fusion"]).items():
                self.pack.facts[suffix] = fact
        self._derivations()
        self._conditions(list(self.of("conditions")), self.vocabulary, self.pack.conditions, self.pack.condition_titles)
        self._presumptions()
        for source in self.of("fusion"):
            self._fusion(source)
        self._order()
        for source in self.of("product"):
            self._product(source)
        self._orphans()
        for source in self.of("rule"):
            self._rule(source, source.value, (), "")
        for source in self.of("table"):
            self._table(source)
        for source in self.of("device"):
            self._device(source)
        return self.pack

    def _orphans(self) -> None:
        """Files that no part of the pack would ever read."""
        for source in self.of("traits", "gate", "switches", "pins", "defaults", "settings"):
            folder = source.file.split("/")[1]
            if folder not in self.pack.products:
                source.complain((), f"the folder `products/{folder}` has no product.yaml", "write one with product, title, role and package")
        for kind, name in (("manifest", "name"), ("conditions", "conditions")):
            for source in [*self.of(kind)][1:]:
                if "_" not in source.file:  # `conditions_NAME.yaml` stands beside `conditions.yaml`
                    source.complain((name,), f"a second `{source.file.rpartition('.')[0]}` file", "keep one of them", key=True)

    # --- facts and conditions ---

    def _facts(self, source: Source) -> None:
        group = source.value["group"]
        for leaf, raw in source.value["facts"].items():
            name, path = f"{group}.{leaf}", ("facts", leaf)
            if name in self.pack.facts:
                source.complain(path, f"the fact `{name}` is declared twice", "")
                continue
            fact = Fact(name=name, **{**raw, "choices": tuple(raw.get("choices") or ())})
            self.pack.facts[name] = fact
            self._domain(source, path, fact)
            for use in ("assume", "presume"):
                if raw.get(use) is not None:
                    self._value(source, (*path, use), fact, raw[use])

    def _domain(self, source: Source, path: Path, fact: Fact) -> None:
        """A domain that has values, said in the way of its type."""
        if fact.choices and fact.type not in ("text", "set"):
            source.complain((*path, "choices"), f"`choices` are for texts and sets, and `{fact.name}` is of the type {fact.type}", "", key=True)
        for bound in ("minimum", "maximum"):
            if getattr(fact, bound) is not None and fact.type not in ("integer", "number"):
                source.complain((*path, bound), f"`{bound}` is for numbers, and `{fact.name}` is of the type {fact.type}", "", key=True)
        if fact.minimum is not None and fact.maximum is not None and fact.minimum > fact.maximum:
            source.complain((*path, "minimum"), f"`minimum` {fact.minimum:g} is above `maximum` {fact.maximum:g}", "", key=True)

    def _derivations(self) -> None:
        """What a derived fact is computed from is declared too."""
        for source in self.of("facts"):
            for leaf in source.value["facts"]:
                for one in INPUTS.get(f"{source.value['group']}.{leaf}", ()):
                    if self.pack.fact(one) is None:
                        source.complain(("facts", leaf), f"`{source.value['group']}.{leaf}` is computed from `{one}`, which is not declared", "declare it, or drop the derived fact", key=True)

    def _presumptions(self) -> None:
        for source in self.of("facts"):
            for leaf, raw in source.value["facts"].items():
                if raw.get("presume_when") is not None:
                    name = f"{source.value['group']}.{leaf}"
                    condition = parse(raw["presume_when"], self.vocabulary, ("facts", leaf, "presume_when"), source.complain)
                    self.pack.facts[name] = replace(self.pack.facts[name], presume_when=condition)

    def _conditions(self, sources: list[Source], vocabulary: _Vocabulary, into: dict[str, Condition], titles: dict[str, str]) -> None:
        """Named conditions may name each other in any order; a circle is a problem."""
        raws: dict[str, tuple[Source, Any]] = {}
        for source in sources:
            for name, raw in source.value.get("conditions", {}).items():
                if name in raws or (into is not self.pack.conditions and name in self.pack.conditions):
                    source.complain(("conditions", name), f"the condition `{name}` is declared twice", "")
                    continue
                if name in ("absent", "present", "unknown"):
                    source.complain(("conditions", name), f"`{name}` is a value and cannot name a condition", "")
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

    # --- fusions ---

    def _fusion(self, source: Source) -> None:
        raw = source.value
        if raw["fusion"] in self.pack.fusions:
            source.complain(("fusion",), f"the fusion `{raw['fusion']}` stands twice", "")
        plans = []
        for number, one in enumerate(raw["plans"]):
            path: Path = ("plans", number)
            attributes = {"fusion": raw["fusion"], "id": one["id"], **{name: one[name] for name in ("library", "backend", "scope", "passes") if one.get(name)}, **one.get("attributes", {})}
            needs = tuple(self._when(source, need, (*path, "needs", position)) for position, need in enumerate(one.get("needs", [])))
            plans.append(
                Plan(one["id"], raw["fusion"], attributes, one.get("title", ""), self._when(source, one.get("call"), (*path, "call")), needs, self._when(source, one.get("when"), (*path, "when")))
            )
        ids = [plan.id for plan in plans]
        for number, one_id in enumerate(ids):
            if one_id in ids[:number]:
                source.complain(("plans", number, "id"), f"the plan `{one_id}` stands twice", "")
        self.pack.fusions[raw["fusion"]] = Fusion(
            raw["fusion"],
            raw["title"],
            tuple(plans),
            self._when(source, raw.get("wanted"), ("wanted",)),
            tuple(raw.get("requires", ())),
            tuple(raw.get("after", ())),
            raw.get("description", ""),
            tuple(raw.get("references", ())),
            source.place(()),
        )

    def _order(self) -> None:
        """Requirements name fusions of the pack and have no circle."""
        edges = {fusion.id: (*fusion.requires, *fusion.after) for fusion in self.pack.fusions.values()}
        for source in self.of("fusion"):
            name = source.value["fusion"]
            for kind in ("requires", "after"):
                for number, other in enumerate(source.value.get(kind, [])):
                    if other not in edges:
                        source.complain((kind, number), f"no fusion is named `{other}`", did_you_mean(other, edges))
            seen: set[str] = set()
            waiting = list(edges[name])
            while waiting:
                other = waiting.pop()
                if other == name:
                    source.complain(("fusion",), f"`{name}` is decided after itself", "break the circle of `requires` and `after`")
                    break
                if other not in seen:
                    seen.add(other)
                    waiting.extend(edges.get(other, ()))

    # --- products ---

    def _product(self, source: Source) -> None:
        raw = source.value
        name, role = raw["product"], raw["role"]
        if source.file.split("/")[1:2] != [name]:
            source.complain(("product",), f"the product `{name}` lies in the folder `{source.file.rpartition('/')[0]}`", f"name the folder `products/{name}`")
        if name in self.pack.products:
            source.complain(("product",), f"the product `{name}` stands twice", "")
        through = self._version(source, raw["through"], ("through",)) if raw.get("through") else None
        releases = tuple(sorted(self._version(source, release, ("releases", number)) for number, release in enumerate(raw.get("releases", []))))
        version_fact = "engine.version" if role == "engine" else f"packages.{raw['package']}"
        prefix = f"products/{name}/"
        traits: dict[str, Trait] = {}
        gates: dict[str, Gate] = {}
        makers: dict[str, Callable[[], Gate]] = {}
        switches: list[Switch] = []
        pins: dict[Version, Mapping[str, str]] = {}
        defaults: dict[str, Breakpoints] = {}
        settings: dict[str, tuple[SettingMap, ...]] = {}
        environment: dict[str, tuple[SettingMap, ...]] = {}
        for part in self.sources:
            if not part.file.startswith(prefix):
                continue
            if part.kind == "traits":
                self._traits(part, "engine" if role == "engine" else name, through, traits)
            elif part.kind == "gate":
                gate = self._gate(part, name, through)
                gates[gate.fusion] = gate
            elif part.kind == "switches":
                switches.extend(self._switch(part, one, ("switches", number)) for number, one in enumerate(part.value["switches"]))
            elif part.kind == "pins":
                self._join(part, "pins", pins, {self._version(part, version, ("pins", version)): wanted for version, wanted in part.value["pins"].items()})
            elif part.kind == "defaults":
                self._defaults(part, defaults)
            elif part.kind == "settings":
                self._join(part, "settings", settings, self._settings(part, "settings"))
                self._join(part, "environment", environment, self._settings(part, "environment"))
        self.pack.products[name] = Product(
            name, raw["title"], role, raw["package"], version_fact, releases, through, traits, OnDemand(makers) if makers else gates, tuple(switches), pins, defaults, settings, environment
        )

    def _join(self, source: Source, section: str, into: dict[Any, Any], found: Mapping[Any, Any]) -> None:
        """Add what one file says; what another file has said already is a problem."""
        for name in found:
            if name in into:
                source.complain((section, str(name)), f"`{name}` stands in another file of the product too", "keep one of them", key=True)
        into.update(found)

    def _settings(self, source: Source, section: str) -> dict[str, tuple[SettingMap, ...]]:
        found: dict[str, tuple[SettingMap, ...]] = {}
        for name, raw in source.value.get(section, {}).items():
            maps = []
            for number, one in enumerate(raw if isinstance(raw, list) else [raw]):
                path: Path = (section, name, number) if isinstance(raw, list) else (section, name)
                for place, value in ((("given",), one.get("given")), *((("values", text), value) for text, value in one.get("values", {}).items())):
                    if value is not None:
                        self._given(source, (*path, *place), one["fact"], value)
                if self.pack.fact(one["fact"]) is None:
                    source.complain((*path, "fact"), f"no fact is named `{one['fact']}`", self.vocabulary.suggest(one["fact"]))
                maps.append(SettingMap(one["fact"], one.get("values", {}), one.get("given"), tuple(one.get("only", ()))))
            found[name] = tuple(maps)
        return found

    def _traits(self, source: Source, namespace: str, through: Version | None, into: dict[str, Trait]) -> None:
        for leaf, raw in source.value["traits"].items():
            name, path = f"traits.{namespace}.{leaf}", ("traits", leaf)
            fact = self.pack.fact(name)
            if name in into:
                source.complain(path, f"the trait `{name}` stands in another file of the product too", "keep one of them", key=True)
            if fact is None:
                source.complain(path, f"no fact is declared for the trait `{name}`", did_you_mean(name, self.pack.facts) or "declare it in facts/traits.yaml")
                continue
            horizon = self._version(source, raw["through"], (*path, "through")) if raw.get("through") else through

            def read(row: Any, here: Path, fact: Fact = fact) -> Any:
                if row.get("value") is not None:
                    self._value(source, (*here, "value"), fact, row["value"])
                return row.get("value")

            into[name] = Trait(name, self._breakpoints(source, raw["rows"], (*path, "rows"), horizon, read), tuple(raw.get("references", ())), source.place(path))

    def _gate(self, source: Source, product: str, product_through: Version | None) -> Gate:
        raw = source.value
        if raw["fusion"] not in self.pack.fusions:
            source.complain(("fusion",), f"no fusion is named `{raw['fusion']}`", did_you_mean(raw["fusion"], self.pack.fusions))
        private: dict[str, Condition] = {}
        self._conditions([source], self.vocabulary, private, {})
        through = self._version(source, raw["through"], ("through",)) if raw.get("through") else product_through
        if through is None:
            source.complain((), "neither the gate nor its product says `through`", "state the newest release that was read")
            through = Version("0")

        def read(arm: Any, here: Path) -> Arm:
            takes = tuple(
                Take(
                    tuple(self._selector(source, link, (*here, "takes", number, "chain", position), raw["fusion"]) for position, link in enumerate(take["chain"])),
                    self._when(source, take.get("when"), (*here, "takes", number, "when"), ALWAYS, private),
                    take.get("falls_back", False),
                )
                for number, take in enumerate(arm.get("takes", []))
            )

            def when(name: str, default: Condition) -> Condition:
                return self._when(source, arm.get(name), (*here, name), default, private)

            return Arm(
                when("unset", NEVER),
                when("requested_on", ALWAYS),
                when("requested_off", NEVER),
                when("dies", NEVER),
                arm.get("dies_why", ""),
                takes,
                arm.get("known", True),
                arm.get("note", ""),
                source.place(here),
            )

        # a gate goes on predicting beyond `through` by its newest arm, and the evaluation says so
        arms = self._breakpoints(source, raw["arms"], ("arms",), None, read)
        return Gate(raw["gate"], product, raw["fusion"], raw["setting"], arms, through, tuple(raw.get("references", ())), source.place(()))

    def _switch(self, source: Source, raw: Mapping[str, Any], path: Path) -> Switch:
        if raw["fusion"] not in self.pack.fusions:
            source.complain((*path, "fusion"), f"no fusion is named `{raw['fusion']}`", did_you_mean(raw["fusion"], self.pack.fusions))
        reaches = self._selector(source, raw["reaches"], (*path, "reaches"), raw["fusion"]) if raw.get("reaches") else None
        until = self._version(source, raw["until"], (*path, "until")) if raw.get("until") else None
        since = self._version(source, raw["since"], (*path, "since"))
        return Switch(
            raw["fusion"], raw["turn"], raw["kind"], raw["text"], since, until, reaches, raw.get("note", ""), self._when(source, raw.get("when"), (*path, "when")), source.place(path)
        )

    def _defaults(self, source: Source, into: dict[str, Breakpoints]) -> None:
        for name, raw in source.value["defaults"].items():
            path: Path = ("defaults", name)
            fact = self.pack.fact(name)
            if name in into:
                source.complain(path, f"`{name}` stands in another file of the product too", "keep one of them", key=True)
            if fact is None:
                source.complain(path, f"no fact is named `{name}`", self.vocabulary.suggest(name), key=True)
                continue
            rows = raw if isinstance(raw, list) else [{"since": "0", "value": raw}]

            def read(row: Any, here: Path, fact: Fact = fact) -> Any:
                if row.get("value") is not None:
                    self._value(source, (*here, "value"), fact, row["value"])
                return row.get("value")

            into[name] = self._breakpoints(source, rows, path, None, read)

    # --- rules ---

    def _rule(self, source: Source, raw: Mapping[str, Any], path: Path, table: str) -> None:
        name = raw["id"]
        if name in RESERVED:
            source.complain((*path, "id"), f"`{name}` cannot name a rule", "findings have that name already")
        if name in self.pack.rules:
            source.complain((*path, "id"), f"the rule `{name}` stands twice", f"the other is in {self.pack.rules[name].place}")
            return
        effect, limit = raw["effect"], raw.get("limit")
        if (effect == "limit") != (limit is not None):
            source.complain((*path, "effect"), "a rule with the effect `limit`, and only such a rule, has a `limit`", "")
        for quantity, value in (limit or {}).items():
            self._limit(source, (*path, "limit", quantity), quantity, value)
        if effect in ("exclude", "refuse") and not raw.get("consequence"):
            source.complain((*path, "effect"), f"a rule that {effect}s states its `consequence`", "what happens when it is ignored: hang, wrong_numbers, crash, partly_fused, unfused, slower")
        plans = self._selector(source, raw["plans"], (*path, "plans")) if raw.get("plans") is not None else None
        if plans is None and effect in ("exclude", "limit"):
            source.complain((*path, "effect"), f"a rule that {effect}s says which `plans`", "")
        if plans is not None and effect == "refuse":
            source.complain((*path, "plans"), "a rule that refuses speaks of the launch, not of plans", "")
        for number, case in enumerate(raw.get("cases", [])):
            for fact_name, value in case["launch"].items():
                self._given(source, (*path, "cases", number, "launch", fact_name), fact_name, value)
        self.pack.rules[name] = Rule(
            name,
            raw["title"],
            effect,
            self._rule_condition(source, raw.get("when"), (*path, "when")),
            plans,
            limit or {},
            raw.get("consequence"),
            raw.get("why", "").strip(),
            raw.get("fix", "").strip(),
            tuple(raw.get("symptoms", ())),
            tuple(raw.get("references", ())),
            raw.get("verified"),
            raw.get("confidence", "read in source"),
            raw.get("settles", False),
            raw.get("asks", False),
            tuple(Case(case["name"], case["launch"], case["expect"]) for case in raw.get("cases", [])),
            raw.get("retired", ""),
            table,
            source.place(path),
        )

    def _rule_condition(self, source: Source, raw: Any, path: Path) -> Condition | Callable[[], Condition]:
        if source.trusted and raw is not None:
            return lambda: self._when(source, raw, path)
        return self._when(source, raw, path)

    def _limit(self, source: Source, path: Path, quantity: str, value: Any) -> None:
        if isinstance(value, str) and self.pack.fact(value) is None:
            source.complain(path, f"no fact is named `{value}`", self.vocabulary.suggest(value))
        if quantity.startswith(("max_", "min_")) == isinstance(value, list):
            source.complain(path, f"`{quantity}` takes {'a number or a fact' if quantity.startswith(('max_', 'min_')) else 'a list'}", "name a bound `max_…` or `min_…`")

    def _given(self, source: Source, path: Path, name: str, value: Any) -> None:
        fact = self.pack.fact(name)
        if fact is None:
            source.complain(path, f"no fact is named `{name}`", self.vocabulary.suggest(name), key=True)
        else:
            self._value(source, path, fact, value)

    def _table(self, source: Source) -> None:
        raw = source.value
        columns = {column for row in raw["rows"] for column in row}
        spoken = {"id", *raw.get("keys", {}), *RULE_FIELDS, *_named_columns([raw["rule"], *raw.get("also", {}).values()], columns)}
        held: list[Any] = []
        for number, row in enumerate(raw["rows"]):
            path: Path = ("rows", number)
            for column in row:
                if column not in spoken:
                    source.complain((*path, column), f"nothing speaks of the column `{column}`", did_you_mean(column, spoken) or f"name it in `keys`, or as `{{{column}}}` in a text", key=True)
            keys = {fact: row[column] for column, fact in raw.get("keys", {}).items() if column in row}
            here = [part for part in (keys or None, row.get("when")) if part is not None]
            held.append({"all": here} if here else True)
            name = f"{raw['table']}/{row.get('id', number)}"
            own = {field: value for field, value in row.items() if field not in raw.get("keys", {}) and field in RULE_FIELDS}
            self._table_rule(source, {**_filled(raw["rule"], row, columns), **own}, name, [*here, raw["rule"].get("when")], path)
            for suffix, fields in raw.get("also", {}).items():
                if _named_columns(fields, columns) <= set(row):
                    merged = {**raw["rule"], **fields}
                    self._table_rule(source, _filled(merged, row, columns), f"{name}-{suffix}", [*here, _filled(merged.get("when"), row, columns)], path)
        for name, fields in raw.get("otherwise", {}).items():
            merged = {**raw["rule"], **fields}
            nowhere = {"not": {"any": held}}
            self._table_rule(source, merged, f"{raw['table']}/{name}", [merged.get("when"), nowhere], ("otherwise", name))

    def _table_rule(self, source: Source, fields: Mapping[str, Any], name: str, conditions: list[Any], path: Path) -> None:
        parts = [part for part in conditions if part is not None]
        merged = {**fields, "id": name, "when": None if not parts else parts[0] if len(parts) == 1 else {"all": parts}}
        missing = [one for one in ("title", "effect") if not merged.get(one)]
        for one in missing:
            source.complain(path, f"the row has no `{one}`, and the table gives none", "")
        if not missing and (self.shaped is None or self.shaped(source, path, merged)):
            self._rule(_Row(source, path), merged, path, source.value["table"])

    def _device(self, source: Source) -> None:
        raw = source.value
        if raw["device"] in self.pack.devices:
            source.complain(("device",), f"the device `{raw['device']}` stands twice", "")
        for name, value in raw["facts"].items():
            self._given(source, ("facts", name), name, value)
        self.pack.devices[raw["device"]] = Device(raw["device"], raw["title"], raw["facts"], tuple(raw.get("matches", ())), tuple(raw.get("references", ())))


#: What findings that come from no rule are called.
RESERVED = ("call", "needs", "request", "requires")

RULE_FIELDS = (
    "title", "plans", "when", "effect", "limit", "consequence", "why", "fix", "symptoms", "references", "verified", "confidence", "settles", "asks", "retired", "cases",
)  # fmt: skip


class _Row:
    """A row of a table as the source of a rule: a defect of what all rows share is reported where it is written, once."""

    def __init__(self, source: Source, path: Path) -> None:
        self.source, self.path = source, path
        self.kind, self.file, self.value, self.trusted = source.kind, source.file, source.value, source.trusted
        self.shared: Mapping[str, Any] = source.value["rule"]
        self.row: Mapping[str, Any] = source.value[path[0]][path[1]]

    def place(self, path: Path) -> Place:
        return self.source.place(path)

    def complain(self, path: Path, message: str, help: str, key: bool = False) -> None:
        inside = path[len(self.path) :]
        column = next((column for column, fact in self.value.get("keys", {}).items() if fact == inside[-1] and column in self.row), None) if inside[:1] == ("when",) else None
        if column is not None:
            path = (*self.path, column)
        elif inside and inside[0] not in self.row and inside[0] in self.shared:
            path = ("rule", *inside)
        self.source.complain(path, message, help, key)


@dataclass(slots=True)
class _Resolving:
    """The vocabulary while named conditions are still being read."""

    outer: _Vocabulary
    resolve: Callable[[str], Condition | None]
    names: list[str]

    def fact(self, name: str) -> Fact | None:
        return self.outer.fact(name)

    def named(self, name: str) -> Condition | None:
        return self.resolve(name)

    def suggest(self, name: str) -> str:
        return did_you_mean(name, (*self.outer.known(), *self.outer.conditions, *self.names))


def _named_columns(value: Any, columns: set[str]) -> set[str]:
    """The columns that the texts of a template name."""
    if isinstance(value, str):
        return {column for column in columns if "{" + column + "}" in value}
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {column for one in inner for column in _named_columns(one, columns)}


def _filled(value: Any, row: Mapping[str, Any], columns: set[str]) -> Any:
    """The shared fields of a table's rows with `{column}` replaced by the row's value; a value that is only `{column}`
    keeps its type."""
    if isinstance(value, str):
        for column in columns:
            if value == "{" + column + "}":
                return row.get(column)
            value = value.replace("{" + column + "}", plain(row[column]) if column in row else "")
        return value
    if isinstance(value, Mapping):
        return {key: _filled(inner, row, columns) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, row, columns) for inner in value]
    return value


def request_facts(fusion: str) -> dict[str, Fact]:
    """What may be asked about a fusion: on or off, one plan (by id or backend), a largest size in bytes."""
    name = REQUEST_PREFIX + fusion
    return {
        name: Fact(name, "text", f"what the launch asks of {fusion}", ("on", "off"), optional=True, change="flag", find_out="the launch's command line and configuration"),
        name + "_plan": Fact(name + "_plan", "text", f"the only plan the launch admits for {fusion}, by id or backend", optional=True, change="flag"),
        name + "_max_bytes": Fact(name + "_max_bytes", "integer", f"the largest tensor the launch admits for {fusion}", minimum=0, unit="bytes", optional=True, change="flag"),
    }
