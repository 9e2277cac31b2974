"""Helm values of the vLLM production stack: `servingEngineSpec.modelSpec[]`."""

from __future__ import annotations

from policy.launchers.containers.reading.camel_case import OPTIONS, options_of
from policy.launchers.containers.reading.launches import environment_of, field_of, number, role_of_name, word_of, words_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "vLLM production stack values"
LOOKS_FOR = "servingEngineSpec.modelSpec"
_ROLES = {"kv_producer": "prefill", "kv_consumer": "decode", "sender": "prefill", "receiver": "decode"}


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 95 if any(document.at("servingEngineSpec") is not None for document in documents) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    return [_launch(model) for document in documents for model in document.elements("servingEngineSpec", "modelSpec") if model.kind == "mapping"]


def _launch(model: Node) -> FoundLaunch:
    place = (model.source.name, model.line, model.column)
    address = model.at("modelURL")
    words = [Field("vllm", place), Field("serve", place)] + ([field_of(address)] if address is not None and address.value is not None else [])
    configuration = model.at("vllmConfig")
    ray = model.at("raySpec", "enabled")
    on_ray = ray is not None and ray.value is True
    words += options_of(configuration, OPTIONS, frozenset() if on_ray else frozenset({"pipelineParallelSize"}))
    if configuration is None or configuration.at("enablePrefixCaching") is None:
        words.append(Field("--no-enable-prefix-caching", field_of(configuration or model).place))  # the chart's own addition
    for one in configuration.elements("extraArgs") if configuration is not None else []:
        if one.kind == "scalar":
            words.append(field_of(one))
    launch = FoundLaunch("vllm", words_of(words), name=model.string("name") or "")
    launch.environment = environment_of(environment_in(model.at("env"), {}, {}))
    repository, tag = model.at("repository"), model.string("tag")
    if repository is not None and repository.value is not None:
        launch.image = word_of(repository, "repository and tag", f"{repository.text}:{tag}" if tag else repository.text)
    said = [_ROLES.get(model.string("lmcacheConfig", key) or "") for key in ("kvRole", "nixlRole")]
    launch.role = next((role for role in said if role), None) or role_of_name(model.string("name"))
    devices = model.at("requestGPU")
    if devices is not None and isinstance(number(devices), int):
        launch.stated["device.gpus_per_node"] = Stated(number(devices), devices.origin("requestGPU"))
    if on_ray and ray is not None:
        launch.stated["engine.executor"] = Stated("ray", ray.origin("raySpec.enabled"))
    elif configuration is not None and configuration.at("pipelineParallelSize") is not None:
        launch.notes.append("`pipelineParallelSize` is read by the chart only with `raySpec.enabled: true`; it has no effect here")
    if model.at("extraArgs") is not None:
        launch.notes.append("`extraArgs` beside `vllmConfig` is not read by the chart; it belongs inside `vllmConfig`")
    return launch
