"""llm-d benchmark recipes (InferenceX): an EndpointPickerConfig with `prefill` and `decode` sections for vLLM."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import environment_of, field_of, words_of
from policy.launchers.containers.reading.pods import environment_in, objects
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.shell_words import tokens
from policy.launchers.yaml_places import Node

NAME = "llm-d recipe"
LOOKS_FOR = "prefill and decode sections with tp and extra-args"
KINDS = frozenset({"EndpointPickerConfig"})
_ROLES = ("prefill", "decode")


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    parts = [(role, part) for document in objects(documents) if document.string("kind") in KINDS for role in _ROLES if (part := document.at(role))]
    return [_launch(role, part) for role, part in parts if part.at("tp") is not None or part.at("extra-args") is not None]


def _launch(role: str, part: Node) -> FoundLaunch:
    place = (part.source.name, part.line, part.column)
    words = [Field("vllm", place), Field("serve", place)]
    size, expert, more = part.at("tp"), part.at("enable-expert-parallel"), part.at("extra-args")
    if size is not None and size.kind == "scalar":
        words += [Field("--tensor-parallel-size", field_of(size).place), field_of(size)]
    if expert is not None and expert.value is True:
        words.append(Field("--enable-expert-parallel", field_of(expert).place))
    if more is not None and more.kind == "scalar":
        places = more.places()
        words += [Field(piece, (more.source.name, *places(offset))) for piece, offset in _split(more.text)]
    launch = FoundLaunch("vllm", words_of(words), environment_of(environment_in(part.at("env"), {}, {})), name=role)
    launch.role = role
    return launch


def _split(text: str) -> list[tuple[str, int]]:
    """Words with their offsets; JSON that stands without quotes keeps its own."""
    bare = text.replace('"', "\0")
    return [(token.word.written.replace("\0", '"'), token.word.offset) for token in tokens(bare) if token.word is not None]
