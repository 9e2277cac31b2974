"""The door into SGLang's workers: a plugin (`sglang.srt.plugins`) where the release has plugins, else imported by the launcher."""

from __future__ import annotations

from typing import Any

from policy.runtime.engines.after_import import after_import
from policy.runtime.engines.door import Door, wanted, wrap_after
from policy.runtime.machine import RENDEZVOUS
from policy.runtime.plan import Consumer

#: The door of this process: engines load plug-ins more than once.
_REGISTERED: list[Door] = []


def register(door: Door | None = None, version: str | None = None) -> Door | None:
    """Arrange for the commit after the target model's process groups exist. Does nothing where the adapter is not wanted."""
    if not wanted():
        return None
    if door is None and _REGISTERED:
        return _REGISTERED[0]
    door = door or Door("sglang", version)
    _REGISTERED.append(door)
    place = door.at("commit")
    made = door

    def committed(runner: Any, *arguments: Any, **named: Any) -> None:
        if not getattr(runner, "is_draft_worker", False):
            made.commit({"server_args": runner.server_args}, lambda: consumers(runner, made.data["max_tokens"]))

    def loaded(module: Any) -> None:
        RENDEZVOUS.install()
        wrap_after(getattr(module, place["class"]), place["function"], committed)

    after_import(place["module"], loaded)
    return door


def consumers(runner: Any, max_tokens: int) -> list[Consumer]:
    """The one shape for which SGLang builds workspaces: its constant of tokens by the model's hidden size."""
    model = runner.model_config
    dtype = str(model.dtype).removeprefix("torch.")
    return [Consumer("target", int(model.hidden_size), max_tokens, dtype, dtype, one_shot=None if dtype != "float32" else True)]
