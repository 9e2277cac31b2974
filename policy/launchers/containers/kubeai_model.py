"""KubeAI models: the manifest of one model, and the catalogue of models in its chart's values."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import environment_of, field_of, word_of, words_of
from policy.launchers.containers.reading.pods import argument_nodes, environment_in, objects
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "KubeAI model"
LOOKS_FOR = "a model with the engine VLLM"


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    if any(_manifest(document) for document in objects(documents)):
        return 100
    return 80 if any(_is(model) for document in documents for _, model in document.items("catalog")) else 0


def _manifest(document: Node) -> bool:
    return document.string("kind") == "Model" and (document.string("apiVersion") or "").startswith("kubeai.org/")


def _is(model: Node) -> bool:
    return model.kind == "mapping" and model.string("engine") is not None and model.string("url") is not None


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    models = [(document.string("metadata", "name") or "", document.at("spec")) for document in objects(documents) if _manifest(document)]
    models += [(key, model) for document in documents for key, model in document.items("catalog")]
    return [_launch(key, model) for key, model in models if model is not None and _is(model) and model.string("engine") == "VLLM"]


def _launch(name: str, model: Node) -> FoundLaunch:
    url = model.at("url")
    assert url is not None
    program = [field_of(url, "vllm"), field_of(url, "serve"), field_of(url, re.sub(r"^hf://|\?.*$", "", url.text))]
    words: list[Field] = [field_of(node) for node in argument_nodes(model.at("args"))]
    launch = FoundLaunch("vllm", words_of(program + words), environment_of(environment_in(model.at("env"), {}, {})), name=name)
    image = model.at("image")
    if image is not None and image.kind == "scalar" and image.value is not None:
        launch.image = word_of(image, "image")
    profile = model.at("resourceProfile")
    count = re.fullmatch(r"[\w.-]*gpu[\w.-]*:(\d+)", profile.text) if profile is not None and profile.kind == "scalar" else None
    if profile is not None and count is not None:
        launch.stated["device.gpus_per_node"] = Stated(int(count[1]), profile.origin("resourceProfile"))
    return launch
