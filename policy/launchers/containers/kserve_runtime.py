"""Serving runtimes and inference services, of KServe and of OME: a container under `containers`, `predictor`, or a
`runner` of an engine, a leader or a decoder."""

from __future__ import annotations

from policy.launchers.containers.reading.images import engine_of_image
from policy.launchers.containers.reading.launches import field_of, number, state, words_of
from policy.launchers.containers.reading.pods import (
    Surroundings,
    argument_nodes,
    complete,
    configurations,
    environment_in,
    launches_of_container,
    launches_of_pod,
    objects,
    referenced,
)
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "serving runtime or inference service"
LOOKS_FOR = "containers, runners or a predictor's model that an engine serves"
KINDS = frozenset({"ServingRuntime", "ClusterServingRuntime", "InferenceService"})
_SIZES = {"tensorParallelSize": "TENSOR_PARALLEL_SIZE", "pipelineParallelSize": "PIPELINE_PARALLEL_SIZE"}
#: Model formats that KServe's own runtimes serve with vLLM.
_VLLM_FORMATS = {"huggingface", "vllm"}


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
        maps, whole = configurations(documents), document.string("metadata", "name") or ""
        engine, decoder = (spec.at(f"{part}Config") or spec.at(part) for part in ("engine", "decoder"))
        if engine is not None or decoder is not None:
            for part, role in ((engine, "prefill" if decoder is not None else None), (decoder, "decode")):
                if part is not None:
                    launches += _of_component(part, Surroundings(maps, name=whole, role=role))
            continue
        launches += _of_runtime(spec.at("predictor") or spec, Surroundings(maps, name=whole), problems)
    return launches


def _of_component(part: Node, around: Surroundings) -> list[FoundLaunch]:
    """OME: a runner, or a leader and its workers, which are one launch."""
    leader, workers = part.at("leader"), part.at("worker", "size")
    hosts: Stated | None = None
    if leader is not None and workers is not None and isinstance(number(workers), int):
        hosts = Stated(number(workers) + 1, workers.origin("the leader and worker.size workers"))
        around.given["LWS_GROUP_SIZE"] = Field(str(hosts.value), field_of(workers).place)
    holder = leader if leader is not None else part
    runner = holder.at("runner")
    found = launches_of_container(runner, around) if runner is not None else launches_of_pod(holder, around)
    for launch in found:
        if hosts is not None:
            launch.stated["parallel.nodes"] = hosts
    return found


def _of_runtime(spec: Node, around: Surroundings, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    for key, variable in _SIZES.items():
        size = spec.at("workerSpec", key)
        if size is not None and size.kind == "scalar":
            around.given[variable] = field_of(size)
    found = launches_of_pod(spec, around)
    model = spec.at("model")
    if model is not None and model.kind == "mapping":
        found += _of_model(model, around)
    for launch in found:
        for key, fact in (("tensorParallelSize", "parallel.tensor_parallel_size"), ("pipelineParallelSize", "parallel.pipeline_parallel_size")):
            state(launch, fact, spec.at("workerSpec", key), f"workerSpec.{key}")
    return found


def _of_model(model: Node, around: Surroundings) -> list[FoundLaunch]:
    """A predictor's model: arguments for a runtime named elsewhere."""
    runtime, kind = model.string("runtime") or "", (model.string("modelFormat", "name") or "").lower()
    engine = engine_of_image(model.string("image") or "") or engine_of_image(runtime) or ("vllm" if kind in _VLLM_FORMATS else None)
    if engine is None:
        return []
    environment = environment_in(model.at("env"), around.given, around.configurations, model)
    arguments = [field_of(node, referenced(node.text, environment)) for node in argument_nodes(model.at("args"))]
    if any(item.text in {"--backend=huggingface", "--backend=triton"} for item in arguments):
        return []
    place = (model.source.name, model.line, model.column)
    programs = {"vllm": ["vllm", "serve"], "sglang": ["python3", "-m", "sglang.launch_server"], "tensorrt_llm": ["trtllm-serve"]}
    launch = FoundLaunch(engine, words_of([Field(text, place) for text in programs[engine]] + arguments))
    address = model.at("storageUri") or model.at("storage", "path")
    if not any(item.text.startswith(("--model=", "--model_id", "--model_dir", "--model-path")) or item.text == "--model" for item in arguments):
        state(launch, "model.name", address, "storageUri")
    complete(launch, model, environment, around)
    return [launch]
