"""What the engine finds where it looks for the library: the agreed workspace, or a refusal that is the same on every rank."""

from __future__ import annotations

from typing import Any

from policy.runtime.plan import Outcome
from policy.runtime.workspace import Workspace


class WorkspaceRefusedError(RuntimeError):
    """The launch did not agree on such a workspace; every rank refuses alike, and the engine goes on unfused."""


class Handover:
    """Stands in for the library's create function."""

    def __init__(self, outcome: Outcome, workspace: Workspace | None) -> None:
        self.outcome, self.workspace = outcome, workspace

    def create(self, **asked: Any) -> Any:
        """The agreed workspace if it serves the call, judged by arguments that are the same on every rank.

        Raises WorkspaceRefusedError otherwise."""
        import torch.distributed as dist

        if self.workspace is None:
            raise WorkspaceRefusedError(f"the launch is {self.outcome}")
        plan, shape = self.workspace.plan, self.workspace.shape
        if asked.get("backend") not in (plan.backend, "auto"):
            raise WorkspaceRefusedError(f"the launch agreed on backend {plan.backend}, not {asked.get('backend')}")
        group = asked.get("group") or getattr(asked.get("comm_backend"), "_group", None)
        agreed = dist.get_process_group_ranks(self.workspace.group)
        if asked.get("world_size") != len(agreed) or (group is not None and dist.get_process_group_ranks(group) != agreed):
            raise WorkspaceRefusedError(f"the launch agreed on a workspace of ranks {agreed}, not of another group")
        if not self.workspace.fits(asked["max_token_num"], asked["hidden_dim"]):
            wanted = f"{asked['max_token_num']} tokens x {asked['hidden_dim']}"
            raise WorkspaceRefusedError(f"{wanted} do not fit the agreed {shape.max_tokens} x {shape.hidden_size}")
        if (str(asked["dtype"]) == "torch.float32") != (shape.dtype == "float32"):
            raise WorkspaceRefusedError(f"the agreed workspace holds {shape.dtype}, not {asked['dtype']}")
        self.workspace.note_capture()  # from here on the engine captures graphs over it that nobody tells us of
        return self.workspace.raw

    def install(self, module: Any, names: list[str]) -> str:
        """Put it into the engine's module under the first of `names` that is there; returns that name."""
        for name in names:
            held = getattr(module, name, None)
            if held is None and name != names[-1]:
                continue
            if held is not None and not hasattr(held, "__path__"):
                setattr(module, name, self.create)
            else:
                setattr(module, name, LibraryView(held, self.create))
            return name
        raise WorkspaceRefusedError(f"{module.__name__} has none of {', '.join(names)}; this release is not known")


class LibraryView:
    """The library's `comm` module as the engine holds it, with the create function replaced."""

    def __init__(self, comm: Any, create: Any) -> None:
        self._comm, self.create_allreduce_fusion_workspace = comm, create

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)
