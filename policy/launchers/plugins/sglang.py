"""The plug-in for SGLang: decides about the `ServerArgs` that were resolved, defaults and forced values alike, and sets
the fields that have to change before anything reads them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from policy.decision import Decision
from policy.launchers.installed import installed_versions
from policy.launchers.model_config import config_facts, find_config, read_config
from policy.launchers.plugins.common import RefusedLaunchError, Statement, log_decision, logger, mode, report, supported, the_pack
from policy.launchers.plugins.vllm import HARMFUL
from policy.origin import Origin
from policy.pack import REQUEST_PREFIX, Pack, Product

ENGINE = "sglang"
FUSION = "allreduce_rms"
#: The fields that hold the fusion, by what a release has: a backend, or a plain flag.
BACKEND, FLAG, DISABLE = "flashinfer_allreduce_fusion_backend", "enable_flashinfer_allreduce_fusion", "enforce_disable_flashinfer_allreduce_fusion"
_WRAPPED = "_fusion_policy_wrapped"


def register() -> None:
    """The entry point: called by SGLang in every process; does nothing unless a mode is set."""
    chosen = mode()
    if chosen is None:
        return
    held = installed_versions().get(ENGINE)
    version = held[0] if held is not None else _module_version()
    pack = the_pack()
    product = pack.engine(ENGINE)
    if product is None or not supported(pack, product, version):
        logger.warning("fusion-policy: SGLang %s was not read; nothing is done", version)
        report(ENGINE, version, "unsupported")
        return
    from sglang.srt.server_args import ServerArgs

    original = ServerArgs.__post_init__
    if not getattr(original, _WRAPPED, False):
        ServerArgs.__post_init__ = _wrapped(original, pack, product, version)
    report(ENGINE, version, "loaded")


def _module_version() -> str:
    import sglang

    return str(getattr(sglang, "__version__", "0.0.0+unknown"))


def _wrapped(original: Callable[[Any], None], pack: Pack, product: Product, version: str) -> Callable[[Any], None]:
    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        asked = _requested(self)
        original(self)
        chosen = mode()
        if chosen is None:
            return
        try:
            decision = state_arguments(pack, product, version, self, asked).decide(FUSION)[FUSION]
        except (AttributeError, KeyError) as error:
            logger.warning("fusion-policy: SGLang %s: the arguments could not be read (%s: %s); nothing is done", version, type(error).__name__, error)
            return
        _apply(self, decision, version, chosen)

    setattr(__post_init__, _WRAPPED, True)
    return __post_init__


def _apply(arguments: Any, decision: Decision, version: str, chosen: str) -> None:
    before = _value(arguments)
    harmful = decision.conflict or decision.left_alone.built in HARMFUL
    after: Any = before
    if decision.state == "off" and before and harmful:
        after = None if hasattr(arguments, BACKEND) else False
    elif decision.state == "on" and decision.switches and hasattr(arguments, BACKEND) and decision.chosen is not None:
        after = decision.chosen.backend
    if after != before or decision.conflict:
        log_decision("SGLang", version, chosen, decision, before, after)
    if after == before or chosen == "advise":
        return
    if chosen == "fail":
        raise RefusedLaunchError(f"fusion-policy: this launch would have to change: {FUSION} from {before} to {after}; `policy explain` says why")
    setattr(arguments, BACKEND if hasattr(arguments, BACKEND) else FLAG, after)
    if not after and hasattr(arguments, DISABLE):
        setattr(arguments, DISABLE, True)


def _value(arguments: Any) -> Any:
    return getattr(arguments, BACKEND, None) if hasattr(arguments, BACKEND) else getattr(arguments, FLAG, False)


def _requested(arguments: Any) -> str | None:
    """What is asked before anything is resolved."""
    if getattr(arguments, DISABLE, False):
        return "off"
    return "on" if getattr(arguments, BACKEND, None) or getattr(arguments, FLAG, False) else None


def state_arguments(pack: Pack, product: Product, version: str, arguments: Any, asked: str | None) -> Statement:
    """The facts of resolved arguments, by the same data that reads them from a command line."""
    statement = Statement(pack)
    at = Origin("argument", "SGLang's arguments")
    statement.state("engine.name", ENGINE, at)
    statement.state("engine.version", version, Origin("probe", "installed metadata"))
    statement.machine()
    for name, maps in product.settings.items():
        value = getattr(arguments, name, None)
        if value is None or name in (BACKEND, FLAG, DISABLE):
            continue
        for one in maps:
            statement.state(one.fact, one.fact_value(value), at)
    if asked is not None:
        statement.state(REQUEST_PREFIX + FUSION, asked, at)
    statement.environment(product, os.environ)
    path = find_config(str(getattr(arguments, "model_path", "")))
    if path is not None:
        for fact, value, origin in config_facts(read_config(path)[0], str(path)):
            statement.state(fact, value, origin)
    return statement
