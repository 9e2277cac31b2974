"""The door into vLLM's workers: a general plugin (`vllm.general_plugins`), loaded in every process before its worker exists."""

from __future__ import annotations

from typing import Any

from policy.runtime.engines.after_import import after_import
from policy.runtime.engines.door import Door, wanted, wrap_after
from policy.runtime.machine import RENDEZVOUS
from policy.runtime.plan import ITEM_BYTES, Consumer, RuntimeRequestError

#: The door of this process: engines load plug-ins more than once.
_REGISTERED: list[Door] = []


def register(door: Door | None = None, version: str | None = None) -> Door | None:
    """Arrange for the commit. Does nothing where the adapter is not wanted; takes no torch into a process that is no worker."""
    if not wanted():
        return None
    if door is None and _REGISTERED:
        return _REGISTERED[0]
    door = door or Door("vllm", version)
    _REGISTERED.append(door)
    place = door.at("commit")
    made = door

    def committed(vllm_config: Any, *arguments: Any, **named: Any) -> None:
        made.commit({"compilation_config": vllm_config.compilation_config}, lambda: consumers(vllm_config))

    def loaded(module: Any) -> None:
        RENDEZVOUS.install()
        wrap_after(module, place["function"], committed)

    after_import(place["module"], loaded)
    return door


def consumers(vllm_config: Any) -> list[Consumer]:
    """The largest calls of target and draft, by the engine's own size limit, one-shot and two-shot as it chooses between them.

    Raises RuntimeRequestError where the engine's tables have no size for the group, as the engine's pass then does nothing."""
    size = int(vllm_config.parallel_config.tensor_parallel_size)
    limit = vllm_config.compilation_config.pass_config.flashinfer_max_size(size)
    if not limit:
        raise RuntimeRequestError(f"the engine has no fusion size for {size} ranks on this device")
    models = {"target": vllm_config.model_config}
    draft = getattr(getattr(vllm_config, "speculative_config", None), "draft_model_config", None)
    if draft is not None:
        models["draft"] = draft
    found = []
    for name, model in models.items():
        dtype = str(model.dtype).removeprefix("torch.")
        hidden = int(model.get_hidden_size())
        tokens = int(limit) // (hidden * ITEM_BYTES.get(dtype, 4))
        found.append(Consumer(name, hidden, tokens, dtype, dtype, one_shot=True))
        if tokens > size and dtype != "float32":
            found.append(Consumer(f"{name} two-shot", hidden, tokens, dtype, dtype, one_shot=False))
    return found
