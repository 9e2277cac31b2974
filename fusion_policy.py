"""The front of the package `policy` that another module of that name cannot shadow.

`policy` is a common name. This module makes sure that the `policy` found first on the path is this one before anything
is taken from it; the command and the engines' plug-in entry points come through here. If it is another one, the error
names its file and what to do.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

_MARK = "Decide which kernel fusions a launch of a language-model server may use"
_NAMES = ("Decision", "Launch", "Pack", "PolicyError", "__version__", "decide", "read_pack")


class ShadowedPolicyError(ImportError):
    """Another module named `policy` comes first on the path."""


def _check() -> None:
    """Raise `ShadowedPolicyError` where `policy` is not this package."""
    loaded = sys.modules.get("policy")
    if loaded is not None:
        origin = getattr(loaded, "__file__", None)
    else:
        spec = importlib.util.find_spec("policy")
        origin = spec.origin if spec is not None else None
        if spec is not None and origin is None:
            origin = ", ".join(spec.submodule_search_locations or ()) or None
    if origin is not None and os.path.basename(origin) == "__init__.py":
        try:
            with open(origin, encoding="utf-8") as stream:
                if _MARK in stream.read(400):
                    return
        except (OSError, UnicodeDecodeError):
            pass
    if origin is None:
        raise ShadowedPolicyError("fusion-policy: its package `policy` is not on the path; reinstall fusion-policy")
    raise ShadowedPolicyError(
        f"fusion-policy: the module `policy` at {origin} comes before the package `policy` of fusion-policy; "
        "rename that file, or start from another folder, or set PYTHONSAFEPATH=1"
    )


def main() -> int:
    """The command `policy`."""
    try:
        _check()
    except ShadowedPolicyError as error:
        print(error, file=sys.stderr)
        return 2
    from policy.cli import main as command

    return command()


def vllm_plugin() -> None:
    """vLLM's entry point (`vllm.general_plugins`)."""
    from policy.launchers.plugins.vllm import register

    register()
    _arrange("vllm")


def sglang_plugin() -> None:
    """SGLang's entry point (`sglang.srt.plugins`)."""
    from policy.launchers.plugins.sglang import register

    register()
    _arrange("sglang")


def _arrange(engine: str) -> None:
    """Let the runtime adapter act in this process, where a decision was handed to it or should have been."""
    if os.environ.get("FUSION_POLICY_DECISION") or os.environ.get("FUSION_POLICY_BUILDER"):
        from policy.launchers.plugins.adapter import arrange

        arrange(engine)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        import policy

        return getattr(policy, name)
    raise AttributeError(f"module 'fusion_policy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*_NAMES, "ShadowedPolicyError", "main", "sglang_plugin", "vllm_plugin"))


if __name__ == "__main__":
    sys.exit(main())
else:
    _check()
