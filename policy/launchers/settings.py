"""What a command line sets: one noun, `Settings`, keyed by the engine's own names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from policy.launchers.found import LaunchNotice
from policy.origin import Origin
from policy.records import dataclass, field


@dataclass(frozen=True, slots=True)
class Setting:
    """One value that was given. `spelling` is the option or key as the user wrote it. A dictionary also has its
    `leaves`: dotted path (`pass_config.fuse_allreduce_rms`) -> the leaf as a setting with an origin of its own."""

    value: Any
    origin: Origin
    spelling: str
    leaves: dict[str, Setting] = field(default_factory=dict)


@dataclass(slots=True)
class Settings:
    """One parsed command. `version` is the engine's version as it was asked for, None where it is not known;
    `catalogue_version` is the release whose options were used. `values` holds only what was given, by the engine's own
    names. `errors` is what the engine refuses at start, in the order of the command; `notices` is what is lost or wrong
    though the engine starts."""

    engine: str
    version: str | None
    catalogue_version: str
    values: dict[str, Setting] = field(default_factory=dict)
    errors: list[LaunchNotice] = field(default_factory=list)
    notices: list[LaunchNotice] = field(default_factory=list)

    def get(self, name: str) -> Setting | None:
        """The setting of that name (`tensor_parallel_size`) or leaf (`compilation_config.pass_config.fuse_allreduce_rms`)."""
        if name in self.values:
            return self.values[name]
        head, _, path = name.partition(".")
        return self.values[head].leaves.get(path) if head in self.values else None


def flat(value: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The leaves of a nested dictionary as (path, value); lists and empty dictionaries are leaves."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from flat(inner, (*prefix, str(key)))
    else:
        yield prefix, value
