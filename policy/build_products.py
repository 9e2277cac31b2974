"""Products of a pack: releases, traits, gates, switches, pins, defaults and settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from policy.build_reading import Reading, Source
from policy.conditions import ALWAYS, NEVER, Condition, Path
from policy.facts import Fact
from policy.pack import Arm, Breakpoints, Gate, OnDemand, Product, SettingMap, Switch, Take, Trait, did_you_mean
from policy.versions import Version


class ProductReading(Reading):
    """Reads the folders under `products/`."""

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
        gates = OnDemand()
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
                if part.trusted:
                    gates.promise(part.value["fusion"], partial(self._gate, part, name, through))
                else:
                    gates[part.value["fusion"]] = self._gate(part, name, through)
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
            name,
            raw["title"],
            role,
            raw["package"],
            version_fact,
            releases,
            through,
            traits,
            gates,
            tuple(switches),
            pins,
            defaults,
            settings,
            environment,
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
                maps.append(SettingMap(one["fact"], one.get("values", {}), one.get("given"), tuple(one.get("only", ())), one.get("contains", "")))
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

            into[name] = Trait(
                name, self._breakpoints(source, raw["rows"], (*path, "rows"), horizon, read), tuple(raw.get("references", ())), source.place(path)
            )

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
                    tuple(
                        self._selector(source, link, (*here, "takes", number, "chain", position), raw["fusion"]) for position, link in enumerate(take["chain"])
                    ),
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
            raw["fusion"],
            raw["turn"],
            raw["kind"],
            raw["text"],
            since,
            until,
            reaches,
            raw.get("note", ""),
            self._when(source, raw.get("when"), (*path, "when")),
            source.place(path),
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
