"""Waivers: findings that a project accepts until a date. They silence an audit's exit code, never a decision.

[[tool.fusion-policy.ignore]]        # in pyproject.toml, or [[ignore]] in policy.toml
id = "rendezvous-over-world"
reason = "replaced in January"
until = 2027-01-31
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

from policy.problems import LaunchError, Problem, Span
from policy.records import dataclass

FILES = ("policy.toml", "pyproject.toml")


@dataclass(frozen=True, slots=True)
class Waiver:
    """One accepted finding: a rule's id or a notice's kind, why, and until when; and where that is written."""

    id: str
    reason: str
    until: datetime.date
    file: str
    line: int = 1

    def expired(self, today: datetime.date) -> bool:
        """Whether its last day is over."""
        return today > self.until


def find_waivers(start: Path) -> list[Waiver]:
    """The waivers of the nearest file upwards that has any. Raises `LaunchError` where it cannot be read."""
    folder = start.resolve()
    for place in (folder, *folder.parents):
        for name in FILES:
            file = place / name
            if file.is_file():
                found = read_waivers(file)
                if found is not None:
                    return found
    return []


def read_waivers(file: Path) -> list[Waiver] | None:
    """The waivers of one file; None where it has no section for them. Raises `LaunchError` with every problem."""
    data = _toml(file)
    tools = data.get("tool")
    section = data if file.name == "policy.toml" else tools.get("fusion-policy") if isinstance(tools, dict) else None
    if not isinstance(section, dict) or "ignore" not in section:
        return None
    problems: list[Problem] = []
    waivers: list[Waiver] = []
    entries = section["ignore"] if isinstance(section["ignore"], list) else [section["ignore"]]
    for number, (entry, line) in enumerate(zip(entries, _lines(file, len(entries)), strict=True), 1):
        problem = _wrong(entry)
        if problem:
            problems.append(
                Problem(f"waiver {number}: {problem}", Span(str(file), line), "write `[[ignore]]`, and below it `id`, `reason` and `until = 2027-01-31`")
            )
        else:
            waivers.append(Waiver(entry["id"], entry["reason"].strip(), _date(entry["until"]), str(file), line))
    if problems:
        raise LaunchError(problems)
    return waivers


def _lines(file: Path, count: int) -> list[int]:
    """The lines where the entries begin; 1 for those that are not written as tables of their own."""
    text = file.read_text(encoding="utf-8")
    found = [number for number, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*[\w.\"' -]*ignore\s*\]\]", line)]
    return found if len(found) == count else [1] * count


def _wrong(entry: Any) -> str:
    if not isinstance(entry, dict):
        return "is no table"
    for name in ("id", "reason"):
        if not isinstance(entry.get(name), str) or not entry[name].strip():
            return f"has no `{name}`"
    unknown = sorted(set(entry) - {"id", "reason", "until"})
    if unknown:
        return f"`{unknown[0]}` is no field of a waiver"
    try:
        _date(entry.get("until"))
    except ValueError:
        return "has no `until` that is a date"
    return ""


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    return datetime.date.fromisoformat(str(value))


def _toml(file: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        try:
            import tomli as tomllib  # type: ignore[import-not-found, no-redef]
        except ImportError:
            if b"fusion-policy" not in file.read_bytes() and file.name != "policy.toml":
                return {}
            raise LaunchError([Problem("waivers are read with Python 3.11 or later", Span(str(file)), "or install `tomli`")]) from None
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise LaunchError([Problem(f"this is no TOML: {str(error).lower()}", Span(str(file)))]) from None
