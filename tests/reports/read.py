"""One report's normalised facts as facts of the pack. What a key means is data (`facts_mapping.yaml`); readings of a value
that are more than a table of words are the functions of `readings.py`. A key that nothing is known about, and a value that
no reading understands, is returned by name: nothing is left out silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from policy.pack import Pack, SettingMap
from tests.reports.readings import READINGS, UNKNOWN_WORDS, Unreadable

HERE = Path(__file__).parent
MAPPING: dict[str, Any] = yaml.safe_load((HERE / "facts_mapping.yaml").read_text(encoding="utf-8"))
Facts = dict[str, Any]


def read_report(pack: Pack, fusions: list[str], keys: Mapping[str, Any]) -> tuple[Facts, list[str]]:
    """The facts that normalised `keys` of a report state, and the keys or values that nothing is known about."""
    keys = {MAPPING["aliases"].get(key, key): raw for key, raw in keys.items()}
    found: Facts = {}
    unmapped: list[str] = []
    for key, raw in keys.items():
        entry = MAPPING["keys"].get(key)
        try:
            if entry is not None:
                if "ignored" not in entry and entry.get("unless") not in keys:
                    found.update(_read(entry, raw, keys, fusions))
                continue
            stated = _by_name(pack, key, raw)
        except Unreadable:
            unmapped.append(f"{key}={raw}")
            continue
        if stated is None:
            unmapped.append(key)
        else:
            found.update(stated)
    return {name: value for name, value in found.items() if value is not None}, unmapped


def read_launch(pack: Pack, report: Mapping[str, Any], fusions: list[str]) -> tuple[Facts, list[str]]:
    """The facts of a report's launch, those that its silence leaves open included, and what was not read."""
    keys = report.get("facts") or {}
    found, unmapped = read_report(pack, fusions, keys)
    if any(key in keys for key in MAPPING["implied"]["keys"]):
        found = {**MAPPING["implied"]["facts"], **found}
    if ("engine" not in keys or found.get("engine.name") == "trainer") and found.get("device.platform", "cuda") == "cuda":
        found = {**MAPPING["library"], **{f"request.{fusion}": "on" for fusion in fusions}, **found}
    return {**dict.fromkeys(MAPPING["silent"], "unknown"), **found}, unmapped


def fusion_of(name: str) -> str:
    """The pack's name of a report's fusion; the name itself where nothing is known about it."""
    found = MAPPING["fusions"].get(name, name)
    return str(found["fusion"] if isinstance(found, dict) else found)


def _read(entry: Mapping[str, Any], raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """What a key of the mapping states. Raises `Unreadable` for a value that it has no words for."""
    also = dict(entry.get("also", {}))
    if "facts" in entry:
        table = entry["facts"]
        word = _word(table, raw)
        if word is not None or (raw is None and None in table):
            return {**also, **table[word]}
        if _says_nothing(raw):
            return {}
        if "any" not in table:
            raise Unreadable(raw)
        return {**also, **table["any"]}
    if _says_nothing(raw):
        return {}
    reading = READINGS.get(entry.get("read", ""))
    values = entry.get("values", {})
    value = [_translated(values, one) for one in raw] if isinstance(raw, list) else _translated(values, raw)
    if "fact" not in entry:
        assert reading is not None
        return {**also, **reading(value, keys, fusions)}
    return {**also, entry["fact"]: reading(value, keys, fusions) if reading else value}


def _says_nothing(raw: Any) -> bool:
    return raw is None or (isinstance(raw, str) and raw.strip().lower() in UNKNOWN_WORDS)


def _word(table: Mapping[Any, Any], raw: Any) -> Any:
    """The table's word for a value, in any case of letters; None where it has none."""
    if isinstance(raw, list | dict):
        return None
    if raw in table and raw is not None:
        return raw
    return next((word for word in table if word not in (None, "any") and str(word).lower() == str(raw).strip().lower()), None)


def _translated(values: Mapping[Any, Any], raw: Any) -> Any:
    word = _word(values, raw)
    return raw if word is None else values[word]


def _by_name(pack: Pack, key: str, raw: Any) -> Facts | None:
    """A key that is a fact, a fusion, or an engine's own setting or environment variable; None where it is none of them."""
    if pack.fact(key) is not None:
        return {} if _says_nothing(raw) else {key: raw}
    if key in MAPPING["fusions"] or key in pack.fusions:
        return {} if _says_nothing(raw) else READINGS["request"](raw, {}, [fusion_of(key)])
    if key in ("env", "environment", "flags", "server_args") and isinstance(raw, dict):
        return _settings(pack, raw)
    maps = list(_maps(pack, key))
    return _stated(maps, raw) if maps else None


def _settings(pack: Pack, settings: Mapping[str, Any]) -> Facts:
    found: Facts = {}
    for key, raw in settings.items():
        stated = _by_name(pack, key, raw)
        if stated is None:
            raise Unreadable(key)
        found.update(stated)
    return found


def _maps(pack: Pack, key: str) -> Iterator[SettingMap]:
    """What the products say about a variable, or about a setting by its last name."""
    name = key.lstrip("-").replace("-", "_")
    for product in pack.products.values():
        yield from product.environment.get(key, ())
        for setting, maps in product.settings.items():
            if setting == name or setting.endswith(f".{name}"):
                yield from maps


def _stated(maps: list[SettingMap], raw: Any) -> Facts:
    if _says_nothing(raw):
        return {}
    text = {True: "1", False: "0"}.get(raw, raw) if isinstance(raw, bool) and all(map_.only and "1" in map_.only for map_ in maps) else raw
    found = {map_.fact: map_.fact_value(text) for map_ in maps}
    stated = {fact: value for fact, value in found.items() if value is not None}
    if not stated:
        raise Unreadable(raw)
    return stated
