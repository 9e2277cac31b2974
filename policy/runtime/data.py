"""Version-dependent knowledge of the runtime, read from the pack's `products/*/runtime.yaml`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from policy.runtime.plan import RuntimeRequestError
from policy.versions import Version, is_placeholder, line_start, without_local

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


def valid_at(table: list[dict[str, Any]], version: str, through: str | None = None) -> Any:
    """The value of a breakpoint list for a version; None before its first row, beyond `through` and for a placeholder.

    A breakpoint begins with its first development release; post-releases of the horizon still belong to it."""
    if is_placeholder(version):
        return None
    point = without_local(Version(version))
    if through is not None and point > Version(through) and point.release != Version(through).release:
        return None
    value = None
    for row in table:
        if point >= line_start(Version(row["since"])):
            value = row["value"]
    return value
