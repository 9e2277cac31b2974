"""Helm values of llm-d modelservice: `modelArtifacts` with `decode` and `prefill`."""

from __future__ import annotations

from policy.launchers.containers.reading.images import stands_in
from policy.launchers.containers.reading.launches import field_of, state, words_of
from policy.launchers.containers.reading.pods import Surroundings, argument_nodes, complete, environment_in, launches_of_container, referenced
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "llm-d modelservice values"
LOOKS_FOR = "decode or prefill containers with a modelCommand"
_SIZES = {
    "tensor": "parallel.tensor_parallel_size",
    "pipeline": "parallel.pipeline_parallel_size",
    "data": "parallel.data_parallel_size",
    "dataLocal": "parallel.data_parallel_size_local",
}


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 95 if any(_is(document) for document in documents) else 0


def _is(document: Node) -> bool:
    return document.at("modelArtifacts") is not None and any(document.at(role) is not None for role in ("decode", "prefill"))


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        for role in ("decode", "prefill"):
            part = document.at(role)
            create = part.at("create") if part is not None else None
            if not _is(document) or part is None or part.kind != "mapping" or (create is not None and create.value is False):
                continue
            launches += _of_role(document, part, role)
    return launches


def _of_role(document: Node, part: Node, role: str) -> list[FoundLaunch]:
    containers = part.elements("containers")
    container = next((one for one in containers if one.at("modelCommand") is not None), containers[0] if containers else None)
    around = Surroundings(name=role, role=role)
    if container is None or container.kind != "mapping" or stands_in(container.string("image") or ""):
        return []
    if container.string("modelCommand") == "custom" or container.at("command") is not None:
        found = launches_of_container(container, around)
    else:
        found = [_generated(document, container, around)]
    several = document.at("multinode")
    for launch in found:
        launch.role = role
        for key, fact in _SIZES.items():
            state(launch, fact, part.at("parallelism", key), f"{role}.parallelism.{key}")
        if several is not None and several.value is True:
            state(launch, "parallel.nodes", part.at("parallelism", "workers"), f"{role}.parallelism.workers")
    return found


def _generated(document: Node, container: Node, around: Surroundings) -> FoundLaunch:
    """`vllmServe` and `imageDefault`: the chart writes the command from `modelArtifacts`."""
    model = document.at("modelArtifacts", "name")
    place = (container.source.name, container.line, container.column)
    environment = environment_in(container.at("env"), {}, {}, container)
    words = [Field("vllm", place), Field("serve", place)] + ([field_of(model)] if model is not None else [])
    words += [field_of(node, referenced(node.text, environment)) for node in argument_nodes(container.at("args"))]
    launch = FoundLaunch("vllm", words_of(words))
    complete(launch, container, environment, around)
    return launch
