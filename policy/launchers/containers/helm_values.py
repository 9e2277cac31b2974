"""Values of charts without a format of their own: one engine, told by an image, a framework or a section's name, with
model, sizes and further options under the usual names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from policy.launchers.containers.reading.images import engine_of_image
from policy.launchers.containers.reading.launches import environment_of, field_of, options_from, role_of_name, role_of_words, state, word_of, words_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Word
from policy.launchers.shell_words import tokens
from policy.launchers.yaml_places import Node

NAME = "Helm values"
LOOKS_FOR = "an engine told by image, framework or section, with a model"
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm", "tensorrtllm": "tensorrt_llm"}
_PROGRAMS = {"vllm": ["vllm", "serve"], "sglang": ["python3", "-m", "sglang.launch_server"], "tensorrt_llm": ["trtllm-serve"]}
_SIZES = {
    "tensorparallelsize": "parallel.tensor_parallel_size",
    "tpsize": "parallel.tensor_parallel_size",
    "tensorparallel": "parallel.tensor_parallel_size",
    "pipelineparallelsize": "parallel.pipeline_parallel_size",
    "ppsize": "parallel.pipeline_parallel_size",
    "pipelineparallel": "parallel.pipeline_parallel_size",
    "dataparallelsize": "parallel.data_parallel_size",
    "dpsize": "parallel.data_parallel_size",
    "dataparallel": "parallel.data_parallel_size",
    "nnodes": "parallel.nodes",
    "numnodes": "parallel.nodes",
    "nodecount": "parallel.nodes",
}
_MODELS = ("model", "modelid", "modelname", "modelurl", "modelpath", "hfmodel", "huggingfacemodel", "modelidorpath", "modelnameorpath")
_INSIDE_MODEL = ("name", "id", "repo", "repository", "modelid", "modelname", "path", "uri")
_ARGUMENTS = ("extraargs", "serverargs", "args", "engineargs", "vllmargs", "sglangargs", "additionalargs", "modelargs")
_ENVIRONMENTS = ("env", "envs", "extraenv", "extraenvvars", "envvars", "environment")
_BESIDE = {"router", "routerspec", "gateway", "benchmark", "proxy", "frontend", "computedomain"}
_CHART = ("replicacount", "image", "service", "resources", "volumes", "nodeselector", "ingress", "workload", "job", "serviceaccount", "autoscaling")


def _simple(key: str) -> str:
    return re.sub(r"[-_.]", "", key).lower()


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    for document in documents:
        if document.kind != "mapping" or document.string("apiVersion") is not None:
            continue
        chart = sum(_simple(key) in _CHART for key, _ in document.items())
        if _engine(document) is not None and _names_model(document) and (chart >= 1 or "values" in name.lower()):
            return 45
    return 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        engine = _engine(document) if document.kind == "mapping" else None
        if engine is None or not _names_model(document):
            continue
        roles = {role: node for key, node in _mappings(document) if (role := role_of_name(key)) is not None and node.value}
        if set(roles) == {"prefill", "decode"}:
            launches += [_launch(document, engine, role, [roles[other] for other in roles if other != role]) for role in roles]
        else:
            launches.append(_launch(document, engine, None, []))
    return launches


def _launch(document: Node, engine: str, role: str | None, without: list[Node]) -> FoundLaunch:
    """The launch of the whole file, or of one role in it: then without the other role's section."""
    model = _model(document)
    holders = [holder for holder in _holders(document, engine) if not any(one.start <= holder.start and holder.end <= one.end for one in without)]
    place = field_of(model if model is not None else document).place
    words = [Field(text, place) for text in _PROGRAMS[engine]]
    if model is not None:
        words += [Field("--model-path", place), field_of(model)] if engine == "sglang" else [field_of(model)]
    for holder in holders:
        words += _arguments(holder)
    launch = FoundLaunch(engine, words_of(words))
    for holder in holders:
        for key, node in holder.items():
            fact = _SIZES.get(_simple(key))
            if fact is not None and fact not in launch.stated:
                state(launch, fact, node, key)
            if _simple(key) in _ENVIRONMENTS:
                launch.environment.update(environment_of(environment_in(node, {}, {})))
    launch.image = _image(document)
    launch.role = role or role_of_words([word.text for word in launch.words])
    launch.name = document.string("fullnameOverride") or document.string("nameOverride") or role or ""
    return launch


