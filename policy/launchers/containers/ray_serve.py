"""Ray Serve LLM configuration: `applications[].args.llm_configs[]` (or `llm_config`), and one LLMConfig alone. Ray Serve
forces the Ray executor, whatever the file says."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import environment_of, field_of, options_from, role_of_name, words_of
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node, read_documents

NAME = "Ray Serve LLM configuration"
LOOKS_FOR = "applications with llm_configs, or an LLMConfig with model_loading_config"


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    for document in documents:
        if document.at("model_loading_config") is not None:
            return 95
        if any("ray.serve.llm" in (one.string("import_path") or "") or _configurations(one) for one in document.elements("applications")):
            return 95
        if document.elements("llm_configs") or document.at("llm_config") is not None:
            return 90
    return 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        if document.at("model_loading_config") is not None:
            launches.append(_launch(document, ""))
            continue
        for application in [*document.elements("applications"), document]:
            for role, configuration in _configurations(application):
                for part in _resolved(configuration, problems, name):
                    launch = _launch(part, application.string("name") or "")
                    launch.role = launch.role or role
                    launches.append(launch)
    return launches


def _configurations(application: Node) -> list[tuple[str | None, Node]]:
    result: list[tuple[str | None, Node]] = []
    for holder in (application.at("args"), application):
        if holder is None:
            continue
        result += [(None, one) for one in holder.elements("llm_configs")]
        result += [(None, node) for node in (holder.at("llm_config"),) if node is not None]
        result += [(role_of_name(key), node) for key in ("prefill_config", "decode_config") if (node := holder.at(key)) is not None]
    return result


def _resolved(configuration: Node, problems: list[LaunchNotice], name: str) -> list[Node]:
    """The configuration itself; a string is YAML text or the path of another file."""
    if configuration.kind == "mapping":
        return [configuration]
    if configuration.kind == "scalar" and isinstance(configuration.value, str):
        if "\n" in configuration.text:
            return [one for one in read_documents(configuration.text, name, configuration.places()).documents if one.kind == "mapping"]
        message = f"the model configuration `{configuration.text}` is in another file"
        problems.append(LaunchNotice("other-file", message, configuration.origin("llm_configs"), "give that file as well"))
    return []


def _launch(configuration: Node, name: str) -> FoundLaunch:
    model = configuration.at("model_loading_config", "model_source") or configuration.at("model_loading_config", "model_id")
    place = (configuration.source.name, configuration.line, configuration.column)
    words = [Field("vllm", place), Field("serve", place)]
    if model is not None and model.kind == "mapping":  # a bucket
        model = model.at("bucket_uri")
    if model is not None and model.kind == "scalar" and model.value is not None:
        words.append(field_of(model))
    arguments = configuration.at("engine_kwargs")
    if arguments is not None:
        words += options_from(arguments, negate=True, skip=("model", "distributed_executor_backend"))[0]
    launch = FoundLaunch("vllm", words_of(words), name=configuration.string("model_loading_config", "model_id") or name)
    launch.environment = environment_of({key: field_of(value) for key, value in configuration.items("runtime_env", "env_vars") if value.kind == "scalar"})
    launch.stated["engine.executor"] = Stated("ray", configuration.origin("Ray Serve runs every engine on Ray"))
    return launch
