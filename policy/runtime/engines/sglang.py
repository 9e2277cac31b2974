"""The door into SGLang's workers: a plugin (`sglang.srt.plugins`) where the release has plugins, else imported by the launcher."""

from __future__ import annotations

from typing import Any

from policy.runtime.engines.after_import import after_import
from policy.runtime.engines.door import Door, decision_given, wrap_after
from policy.runtime.machine import RENDEZVOUS
from policy.runtime.plan import Consumer

#: The door of this process: engines load plug-ins more than once.
_REGISTERED: list[Door] = []


def register(door: Door | None = None) -> Door | None:
    """Arrange for the commit after the target model's process groups exist. Does nothing without a decision in the environment."""
    if decision_given() is None:
        return None
    if door is None and _REGISTERED:
        return _REGISTERED[0]
    door = door or Door("sglang")
    _REGISTERED.append(door)
    RENDEZVOUS.install()
    place = door.at("commit")
    made = door

    def committed(runner: Any, *arguments: Any, **named: Any) -> None:
        if not getattr(runner, "is_draft_worker", False):
            made.commit({"server_args": runner.server_args}, lambda: consumers(runner, made.data["max_tokens"]))

    after_import(place["module"], lambda module: wrap_after(getattr(module, place["class"]), place["function"], committed))
    return door


def consumers(runner: Any, max_tokens: int) -> list[Consumer]:
    """The one shape for which SGLang builds workspaces: its constant of tokens by the model's hidden size."""
    model = runner.model_config
    dtype = str(model.dtype).removeprefix("torch.")
    return [Consumer("target", int(model.hidden_size), max_tokens, dtype, dtype, one_shot=None if dtype != "float32" else True)]
