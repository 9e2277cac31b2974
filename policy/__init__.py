"""Decide which kernel fusions a launch of a language-model server may use, and say why.

    from policy import decide
    verdict = decide({"engine.name": "vllm", "engine.version": "0.24.0", "parallel.tensor_parallel_size": 2, …})
    verdict["allreduce_rms"].state  # on, off or undetermined

Names are loaded when they are first used, so that importing this package costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policy.decision import Decision, Verdict
    from policy.pack import Pack
    from policy.problems import PolicyError
    from policy.typed import Launch

__version__ = "0.1.0"
__all__ = ["Decision", "Launch", "Pack", "PolicyError", "__version__", "decide", "read_pack"]

_HOMES = {"Decision": "policy.decision", "Pack": "policy.pack", "PolicyError": "policy.problems", "Launch": "policy.typed"}


def read_pack(folder: str | None = None, added: Sequence[str] = ()) -> Pack:
    """The pack in `folder`, or the one that comes with the package with those that installed packages add to it, and the
    packs in the folders `added`. Raises `PolicyError` with every problem."""
    from policy.private_packs import read_packs

    return read_packs(folder, added)


def decide(
    launch: Launch | Mapping[str, Any], pack: Pack | None = None, posture: str = "safe", fusions: Sequence[str] | None = None, strict: bool = False
) -> Verdict:
    """Every decision about one launch: a typed `Launch`, or a mapping of fact names (dotted or nested) to values.

    `posture` is safe, fast or audit; `strict` turns assumptions off. Raises `PolicyError` for facts that no launch can
    have."""
    from policy.evaluate import evaluate
    from policy.launch import Launch as Resolved

    pack = pack or read_pack()
    given = launch if isinstance(launch, Mapping) else launch.facts()
    return evaluate(pack, Resolved.of(pack, given), posture, fusions, strict)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'policy' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
