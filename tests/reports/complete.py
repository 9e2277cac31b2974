"""What a report leaves out, filled in only where the answer asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from policy.launch import Launch
from policy.origin import Origin
from policy.pack import Pack
from policy.values import Ordered
from policy.versions import parse
from tests.reports.read import read_report
from tests.reports.readings import known_model

PROFILE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "profile.yaml").read_text(encoding="utf-8"))


class Completion:
    """The facts that one report can be completed with, and those that were taken."""

    def __init__(self, pack: Pack, report: Mapping[str, Any], fusions: list[str]) -> None:
        self.pack, self.report, self.fusions = pack, report, fusions
        config = {key: value for key, value in (report.get("config") or {}).items() if key not in ("flags", "env", "note", "model", "kv")}
        self.own, _ = read_report(pack, fusions, config)
        model = known_model(str((report.get("config") or {}).get("model", "")))
        if model is not None:
            self.own = {"model.architecture": model[0], "model.is_moe": model[1], **self.own}
        self.taken: dict[str, str] = {}

    def next(self, launch: Launch, asked: Iterable[str], last: bool) -> Launch | None:
        """The launch with one asked fact more, or None where nothing is left to fill in."""
        for name in sorted(asked, key=lambda one: (one != "engine.name", one != "engine.version", one)):
            if self._settled(launch, name):
                continue
            for facts, where in self._offers(launch, name, last):
                changed = self._stated(launch, facts, where)
                if changed is not None:
                    return changed
        return None

    def _settled(self, launch: Launch, name: str) -> bool:
        given = launch.given.get(name)
        return given is not None and given.values.single() is not None

    def _stated(self, launch: Launch, facts: Mapping[str, Any], where: str) -> Launch | None:
        changed = Launch(dict(launch.given))
        took = False
        for name, value in facts.items():
            fact = self.pack.fact(name)
            if fact is None:
                continue
            values = fact.values(value, self.pack.releases_of(name))
            held = changed.given.get(name)
            if held is not None:
                values = values & held.values  # type: ignore[operator]
                if not values or values == held.values:
                    continue
            changed = changed.with_facts(self.pack, {name: values}, Origin("facts", where))
            self.taken[name] = f"{fact.show(values)} ({where})"
            took = True
        return changed if took else None

    def _offers(self, launch: Launch, name: str, last: bool) -> Iterable[tuple[Mapping[str, Any], str]]:
        if name in self.own:
            yield {name: self.own[name]}, "the report's configuration"
        if name == "engine.name":
            yield from self._engine(launch)
        if name == "engine.version":
            version = self._release(launch)
            if version is not None:
                yield {name: version[0]}, version[1]
        held = launch.given.get(name)
        if held is not None and isinstance(held.values, Ordered):
            inside = [release for release in self.pack.releases_of(name) if release in held.values]
            if inside:
                yield {name: str(inside[-1])}, "the newest release in the report's range"
        if name == "device.gpus_per_node" and self._gpus_per_node(launch):
            yield {name: self._gpus_per_node(launch)}, "the report's ranks over its nodes"
        for special in PROFILE["special"]:
            if name in special["launch"] and (set(special.get("fusions", ())) & set(self.fusions) or self._holds(launch, special.get("where"))):
                yield {name: special["launch"][name]}, "the profile"
        if name in PROFILE["launch"]:
            yield {name: PROFILE["launch"][name]}, "the profile"
        if last and name in PROFILE["last"]:
            yield {name: PROFILE["last"][name]}, "the profile, as a probe"

    def _engine(self, launch: Launch) -> Iterable[tuple[Mapping[str, Any], str]]:
        word = self._given(launch, "device.platform")
        if word in PROFILE["engines"]:
            yield {"engine.name": PROFILE["engines"][word]}, "the platform's engine"

    def _holds(self, launch: Launch, where: Mapping[str, Any] | None) -> bool:
        return where is not None and all(self._given(launch, name) == value for name, value in where.items())

    def _given(self, launch: Launch, name: str) -> Any:
        held = launch.given.get(name)
        return held.values.single() if held else None

    def _gpus_per_node(self, launch: Launch) -> int | None:
        """GPUs of a node where the report's ranks fill its nodes."""
        sizes = [self._given(launch, f"parallel.{name}") or 1 for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")]
        nodes = self._given(launch, "parallel.nodes")
        ranks = sizes[0] * sizes[1] * sizes[2]
        return ranks // nodes if isinstance(nodes, int) and nodes > 1 and ranks % nodes == 0 else None

    def _release(self, launch: Launch) -> tuple[str, str] | None:
        """The newest release that requires no newer FlashInfer than the report's, or that of the report's date."""
        name = self._given(launch, "engine.name")
        product = self.pack.engine(name) if isinstance(name, str) else None
        if product is None:
            return None
        day = str(self.report.get("date") or "")[:10]
        current = [version for since, version in PROFILE["releases"].get(name, []) if day and since <= day]
        wanted = self._given(launch, "packages.flashinfer-python")
        if wanted is not None and product.pins:
            fitting = [version for version, pins in sorted(product.pins.items()) if _pinned(pins) is not None and _pinned(pins) <= wanted]
            if fitting and not (current and fitting[-1] > parse(current[-1])):
                return str(fitting[-1]), "the release that requires its FlashInfer"
        if current:
            return current[-1], "the release of its date"
        return (str(product.releases[0]), "the first release that was read") if product.releases else None


def _pinned(pins: Mapping[str, str]) -> Any:
    return parse(pins.get("flashinfer-python", "").split(";")[0].removeprefix("==").strip() or "?")
