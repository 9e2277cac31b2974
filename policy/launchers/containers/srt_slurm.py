"""srt-slurm recipes (InferenceX): `backend` with a configuration per role, `resources` with nodes and workers."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import environment_of, field_of, number, options_from, word_of, words_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.containers.reading.tensorrt_llm import state_options
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "srt-slurm recipe"
LOOKS_FOR = "backend.vllm_config, sglang_config or trtllm_config with prefill, decode or aggregated"
_ENGINES = {"vllm_config": "vllm", "sglang_config": "sglang", "trtllm_config": "tensorrt_llm"}
_PROGRAMS = {"vllm": ["vllm", "serve"], "sglang": ["python3", "-m", "sglang.launch_server"], "tensorrt_llm": ["trtllm-serve"]}
_ROLES = {"prefill": "prefill", "decode": "decode", "aggregated": None, "agg": None}
_SHORT = {"prefill": "prefill", "decode": "decode", "aggregated": "agg", "agg": "agg"}
_RELEASE = re.compile(r"v?\d+\.\d+")
_UNTAGGED = re.compile(r"v?0\.[01](?:\.0)?\.dev")  # what a build from a checkout without tags calls itself
_MODEL_KEYS = ("model", "model-path", "model_path")


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 95 if any(recipe.at("backend", key) is not None for document in documents for recipe in _recipes(document) for key in _ENGINES) else 0


def _recipes(document: Node) -> list[Node]:
    """The recipe itself; of a file with variants its `base`."""
    return [one for one in (document, document.at("base")) if one is not None and one.kind == "mapping"]


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        for recipe in _recipes(document):
            for key, engine in _ENGINES.items():
                for part, options in recipe.items("backend", key):
                    if part in _ROLES and options.kind == "mapping":
                        launches.append(_launch(recipe, engine, part, options))
        overrides = [key for key, _ in document.items() if key.startswith(("override_", "zip_override_"))]
        if overrides and document.at("base") is not None:
            message = f"only `base` is read; {', '.join(f'`{key}`' for key in overrides)} are not applied"
            problems.append(LaunchNotice("variants-not-read", message, document.origin()))
    return launches


def _launch(recipe: Node, engine: str, part: str, options: Node) -> FoundLaunch:
    place = (options.source.name, options.line, options.column)
    program = [Field(text, place) for text in _PROGRAMS[engine]]
    launch = FoundLaunch(engine, name=f"{recipe.string('name') or ''}/{part}".lstrip("/"), role=_ROLES[part])
    model = next((node for key in _MODEL_KEYS if (node := options.at(key)) is not None), None) or _model(recipe, options)
    if engine == "tensorrt_llm":
        launch.words = words_of(program + ([field_of(model)] if model is not None else []))
        state_options(launch, options)
    else:
        dynamo = [key for key, _ in options.items() if key.replace("_", "-").startswith(("dyn-", "no-dyn-"))]  # what the worker around the engine takes
        words, off = options_from(options, skip=[*_MODEL_KEYS, *dynamo])
        named = [field_of(model)] if model is not None else []
        if engine == "sglang" and model is not None:
            named.insert(0, Field("--model-path", named[0].place))
        launch.words = words_of(program + named + words)
        for key, node in off.items():
            if key.replace("_", "-") == "enable-dp-attention":
                launch.stated["parallel.dp_attention"] = Stated(False, node.origin(key))
    environment = environment_in(recipe.at("environment"), {}, {})
    for key in (f"{part}_environment", f"{_SHORT[part]}_environment"):
        environment.update(environment_in(recipe.at("backend", key), {}, {}))
    launch.environment = environment_of(environment)
    image = recipe.at("identity", "container", "image") or recipe.at("model", "container")
    if image is not None and image.kind == "scalar" and image.value is not None:
        launch.image = word_of(image, "container image")
    version = recipe.at("identity", "frameworks", "trtllm" if engine == "tensorrt_llm" else engine)
    if version is not None and version.kind == "scalar" and version.value is not None:
        if _RELEASE.match(version.text) and not _UNTAGGED.match(version.text):
            launch.version = word_of(version, "identity.frameworks")
        else:
            launch.notes.append(f"`{version.text}` in `identity.frameworks` is a build without a release")
    _state_nodes(launch, recipe, _SHORT[part])
    return launch


def _model(recipe: Node, options: Node) -> Node | None:
    """A repository before a served name, a served name before an alias that the cluster's own settings map."""
    path, served = recipe.at("model", "path"), options.at("served-model-name") or options.at("served_model_name")
    repository = recipe.at("identity", "model", "repo")
    if repository is None and path is not None and re.fullmatch(r"(?:hf:)?[\w.-]+/[\w.-]+", path.text):
        repository = path
    return next((node for node in (repository, served, path) if node is not None and node.kind == "scalar" and node.value is not None), None)


def _state_nodes(launch: FoundLaunch, recipe: Node, part: str) -> None:
    """Nodes of a role shared by its workers: whole nodes a worker, or one node that holds them all. Workers that share
    several nodes unevenly are left to the sizes and the GPUs of a node."""
    per_node = recipe.at("resources", "gpus_per_node")
    if per_node is not None and isinstance(number(per_node), int):
        launch.stated["device.gpus_per_node"] = Stated(number(per_node), per_node.origin("resources.gpus_per_node"))
    nodes, workers = recipe.at("resources", f"{part}_nodes"), recipe.at("resources", f"{part}_workers")
    if nodes is None or not isinstance(number(nodes), int):
        return
    hosts, engines = number(nodes), number(workers) if workers is not None and isinstance(number(workers), int) else 1
    if hosts == 1 or (engines and hosts % engines == 0):
        launch.stated["parallel.nodes"] = Stated(max(1, hosts // max(1, engines)), nodes.origin(f"resources.{part}_nodes"))
