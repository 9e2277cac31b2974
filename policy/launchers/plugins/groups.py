"""Where each engine looks for plug-ins: the group of entry points, the variable that names the ones to load, and the
releases that do."""

from __future__ import annotations

from policy.launchers.catalogue import known, read_table, since
from policy.records import dataclass

#: The name of this package's entry points in every group.
NAME = "fusion_policy"
ENGINES = ("vllm", "sglang")


@dataclass(frozen=True, slots=True)
class Group:
    """A group of entry points and the variable that lists the names to load, where it is set."""

    group: str
    variable: str


def group_of(engine: str, version: str | None) -> Group | None:
    """Where a release of an engine looks; None where it loads no plug-ins."""
    if engine not in ENGINES:
        return None
    table = read_table(engine, "plugin")
    return Group(table["group"], table["variable"]) if since(table["since"], known(version)) else None
