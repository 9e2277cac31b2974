"""The options that a release of an engine accepts, from `rules/products/ENGINE/flags/VERSION.json`."""

from __future__ import annotations

import json
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from policy.records import dataclass
from policy.versions import Version, is_placeholder, line_start, parse, without_local


def _rules() -> Path:
    package = Path(__file__).resolve().parents[1]
    return package / "rules" if (package / "rules").is_dir() else package.parent / "rules"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `negative` are the spellings that store false; `instead` is set where the release calls it deprecated."""

    flags: tuple[str, ...]
    dest: str
    negative: tuple[str, ...] = ()
    action: str = "store"
    type: str = "str"
    nargs: str | int | None = None
    choices: tuple[Any, ...] | None = None
    constant: Any = None
    instead: str | None = None
    default: Any = None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every spelling."""
        return self.flags + self.negative


class Catalogue:
    """The options of one release."""

    def __init__(self, engine: str, version: str, lines: list[dict[str, Any]]) -> None:
        self.engine, self.version, self._lines = engine, version, lines

    @cached_property
    def options(self) -> list[Option]:
        """The options, in the order of the file."""
        return [_option(line) for line in self._lines]

    @cached_property
    def by_flag(self) -> dict[str, Option]:
        """The options by every spelling."""
        return {flag: option for option in self.options for flag in option.spellings}

    def defaults(self) -> dict[str, Any]:
        """What the parser itself fills in, by name; {} for a configuration object, None where the engine decides later."""
        values: dict[str, Any] = {}
        for option in self.options:
            if option.action not in ("help", "ignore", "refuse"):
                values.setdefault(option.dest, option.default)  # of two options that fill one name the first one's counts
        return values


def _option(line: dict[str, Any]) -> Option:
    flags = tuple(line["flags"])
    choices = line.get("choices")
    return Option(
        flags=flags,
        dest=line.get("dest") or flags[0].lstrip("-").replace("-", "_"),
        negative=tuple(line.get("not", ())),
        action=line.get("action", "store"),
        type=line.get("type", "str"),
        nargs=line.get("nargs"),
        choices=None if choices is None else tuple(choices),
        constant=line.get("constant"),
        instead=line.get("instead"),
        default=line.get("default"),
    )


@lru_cache(maxsize=64)
def read_catalogue(engine: str, version: str) -> Catalogue:
    """The catalogue of a release that `catalogue_versions` names."""
    data = json.loads((_rules() / "products" / engine / "flags" / f"{version}.json").read_text(encoding="utf-8"))
    return Catalogue(engine, version, data["options"])


@lru_cache(maxsize=16)
def read_table(engine: str, name: str) -> dict[str, Any]:
    """Another table of the folder (`behaviour`, `objects`)."""
    data: dict[str, Any] = json.loads((_rules() / "products" / engine / "flags" / f"{name}.json").read_text(encoding="utf-8"))
    return data


@lru_cache(maxsize=16)
def catalogue_versions(engine: str) -> tuple[str, ...]:
    """The releases with a catalogue, oldest first."""
    names = [path.stem for path in (_rules() / "products" / engine / "flags").glob("[0-9]*.json")]
    return tuple(sorted(names, key=Version))


def defaults(engine: str, version: str | None = None) -> dict[str, Any]:
    """What the engine's parser fills in when an option is not given, from the catalogue that `version` would use."""
    return read_catalogue(engine, choose(engine, version)[0]).defaults()


def known(version: str | None) -> Version | None:
    """The version in the order used here; None where it is not known (None, a placeholder, no PEP 440 version)."""
    if version is None or is_placeholder(version):
        return None
    parsed = parse(version)
    return None if parsed is None else without_local(parsed)


def choose(engine: str, version: str | None) -> tuple[str, ...]:
    """The catalogues to try for a version, best first: its own; else the nearest release and then the one on the other
    side; the newest where the version is not known."""
    names = catalogue_versions(engine)
    wanted = known(version)
    if wanted is None:
        return (names[-1],)
    below = [name for name in names if Version(name) <= wanted]
    above = [name for name in names if Version(name) > wanted]
    if below and Version(below[-1]) == wanted:
        return (below[-1],)
    sides = [*below[-1:], *above[:1]]
    return tuple(sorted(sides, key=lambda name: _distance(Version(name), wanted)))


def _distance(one: Version, other: Version) -> list[int]:
    steps = [abs(left - right) for left, right in zip((*one.release, 0, 0, 0), (*other.release, 0, 0, 0), strict=False)]
    return steps[:3]


def since(rows: list[list[Any]], version: Version | None) -> Any:
    """The value of a table of breakpoints [[version, value], …], oldest first, the first one from the beginning; the last
    row where the version is not known."""
    if version is None:
        return rows[-1][1]
    value = rows[0][1]
    for start, later in rows[1:]:
        if line_start(Version(start)) <= version:
            value = later
    return value
