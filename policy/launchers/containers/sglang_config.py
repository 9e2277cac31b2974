"""An SGLang `--config` file standing alone."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import role_of_name, state, words_of
from policy.launchers.containers.reading.option_names import score
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "SGLang configuration"
LOOKS_FOR = "options of `sglang.launch_server`"


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return score(documents, "sglang", name)


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    document = documents[0]
    place = (name, document.line, document.column)
    file = name if name.endswith((".yaml", ".yml")) else "config.yaml"
    program = [Field(word, place) for word in ("python3", "-m", "sglang.launch_server", "--config", file)]
    launch = FoundLaunch("sglang", words_of(program), files={file: text})
    options = {key.replace("_", "-"): value for key, value in document.items()}
    launch.role = role_of_name(options["disaggregation-mode"].text) if "disaggregation-mode" in options else None
    if "model-path" not in options and "model" not in options:
        state(launch, "model.name", options.get("served-model-name"), "served-model-name")
    attention = options.get("enable-dp-attention")
    if attention is not None and attention.value is False:
        launch.stated["parallel.dp_attention"] = Stated(False, attention.origin("enable-dp-attention"))
    return [launch]
