"""A vLLM `--config` file standing alone."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import words_of
from policy.launchers.containers.reading.option_names import score
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "vLLM configuration"
LOOKS_FOR = "options of `vllm serve`"


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return score(documents, "vllm", name)


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    document = documents[0]
    place = (name, document.line, document.column)
    file = name if name.endswith((".yaml", ".yml")) else "config.yaml"
    return [FoundLaunch("vllm", words_of([Field("vllm", place), Field("serve", place), Field("--config", place), Field(file, place)]), files={file: text})]
