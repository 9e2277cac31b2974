"""The plug-in for SGLang: decides about the `ServerArgs` that were resolved, defaults and forced values alike, and changes
the fields that have to change before anything is built from them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from policy.decision import Decision
from policy.launchers.installed import installed_versions
from policy.launchers.model_config import file_facts, find_config, origin_over
from policy.launchers.plugins import sglang_arguments as seam
from policy.launchers.plugins.adapter import hand_over, handed_over, state_builder, take_back
from policy.launchers.plugins.common import RefusedLaunchError, Statement, harmful, log_decision, logger, mode, report, speak, supported, the_pack
from policy.launchers.resolve import wanted_switches
from policy.launchers.rewrite import changes_of
from policy.origin import Origin
from policy.pack import REQUEST_PREFIX, Pack, Product

ENGINE = "sglang"
FUSION = "allreduce_rms"
#: The fields that hold the fusion, by what a release has: a backend, or a plain flag; and the one that forbids it.
BACKEND, FLAG, DISABLE = "flashinfer_allreduce_fusion_backend", "enable_flashinfer_allreduce_fusion", "enforce_disable_flashinfer_allreduce_fusion"
_WRAPPED = "_fusion_policy_wrapped"


def register() -> None:
    """The entry point: called by SGLang in every process; does nothing unless a mode is set."""
    if mode() is None:
        return
    speak()
    version = _version()
    pack = the_pack()
    product = supported(pack, ENGINE, "SGLang", version)
    if pack is None or product is None:
        return
    from sglang.srt.server_args import ServerArgs

    name = seam.resolver(ServerArgs)
    original = getattr(ServerArgs, name)
    if not getattr(original, _WRAPPED, False):
        setattr(ServerArgs, name, _wrapped(original, pack, product, version))
    report(ENGINE, version, "loaded")


def _version() -> str:
    held = installed_versions().get(ENGINE)
    if held is not None:
        return held[0]
    import sglang

    return str(getattr(sglang, "__version__", "0.0.0+unknown"))


def _wrapped(original: Callable[[Any], None], pack: Pack, product: Product, version: str) -> Callable[[Any], None]:
    @functools.wraps(original)
    def resolve(self: Any) -> None:
        asked, finished = _requested(self), seam.is_resolved(self)
        original(self)
        chosen = mode()
        if finished or str(getattr(self, "model_path", "")).lower() in ("", "none", "dummy"):
            return
        take_back(on_purpose=chosen is not None)
        if chosen is None:
            return
        try:
            statement = state_arguments(pack, product, version, self, asked)
            verdict = statement.decide()
            changes = [(decision, _changes(self, pack, version, decision)) for decision in verdict.decisions if decision.fusion in product.gates]
        except (AttributeError, KeyError, TypeError) as error:
            # arguments that this plug-in cannot read are the engine's to judge, not a reason to stop a launch
            logger.warning("fusion-policy: SGLang %s: the arguments could not be read (%s: %s); nothing is done", version, type(error).__name__, error)
            return
        for decision, (fields, variables) in changes:
            before = _before(self, decision.fusion, fields, variables)
            after = {**before, **fields, **variables} if fields or variables else before
            log_decision("SGLang", version, chosen, decision, before, after)
        _apply(
            self,
            chosen,
            {name: value for _, (fields, _) in changes for name, value in fields.items()},
            {name: value for _, (_, held) in changes for name, value in held.items()},
        )
        if chosen != "advise":
            hand_over(ENGINE, handed_over(statement, verdict))

    setattr(resolve, _WRAPPED, True)
    return resolve


def _apply(arguments: Any, chosen: str, fields: dict[str, Any], variables: dict[str, str]) -> None:
    if chosen == "advise" or not (fields or variables):
        return
    if chosen == "fail":
        words = ", ".join(f"{name}={value}" for name, value in {**fields, **variables}.items())
        raise RefusedLaunchError(f"fusion-policy: this launch would have to change: {words}; `policy explain` says why")
    os.environ.update(variables)
    if fields:
        seam.write(arguments, fields)
        lost = {name: value for name, value in fields.items() if seam.read(arguments, name) != value}
        if lost:
            raise RefusedLaunchError(f"fusion-policy: SGLang did not take over {lost}")


def _changes(arguments: Any, pack: Pack, version: str, decision: Decision) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields and variables that have to change so that this decision holds."""
    fields: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for change in changes_of(ENGINE, version, wanted_switches(decision)):
        if change.variable:
            variables[change.path] = str(change.value)
        elif hasattr(arguments, change.path):
            fields[change.path] = change.value
    if decision.fusion == FUSION and harmful(pack, decision):
        # the switch is one for the resolution, which is over: what it would have led to is set as well
        held = BACKEND if hasattr(arguments, BACKEND) else FLAG
        if hasattr(arguments, held) and seam.read(arguments, held):
            fields[held] = None if held == BACKEND else False
    return (
        {name: value for name, value in fields.items() if seam.read(arguments, name) != value},
        {name: value for name, value in variables.items() if os.environ.get(name) != value},
    )


def _before(arguments: Any, fusion: str, fields: dict[str, Any], variables: dict[str, str]) -> dict[str, Any]:
    """What the engine has where it would change, and for the fusion itself in any case."""
    names = [*fields, *([name for name in (BACKEND, FLAG) if hasattr(arguments, name)][:1] if fusion == FUSION else ())]
    return {**{name: seam.read(arguments, name) for name in names}, **{name: os.environ.get(name) for name in variables}}


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
    _state_platform(statement)
    for name, maps in product.settings.items():
        if name in (FLAG, DISABLE) or not hasattr(arguments, name):
            continue
        value = seam.read(arguments, name)
        for one in maps if value is not None else ():
            if not one.fact.startswith(REQUEST_PREFIX):
                statement.state(one.fact, one.fact_value(value), at)
    if asked is not None:
        statement.state(REQUEST_PREFIX + FUSION, asked, at)
    statement.environment(product, os.environ)
    state_builder(statement, product, version, "SGLang's Ray actors do not inherit the decision" if seam.read(arguments, "use_ray") else "")
    model = str(getattr(arguments, "model_path", ""))
    path = find_config(model)
    for fact, value, origin in file_facts(path, model)[0] if path is not None else ():
        statement.state(fact, value, origin_over(statement.launch.given.get(fact), fact, value, origin))
    return statement


def _state_platform(statement: Statement) -> None:
    """What SGLang's own tests of the machine say; on a head without a GPU they say nothing, and nothing is stated."""
    from sglang.srt.utils import common

    at = Origin("probe", "SGLang's platform")
    for name, test in (("cuda", "is_cuda"), ("rocm", "is_hip"), ("npu", "is_npu"), ("xpu", "is_xpu")):
        if getattr(common, test, lambda: False)():
            statement.state("device.platform", name, at)
    if not getattr(common, "is_cuda", lambda: False)():
        return
    try:
        major, minor = common.get_device_capability()
        cuda, device = common.get_cuda_version(), common.get_device_name()
    except (RuntimeError, AssertionError, AttributeError):
        return
    if major is not None:
        statement.state("device.compute_capability", f"{major}.{minor}", at)
    statement.state("device.name", device or None, at)
    if cuda and cuda[0]:
        statement.state("engine.cuda_version", ".".join(str(part) for part in cuda), at)
