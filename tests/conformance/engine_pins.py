"""Scores the pins of engine releases against the requirements that their metadata records, one row a release and
distribution. The pack may hold pins of further distributions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from policy.pack import Pack
from policy.versions import Version


def handles(row: Mapping[str, Any]) -> bool:
    """Whether the content of a file has this format."""
    return bool(row) and all(
        isinstance(engine, Mapping) and all(isinstance(release, Mapping) and "requires" in release for release in engine.values()) for engine in row.values()
    )


def written(requirement: Mapping[str, str | None]) -> str:
    """A recorded requirement as the pack writes it."""
    return str(requirement["spec"]) + (f"; {requirement['marker']}" if requirement["marker"] else "")


def _comparisons(pack: Pack, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for content in rows:
        for engine, releases in content.items():
            product = pack.products.get(engine)
            for release, recorded in releases.items():
                held = product.pins.get(Version(release)) if product is not None else None
                if held is None:
                    yield f"{engine} {release}: the pack has no pins"
                    continue
                for distribution, requirements in recorded["requires"].items():
                    wanted = " | ".join(written(one) for one in requirements) or None
                    got = held.get(distribution)
                    yield "" if got == wanted else f"{engine} {release}: {distribution} is recorded as {wanted}, the pack says {got}"


def compare(pack: Pack, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int, list[str]]:
    """Rows (a release and distribution each), agreements, and each disagreement in words."""
    found = list(_comparisons(pack, rows))
    disagreements = [text for text in found if text]
    return len(found), len(found) - len(disagreements), disagreements
