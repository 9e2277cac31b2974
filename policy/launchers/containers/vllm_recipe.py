"""vLLM recipes: what holds whatever hardware is chosen, and one more launch for each hardware section that fixes a
fusion. A strategy's sizes are made from counts of nodes and GPUs, so they are not the recipe's to state."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import FUSIONS, environment_of, field_of, number, word_of, words_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated, Word
from policy.launchers.yaml_places import Node

NAME = "vLLM recipe"
LOOKS_FOR = "model.model_id with base_args, hardware_overrides"
_SECTIONS = ("compatible_strategies", "hardware_overrides", "variants")
_BRANDS = {"hopper": "nvidia", "blackwell": "nvidia", "ampere": "nvidia", "ada": "nvidia", "nvidia": "nvidia", "amd": "amd", "cpu": "cpu", "xpu": "intel"}


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    for document in documents:
        if document.at("model", "model_id") is not None and any(document.at(key) is not None for key in _SECTIONS):
            return 95
        if document.at("model", "base_args") is not None or document.at("model", "min_vllm_version") is not None:
            return 95
        if document.string("deploy_type") is not None and document.at("hardware_match") is not None:
            return 95
    return 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        model = document.at("model")
        if model is None or model.at("model_id") is None:
            if document.string("deploy_type") is not None:
                problems.append(LaunchNotice("no-launch", "a strategy says how sizes follow from nodes and GPUs; it is no launch by itself", document.origin()))
            continue
        launches.append(_launch(document, model, None, ""))
        for hardware, section in document.items("hardware_overrides"):
            said = [one.text for one in section.elements("extra_args")] + [f"{key}={value.text}" for key, value in section.items("extra_env")]
            if any(FUSIONS.search(text) for text in said):
                launches.append(_launch(document, model, section, hardware))
            elif any(text.startswith(("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size", "-tp", "-pp", "-dp")) for text in said):
                launches[0].notes.append(f"`hardware_overrides.{hardware}` changes a parallel size")
    return launches


def _launch(document: Node, model: Node, section: Node | None, hardware: str) -> FoundLaunch:
    """The base launch, or the one for a hardware section on top of it."""
    identifier = model.at("model_id")
    place = (model.source.name, model.line, model.column)
    words = [Field("vllm", place), Field("serve", place)] + ([field_of(identifier)] if identifier is not None else [])
    default = document.at("variants", "default")
    environment: dict[str, Field] = {}
    for holder, arguments, variables in ((model, "base_args", "base_env"), (default, "extra_args", "extra_env"), (section, "extra_args", "extra_env")):
        if holder is not None:
            words += [field_of(one) for one in holder.elements(arguments) if one.kind == "scalar"]
            environment.update(environment_in(holder.at(variables), {}, {}))
    launch = FoundLaunch("vllm", words_of(words), environment_of(environment), name=identifier.text if identifier is not None else "")
    version = (default.at("min_vllm_version") if default is not None else None) or model.at("min_vllm_version")
    if version is not None and version.kind == "scalar" and version.value is not None:
        launch.version = Word(f">={version.text.lstrip('>=v ')}", version.origin("min_vllm_version"))
    size = document.at("strategy_overrides", "single_node_tp", "tp")
    if size is not None and isinstance(number(size), int):
        launch.stated["parallel.tensor_parallel_size"] = Stated(number(size), size.origin("strategy_overrides.single_node_tp.tp"))
    image = model.at("docker_image")
    if image is not None and image.kind == "mapping":
        image = image.at(_BRANDS.get(hardware, hardware))
    if image is not None and image.kind == "scalar" and image.value is not None:
        launch.image = word_of(image, "docker_image")
    if section is not None:
        launch.when = f"hardware_overrides.{hardware}"
    return launch
