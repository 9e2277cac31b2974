"""KServe LLMInferenceService and its Config: the controller writes vLLM's command from `model` and `parallelism`;
further options come in the variable VLLM_ADDITIONAL_ARGS; a container may carry a command of its own."""

from __future__ import annotations

import re
from functools import partial

from policy.launchers.containers.reading.images import engine_of_image, stands_in
from policy.launchers.containers.reading.launches import field_of, fields_of, state, words_of
from policy.launchers.containers.reading.pods import (
    Surroundings,
    argument_nodes,
    complete,
    configurations,
    environment_in,
    launches_of_container,
    objects,
    referenced,
)
from policy.launchers.containers.reading.shell_expand import Field, Variables, expand
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.shell_words import tokens
from policy.launchers.yaml_places import Node, Places

NAME = "KServe LLMInferenceService"
LOOKS_FOR = "a model or a template whose main container is vLLM"
KINDS = frozenset({"LLMInferenceService", "LLMInferenceServiceConfig"})
ADDITIONAL = "VLLM_ADDITIONAL_ARGS"
_SIZES = {
    "tensor": "parallel.tensor_parallel_size",
    "pipeline": "parallel.pipeline_parallel_size",
    "data": "parallel.data_parallel_size",
    "dataLocal": "parallel.data_parallel_size_local",
}


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in objects(documents):
        spec = document.at("spec")
        if document.string("kind") not in KINDS or spec is None or spec.kind != "mapping":
            continue
        whole = document.string("metadata", "name") or ""
        maps = configurations(documents)
        prefill = spec.at("prefill")
        starts = document.string("kind") == "LLMInferenceService" or any(spec.at(key) is not None for key in ("template", "worker"))
        if starts:
            launches += _of_workload(spec, spec, Surroundings(maps, name=whole, role="decode" if prefill is not None else None))
        if prefill is not None and prefill.kind == "mapping":
            launches += _of_workload(prefill, spec, Surroundings(maps, name=f"{whole}/prefill", role="prefill"))
    return launches


def _of_workload(workload: Node, spec: Node, around: Surroundings) -> list[FoundLaunch]:
    container = next((one for key in ("template", "worker") if (one := _main(workload.at(key))) is not None), None)
    launches = _of_container(container, workload, spec, around)
    for launch in launches:
        for key, fact in _SIZES.items():
            state(launch, fact, workload.at("parallelism", key), f"parallelism.{key}")
    return launches


def _main(pod: Node | None) -> Node | None:
    containers = pod.elements("containers") if pod is not None else []
    return next((one for one in containers if one.string("name") == "main"), containers[0] if containers else None)


def _of_container(container: Node | None, workload: Node, spec: Node, around: Surroundings) -> list[FoundLaunch]:
    model = _model(spec)
    expert = workload.at("parallelism", "expert")
    further = [Field("--enable-expert-parallel", field_of(expert).place)] if expert is not None and expert.value is True else []
    if container is not None and container.at("command") is not None:
        found = launches_of_container(container, around)
        for launch in found:
            launch.words = words_of(_spread(fields_of(launch.words), container) + further)
        return found
    image = container.string("image") if container is not None else None
    if image is not None and engine_of_image(image) not in {"vllm", None}:
        return []
    if image is not None and stands_in(image):
        return []
    near = container if container is not None else spec
    place = (near.source.name, near.line, near.column)
    words = [Field("vllm", place), Field("serve", place)] + ([model] if model is not None else [])
    launch = FoundLaunch("vllm", (), name=around.name)
    environment: dict[str, Field] = {}
    if container is not None:
        environment = environment_in(container.at("env"), around.given, around.configurations, container)
        words += [field_of(node, referenced(node.text, environment)) for node in argument_nodes(container.at("args"))]
    words += _additional(container, environment) + further
    launch.words = words_of(words)
    if container is not None:
        complete(launch, container, environment, around)
    launch.role = around.role
    return [launch]


def _model(spec: Node) -> Field | None:
    """The repository behind an `hf://` address where the name is only the served one; else the name; else the address."""
    name, address = spec.at("model", "name"), spec.at("model", "uri")
    repository = re.fullmatch(r"hf://([^/\s:]+/[^/\s:]+)(?::\S*)?", address.text) if address is not None else None
    if address is not None and repository is not None and (name is None or "/" not in name.text):
        return field_of(address, repository.group(1))
    chosen = name if name is not None else address
    return field_of(chosen) if chosen is not None and chosen.kind == "scalar" and chosen.value is not None else None


def _additional(container: Node | None, environment: dict[str, Field]) -> list[Field]:
    """The words of VLLM_ADDITIONAL_ARGS, whose quotes the controller's `eval` undoes, at their own places."""
    for element in container.elements("env") if container is not None else []:
        value = element.at("value")
        if element.string("name") == ADDITIONAL and value is not None and value.kind == "scalar":
            places = value.places()
            known = Variables()
            name = value.source.name
            words = [token.word for token in tokens(value.text) if token.word is not None]
            return [item for word in words for item in expand(word, known, partial(_place, name, places))]
    given = environment.get(ADDITIONAL)
    return [Field(token.word.written, given.place) for token in tokens(given.text) if token.word is not None] if given is not None else []


def _place(name: str, places: Places, offset: int) -> tuple[str, int, int]:
    return (name, *places(offset))


def _spread(words: list[Field], container: Node) -> list[Field]:
    """A word `$VLLM_ADDITIONAL_ARGS` that nothing in the file sets is dropped: the controller leaves it empty."""
    given = any(one.string("name") == ADDITIONAL for one in container.elements("env"))
    return [word for word in words if given or word.text not in {f"${ADDITIONAL}", f"${{{ADDITIONAL}}}"}]
