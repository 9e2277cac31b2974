"""VLLMRuntime of the vLLM production stack's operator: fields that become vLLM's options, and `extraArgs`."""

from __future__ import annotations

from policy.launchers.containers.reading.camel_case import OPTIONS, options_of
from policy.launchers.containers.reading.launches import environment_of, field_of, number, role_of_name, word_of, words_of
from policy.launchers.containers.reading.pods import environment_in, objects
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "VLLMRuntime"
LOOKS_FOR = "a model with modelURL"
KINDS = frozenset({"VLLMRuntime"})


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in objects(documents):
        spec = document.at("spec")
        if document.string("kind") not in KINDS or spec is None:
            continue
        model = spec.at("model", "modelURL")
        place = (spec.source.name, spec.line, spec.column)
        words = [Field("vllm", place), Field("serve", place)] + ([field_of(model)] if model is not None else [])
        for holder in (spec.at("model"), spec.at("vllmConfig"), spec):
            words += options_of(holder, OPTIONS)
        for holder in (spec.at("vllmConfig"), spec):
            words += [field_of(one) for one in (holder.elements("extraArgs") if holder is not None else []) if one.kind == "scalar"]
        launch = FoundLaunch("vllm", words_of(words), name=document.string("metadata", "name") or "", role=role_of_name(document.string("metadata", "name")))
        for deployment in (spec.at("deploymentConfig"), spec):
            image = deployment.at("image") if deployment is not None else None
            if image is not None and image.at("name") is not None:
                named = image.at("name")
                registry = image.string("registry")
                launch.image = word_of(named, "image", "/".join(part for part in (registry, named.text) if part)) if named is not None else None
            devices = deployment.at("resources", "gpu") if deployment is not None else None
            if devices is not None and isinstance(number(devices), int):
                launch.stated["device.gpus_per_node"] = Stated(number(devices), devices.origin("resources.gpu"))
        for holder in (spec, spec.at("vllmConfig")):
            launch.environment.update(environment_of(environment_in(holder.at("env") if holder is not None else None, {}, {})))
        launches.append(launch)
    return launches
