"""Validated data to the nouns of a pack. Used after the loader has checked the shapes, and on a compiled pack."""

from __future__ import annotations

from policy.build_products import ProductReading
from policy.build_reading import Shaped, Source
from policy.build_rules import RuleReading
from policy.conditions import Path, parse
from policy.derive import INPUTS
from policy.facts import Fact
from policy.pack import REQUEST_PREFIX, Device, Fusion, OnDemand, Pack, Plan, did_you_mean
from policy.records import replace


def build(sources: list[Source], name: str, version: str, digest: str, folder: str, shaped: Shaped | None = None) -> Pack:
    """The pack. Defects are reported through the sources; with any of them the result is not to be used."""
    return _Builder(sources, Pack(name, version, digest, folder, {}, OnDemand(), {}, {}, {}, {}, {}), shaped).build()


class _Builder(ProductReading, RuleReading):
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

    # --- facts ---

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
                        source.complain(
                            ("facts", leaf),
                            f"`{source.value['group']}.{leaf}` is computed from `{one}`, which is not declared",
                            "declare it, or drop the derived fact",
                            key=True,
                        )

    def _presumptions(self) -> None:
        for source in self.of("facts"):
            for leaf, raw in source.value["facts"].items():
                if raw.get("presume_when") is not None:
                    name = f"{source.value['group']}.{leaf}"
                    condition = parse(raw["presume_when"], self.vocabulary, ("facts", leaf, "presume_when"), source.complain)
                    self.pack.facts[name] = replace(self.pack.facts[name], presume_when=condition)

    # --- fusions and devices ---

    def _fusion(self, source: Source) -> None:
        raw = source.value
        if raw["fusion"] in self.pack.fusions:
            source.complain(("fusion",), f"the fusion `{raw['fusion']}` stands twice", "")
        plans = []
        for number, one in enumerate(raw["plans"]):
            path: Path = ("plans", number)
            attributes = {
                "fusion": raw["fusion"],
                "id": one["id"],
                **{name: one[name] for name in ("library", "backend", "scope", "passes") if one.get(name)},
                **one.get("attributes", {}),
            }
            needs = tuple(self._when(source, need, (*path, "needs", position)) for position, need in enumerate(one.get("needs", [])))
            plans.append(
                Plan(
                    one["id"],
                    raw["fusion"],
                    attributes,
                    one.get("title", ""),
                    self._when(source, one.get("call"), (*path, "call")),
                    needs,
                    self._when(source, one.get("when"), (*path, "when")),
                )
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

    def _device(self, source: Source) -> None:
        raw = source.value
        if raw["device"] in self.pack.devices:
            source.complain(("device",), f"the device `{raw['device']}` stands twice", "")
        for name, value in raw["facts"].items():
            self._given(source, ("facts", name), name, value)
        self.pack.devices[raw["device"]] = Device(raw["device"], raw["title"], raw["facts"], tuple(raw.get("matches", ())), tuple(raw.get("references", ())))


#: What findings that come from no rule are called.


def request_facts(fusion: str) -> dict[str, Fact]:
    """What may be asked about a fusion: on or off, one plan (by id or backend), a largest size in bytes."""
    name = REQUEST_PREFIX + fusion
    return {
        name: Fact(
            name,
            "text",
            f"what the launch asks of {fusion}",
            ("on", "off"),
            optional=True,
            change="flag",
            find_out="the launch's command line and configuration",
        ),
        name + "_plan": Fact(name + "_plan", "text", f"the only plan the launch admits for {fusion}, by id or backend", optional=True, change="flag"),
        name + "_max_bytes": Fact(
            name + "_max_bytes", "integer", f"the largest tensor the launch admits for {fusion}", minimum=0, unit="bytes", optional=True, change="flag"
        ),
    }