def _mappings(document: Node, depth: int = 3) -> Iterator[tuple[str, Node]]:
    """The document and the mappings inside it, with the key each stands under."""
    level: list[tuple[str, Node]] = [("", document)]
    for _ in range(depth):
        following: list[tuple[str, Node]] = []
        for key, node in level:
            yield key, node
            following += [(inner, child) for inner, child in node.items() if child.kind == "mapping"]
        level = following


def _engine(document: Node) -> str | None:
    for key, node in _mappings(document):
        if _simple(key) in _ENGINES and node.value:
            return _ENGINES[_simple(key)]
        for inner, child in node.items():
            if _simple(inner) in {"framework", "engine", "inferenceengine", "enginetype", "backend", "runtime"} and child.kind == "scalar":
                engine = _ENGINES.get(_simple(child.text))
                if engine is not None:
                    return engine
    image = _image(document)
    return engine_of_image(image.text) if image is not None else None


def _names_model(document: Node) -> bool:
    """Whether there is a place for a model, filled or not."""
    return any(_simple(key) in _MODELS for _, node in _mappings(document) for key, _ in node.items())


def _model(document: Node) -> Node | None:
    """The model's repository; a path where the name is only what it is served as."""
    for _, node in _mappings(document):
        keys = {_simple(key): child for key, child in node.items()}
        for name in _MODELS:
            child = keys.get(name)
            if child is None:
                continue
            inner = {_simple(key): one for key, one in child.items()} if child.kind == "mapping" else {name: child}
            given = [one for key, one in inner.items() if key in _INSIDE_MODEL or key == name]
            given = [one for one in given if one.kind == "scalar" and isinstance(one.value, str) and one.value]
            if given:
                return next((one for one in given if "/" in one.text), given[0])
    return None


def _image(document: Node) -> Word | None:
    """The first image that is an engine's, else the first with a repository; a repository and a tag are joined."""
    images: list[Word] = []
    for key, node in _mappings(document):
        if _simple(key) == "image" and node.string("repository"):
            repository, tag = node.at("repository"), node.string("tag")
            registry = node.string("registry")
            if repository is not None:
                name = "/".join(part for part in (registry, repository.text) if part)
                images.append(word_of(repository, "image.repository and image.tag", f"{name}:{tag}" if tag else name))
        child = node.at("image")
        if child is not None and child.kind == "scalar" and isinstance(child.value, str) and child.value:
            images.append(word_of(child, "image"))
    return next((image for image in images if engine_of_image(image.text)), None)


def _holders(document: Node, engine: str) -> list[Node]:
    """Mappings that may hold arguments: not those of another engine or of a router."""
    beside = {name for name, other in _ENGINES.items() if other != engine} | _BESIDE
    return [node for key, node in _mappings(document) if _simple(key) not in beside]


def _arguments(holder: Node) -> list[Field]:
    words: list[Field] = []
    for key, node in holder.items():
        if _simple(key) not in _ARGUMENTS:
            continue
        if node.kind == "mapping":
            words += options_from(node)[0]
        elif node.kind == "sequence":
            words += [field_of(one) for one in node.elements() if one.kind == "scalar"]
        elif node.value is not None:
            places = node.places()
            words += [
                Field(token.word.written, (node.source.name, *places(token.offset)))
                for token in tokens(node.text)
                if token.word is not None and token.kind == "word"
            ]
    return words
