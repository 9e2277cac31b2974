"""What to tell when a creation has not come back: where it stands, who has not reported, which rule saw it coming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policy.runtime.data import product
from policy.runtime.fold import ranks_text
from policy.runtime.store import StoreLostError

if TYPE_CHECKING:
    from policy.runtime.settle import _Start
    from policy.runtime.store import AgreementStore


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Stack of the call that has not come back (innermost last), ranks of the launch that have not reported either, and
    the ids of rules whose condition holds for what was being built."""

    phase: str
    stack: tuple[str, ...]
    missing: tuple[int, ...]
    rules: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.phase} has not come back by the deadline"]
        if self.missing:
            lines.append(f"not reported either: {ranks_text(self.missing)}")
        lines += [f"predicted by rule {rule}; see `policy explain {rule}`" for rule in self.rules]
        return "\n".join([*lines, "it stands at:", *(f"  {line}" for line in self.stack[-12:])])


def predicted_rules(allocator: str | None, scope: str | None, scoped: bool, several_groups: bool, library: str = "flashinfer") -> tuple[str, ...]:
    """Rules that predict a blocked creation for a workspace built like this."""
    known = {"allocator": allocator, "scope": scope, "scoped": scoped, "several_groups": several_groups}
    return tuple(row["rule"] for row in product(library)["predictions"] if all(known[name] == value for name, value in row.items() if name != "rule"))


def diagnose(start: _Start, store: AgreementStore) -> Diagnosis:
    """Called by the rank whose own build is overdue; reads the votes that are there."""
    import torch.distributed as dist

    library, plan = start.library, start.decision.plan
    try:
        reported = {vote.rank for vote in store.votes(2, list(range(start.size)), each=True)}
    except StoreLostError:
        reported = set()
    missing = tuple(rank for rank in range(start.size) if rank not in reported and rank != start.rank)
    rules: tuple[str, ...] = ()
    if library is not None and plan is not None:
        scoped = ("group" if library.scope == "group" else "comm_backend") in plan.passes and library.scope != "world"
        rules = predicted_rules(library.allocator, library.scope, scoped, dist.get_world_size(start.group) != dist.get_world_size(), library.name)
    return Diagnosis(start.phase, tuple(start.job.stack()) if start.job is not None else (), missing, rules)
