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
from tests.reports.read import known_model, read_report

PROFILE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "profile.yaml").read_text(encoding="utf-8"))


class Completion:
    """The facts that one report can be completed with, and those that were taken."""

    def __init__(self, pack: Pack, report: Mapping[str, Any], fusions: list[str]) -> None:
        self.pack, self.report, self.fusions = pack, report, fusions
        config = {key: value for key, value in (report.get("config") or {}).items() if key not in ("flags", "env", "note", "model", "kv")}
        self.own = {name: value for name, value in read_report(report, fusions, config)[0].items()}
        model = known_model(str((report.get("config") or {}).get("model", "")))
        if model is not None:
            self.own = {"model.architecture": model[0], "model.is_moe": model[1], **self.own}
        self.taken: dict[str, str] = {}

    def next(self, launch: Launch, asked: Iterable[str], last: bool) -> Launch | None:
        """The launch with one asked fact more, or None where nothing is left to fill in."""
        for name in sorted(asked, key=lambda one: (one != "engine.name", one != "engine.version", one)):
            if name in self.taken or self._settled(launch, name):
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
            if fact is None or name in self.taken:
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
            yield self._engine(launch)
        if name == "engine.version":
            version = self._release(launch)
            if version is not None:
                yield {name: version[0]}, version[1]
        held = launch.given.get(name)
        if held is not None and isinstance(held.values, Ordered):
            inside = [release for release in self.pack.releases_of(name) if release in held.values]
            if inside:
                yield {name: str(inside[-1])}, "the newest release in the report's range"
        if name in PROFILE["launch"]:
            yield {name: PROFILE["launch"][name]}, "the profile"
        if last and name in PROFILE["last"]:
            yield {name: PROFILE["last"][name]}, "the profile, as a probe"

    def _engine(self, launch: Launch) -> tuple[Mapping[str, Any], str]:
        """The engine of the platform; where a report is about a library, the adapter builds what is asked for."""
        platform = launch.given.get("device.platform")
        word = platform.values.single() if platform else None
        if word in PROFILE["engines"]:
            return {"engine.name": PROFILE["engines"][word]}, "the platform's engine"
        asked = {f"request.{fusion}": "on" for fusion in self.fusions if f"request.{fusion}" not in launch.given}
        return {"runtime.builder": "adapter", **asked}, "a report about a library"

    def _release(self, launch: Launch) -> tuple[str, str] | None:
        """The newest release that requires no newer FlashInfer than the report's, or that of the report's date."""
        given = launch.given.get("engine.name")
        name = given.values.single() if given else None
        product = self.pack.engine(name) if isinstance(name, str) else None
        if product is None:
            return None
        library = launch.given.get("packages.flashinfer-python")
        wanted = library.values.single() if library else None
        if wanted is not None and product.pins:
            fitting = [version for version, pins in sorted(product.pins.items()) if _pinned(pins) is not None and _pinned(pins) <= wanted]  # type: ignore[operator]
            if fitting:
                return str(fitting[-1]), "the release that requires its FlashInfer"
        day = str(self.report.get("date") or "")[:10]
        current = [version for since, version in PROFILE["releases"].get(name, []) if day and since <= day]
        if current:
            return current[-1], "the release of its date"
        return (str(product.releases[0]), "the first release that was read") if product.releases else None


def _pinned(pins: Mapping[str, str]) -> Any:
    return parse(pins.get("flashinfer-python", "").split(";")[0].removeprefix("==").strip() or "?")
