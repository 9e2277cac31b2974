"""The plug-in for vLLM: decides about the configuration that `EngineArgs.create_engine_config` made, whether its values
are defaults or were forced, and has it made again where it has to change."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable
from typing import Any

from policy.decision import Decision
from policy.facts import ValueProblem
from policy.launchers.installed import installed_versions
from policy.launchers.model_config import origin_over
from policy.launchers.model_facts import config_facts
from policy.launchers.plugins.adapter import hand_over, handed_over, state_builder, take_back
from policy.launchers.plugins.common import RefusedLaunchError, Statement, harmful, log_decision, logger, mode, report, speak, supported, the_pack
from policy.origin import Origin
from policy.pack import REQUEST_PREFIX, Pack, Product

ENGINE = "vllm"
SETTING = "pass_config."
_WRAPPED = "_fusion_policy_wrapped"


def register() -> None:
    """The entry point: called by vLLM in every process, without arguments; does nothing unless a mode is set."""
    if mode() is None:
        return
    speak()
    version = _version()
    pack = the_pack()
    product = supported(pack, ENGINE, "vLLM", version)
    if pack is None or product is None:
        return
    from vllm.engine.arg_utils import EngineArgs

    original = EngineArgs.create_engine_config
    if not getattr(original, _WRAPPED, False):
        EngineArgs.create_engine_config = _wrapped(original, pack, product, version)
    report(ENGINE, version, "loaded")


def _version() -> str:
    held = installed_versions().get(ENGINE)
    if held is not None:
        return held[0]
    import vllm

    return str(getattr(vllm, "__version__", "0.0.0+unknown"))


def _wrapped(original: Callable[..., Any], pack: Pack, product: Product, version: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def create_engine_config(self: Any, *arguments: Any, **keywords: Any) -> Any:
        asked = copy.deepcopy(self.compilation_config)
        config = original(self, *arguments, **keywords)
        chosen = mode()
        take_back(on_purpose=chosen is not None)
        if chosen is None:
            return config
        try:
            changes, variables, handed = decide(pack, product, version, config, asked, chosen)
        except (ValueProblem, AttributeError, KeyError) as error:
            # a configuration that this plug-in cannot read is the engine's to judge, not a reason to stop a launch
            logger.warning("fusion-policy: vLLM %s: the configuration could not be read (%s: %s); nothing is done", version, type(error).__name__, error)
            return config
        if chosen == "advise":
            return config
        if chosen == "fail" and (changes or variables):
            words = ", ".join([*(f"{SETTING}{name}={value}" for name, value in changes.items()), *(f"{name}={value}" for name, value in variables.items())])
            raise RefusedLaunchError(f"fusion-policy: this launch would have to change: {words}; `policy explain` says why")
        os.environ.update(variables)
        hand_over(ENGINE, handed)
        if not changes:
            return config
        for name, value in changes.items():
            setattr(asked.pass_config, name, value)
        self.compilation_config = asked
        made = original(self, *arguments, **keywords)
        lost = {name: value for name, value in changes.items() if getattr(made.compilation_config.pass_config, name, None) != value}
        if lost:
            raise RefusedLaunchError(f"fusion-policy: vLLM {version} did not take over {lost}")
        return made

    setattr(create_engine_config, _WRAPPED, True)
    return create_engine_config


def decide(pack: Pack, product: Product, version: str, config: Any, asked: Any, chosen: str) -> tuple[dict[str, bool], dict[str, str], dict[str, str]]:
    """What has to change: pass_config fields and environment variables; and what is handed to the adapter. Logs one line
    for each decision of interest."""
    statement = state_config(pack, product, version, config, asked)
    verdict = statement.decide()
    changes: dict[str, bool] = {}
    variables: dict[str, str] = {}
    for decision in verdict.decisions:
        gate = product.gates.get(decision.fusion)
        if gate is None or not gate.setting.startswith(SETTING):
            continue
        name = gate.setting[len(SETTING) :]
        before = getattr(config.compilation_config.pass_config, name, None)
        after = _wanted(pack, decision, before)
        wanted = dict(text.split("=", 1) for text in (switch.text for switch in decision.switches if switch.kind == "env" and decision.state == "on"))
        log_decision("vLLM", version, chosen, decision, before, wanted if wanted else after)
        if after != before and after is not None:
            changes[name] = after
        variables.update({one: value for one, value in wanted.items() if os.environ.get(one) != value})
    return changes, variables, handed_over(statement, verdict)


def _wanted(pack: Pack, decision: Decision, before: Any) -> Any:
    """The value a field should have: on only where the answer goes beyond the engine, never where the engine itself, for a
    reason that is not known here, left off what it was expected to turn on."""
    if before is True and harmful(pack, decision):
        return False
    if decision.state == "on" and before is not True and decision.against_engine == "wider":
        return True
    return before


def state_config(pack: Pack, product: Product, version: str, config: Any, asked: Any) -> Statement:
    """The facts of a made configuration; what was asked is read from the compilation configuration as it was given."""
    statement = Statement(pack)
    at = Origin("argument", "vLLM's configuration")
    statement.state("engine.name", ENGINE, at)
    statement.state("engine.version", version, Origin("probe", "installed metadata"))
    statement.machine()
    parallel, model = config.parallel_config, config.model_config
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "prefill_context_parallel_size", "decode_context_parallel_size"):
        statement.state(f"parallel.{name}", getattr(parallel, name, None), at)
    statement.state("parallel.nodes", getattr(parallel, "nnodes", None), at)
    statement.state("parallel.elastic_ep", getattr(parallel, "enable_elastic_ep", None), at)
    statement.state("parallel.expert_parallel", getattr(parallel, "enable_expert_parallel", None), at)
    external, hybrid = getattr(parallel, "data_parallel_external_lb", False), getattr(parallel, "data_parallel_hybrid_lb", False)
    statement.state("parallel.load_balancing", "external" if external else "hybrid" if hybrid else "internal", at)
    executor = getattr(parallel, "distributed_executor_backend", None)
    statement.state("engine.executor", executor if executor in ("mp", "ray", "external_launcher", "uni") else None, at)
    statement.state("engine.optimization_level", _integer(getattr(config, "optimization_level", None)), at)
    statement.state("engine.max_num_batched_tokens", getattr(config.scheduler_config, "max_num_batched_tokens", None), at)
    if model is not None:
        _state_model(statement, product, model, at)
    _state_platform(statement)
    statement.environment(product, os.environ)
    state_builder(statement, product, version)
    statement.state("engine.allreduce_max_mebibytes", getattr(asked.pass_config, "fi_allreduce_fusion_max_size_mb", None), at)
    for gate in product.gates.values():
        if gate.setting.startswith(SETTING):
            value = getattr(asked.pass_config, gate.setting[len(SETTING) :], None)
            statement.state(REQUEST_PREFIX + gate.fusion, None if value is None else "on" if value else "off", at)
    return statement


def _state_model(statement: Statement, product: Product, model: Any, at: Origin) -> None:
    statement.state("model.name", str(model.model), at)
    statement.state("model.dtype", str(model.dtype).removeprefix("torch."), at)
    statement.state("engine.enforce_eager", bool(model.enforce_eager), at)
    method = getattr(model, "quantization", None)
    for one in product.settings.get("quantization", ()) if isinstance(method, str) else ():
        statement.state(one.fact, one.fact_value(method), at)
    hf_config = getattr(model, "hf_config", None)
    if hf_config is not None and hasattr(hf_config, "to_dict"):
        for fact, value, origin in config_facts(hf_config.to_dict(), "the model's configuration", whole=method is None):
            if fact != "model.dtype":
                statement.state(fact, value, origin_over(statement.launch.given.get(fact), fact, value, origin))


def _state_platform(statement: Statement) -> None:
    """What vLLM's own platform says; on a head without a GPU it says nothing, and the workers decide."""
    from vllm.platforms import current_platform

    at = Origin("probe", "vLLM's platform")
    for name in ("cuda", "rocm", "xpu", "tpu", "cpu"):
        if getattr(current_platform, f"is_{name}", lambda: False)():
            statement.state("device.platform", name, at)
    try:
        capability = current_platform.get_device_capability()
    except (RuntimeError, AssertionError, NotImplementedError):
        return
    if capability is not None:
        statement.state("device.compute_capability", f"{capability.major}.{capability.minor}", at)
        statement.state("device.name", current_platform.get_device_name(), at)


def _integer(value: Any) -> int | None:
    try:
        return None if value is None else int(getattr(value, "value", value))
    except (TypeError, ValueError):
        return None
