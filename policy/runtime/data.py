"""Version-dependent knowledge of the runtime, read from the pack's `products/*/runtime.yaml`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from policy.runtime.plan import RuntimeRequestError

PACKAGE = Path(__file__).resolve().parents[1]
FOLDERS = (PACKAGE / "rules", PACKAGE.parent / "rules")  # an installed wheel, then a checkout


@functools.cache
def product(name: str) -> dict[str, Any]:
    """The runtime data of one product. Raises RuntimeRequestError naming the products there are."""
    import yaml

    folder = next((each for each in FOLDERS if (each / "products").is_dir()), None)
    if folder is None:
        raise RuntimeRequestError("the rules folder is not installed; reinstall fusion-policy or run from a checkout")
    file = folder / "products" / name / "runtime.yaml"
    if not file.is_file():
        known = sorted(path.parent.name for path in (folder / "products").glob("*/runtime.yaml"))
        raise RuntimeRequestError(f"there is no runtime data for `{name}`; known: {', '.join(known)}")
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content


def parse(version: str) -> Version | None:
    """The version, or None for a placeholder or what PEP 440 does not know."""
    try:
        parsed = Version(version)
    except InvalidVersion:
        return None
    return None if parsed.release[:2] == (0, 0) or parsed.local == "unknown" else parsed


def at_least(version: Version, breakpoint_: str) -> bool:
    """A breakpoint begins with its first development release, so that pre-releases belong to the line they lead to."""
    return Version(version.public) >= Version(f"{breakpoint_}.dev0")


def valid_at(table: list[dict[str, Any]], version: str, through: str | None = None) -> Any:
    """The value of a breakpoint list for a version; None before its first row, past `through` and for an unknown version."""
    parsed = parse(version)
    if parsed is None or (through is not None and parsed > Version(through) and not at_most_line(parsed, through)):
        return None
    value = None
    for row in table:
        if at_least(parsed, row["since"]):
            value = row["value"]
    return value


def at_most_line(version: Version, through: str) -> bool:
    """Post-releases and local builds of the horizon itself still belong to it."""
    return version.release == Version(through).release
