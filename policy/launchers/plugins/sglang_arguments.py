"""SGLang's resolved arguments: where they are made, how a field is read, and how one is changed before anything is built
from it. The releases differ, and say themselves which way is theirs.

* up to 0.5.15 the constructor resolves, and fields are plain
* 0.5.16 and 0.5.17: fields are changed through `override`
* 0.5.18: through `declare_late_resolution`
* from 0.5.19 on `resolve_once` resolves, fields keep what was given, and declarations hold the rest
"""

from __future__ import annotations

from typing import Any

SOURCE = "fusion_policy"


def resolver(arguments: type) -> str:
    """The method of the class `ServerArgs` that resolves."""
    return "resolve_once" if hasattr(arguments, "resolve_once") else "__post_init__"


def is_resolved(arguments: Any) -> bool:
    """Whether it was resolved before, in this process or in the one it comes from."""
    return bool(getattr(arguments, "_resolution_finished", False))


def read(arguments: Any, name: str, default: Any = None) -> Any:
    """A field as it is resolved."""
    found = getattr(_overrides(), "resolution_result", None)
    if found is None or not hasattr(arguments, name):
        return getattr(arguments, name, default)
    return found(arguments, name)


def write(arguments: Any, fields: dict[str, Any]) -> None:
    """Change fields of resolved arguments."""
    overrides = _overrides()
    declare = getattr(overrides, "declare_late_resolution", None)
    if declare is None and hasattr(arguments, "resolve_once"):
        declare = getattr(overrides, "declare_resolution", None)
    if declare is not None:
        declare(arguments, SOURCE, **fields)
    elif hasattr(arguments, "override"):
        arguments.override(SOURCE, **fields)
    else:
        for name, value in fields.items():
            setattr(arguments, name, value)


def _overrides() -> Any:
    try:
        from sglang.srt.arg_groups import overrides
    except ImportError:
        return None
    return overrides
