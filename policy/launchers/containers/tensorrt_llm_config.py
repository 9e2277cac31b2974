"""TensorRT-LLM option files: LLM API options, or the keys of a benchmark launcher around them."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import words_of
from policy.launchers.containers.reading.option_names import score
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.containers.reading.tensorrt_llm import state_options
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "TensorRT-LLM options"
LOOKS_FOR = "options of the LLM API"


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return score(documents, "tensorrt_llm", name)


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    document = documents[0]
    place = (name, document.line, document.column)
    file = name if name != "-" else "options.yaml"
    launch = FoundLaunch("tensorrt_llm", words_of([Field("trtllm-serve", place), Field("--config", place), Field(file, place)]), files={file: text})
    state_options(launch, document)
    return [launch]
