"""Server test configurations (vLLM Ascend): entries with `server_cmd`, a command line or its options as a list."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import environment_of, field_of, merge_parts, state, words_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.programs import find_program
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field, Variables, text_in
from policy.launchers.containers.reading.shell_expand import Value
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "server test configuration"
LOOKS_FOR = "entries with server_cmd"
_KEYS = ("server_cmd", "server_command", "serve_cmd")


def looks_like(text: str, documents: list[Node], name: str) -> int:
    return 85 if any(_entries(document) for document in documents) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    launches: list[FoundLaunch] = []
    for document in documents:
        found: list[FoundLaunch] = []
        for entry in _entries(document):
            found += _of_entry(entry, document)
        nodes = document.at("num_nodes")
        merged = merge_parts(found)
        for launch in merged:
            if len(merged) == 1:
                state(launch, "parallel.nodes", nodes, "num_nodes")
            state(launch, "device.gpus_per_node", document.at("npu_per_node") or document.at("gpus_per_node"), "devices of a node")
        launches += merged
    return launches


def _entries(document: Node) -> list[Node]:
    return [node for _, node in document.walk() if node.kind == "mapping" and any(node.at(key) is not None for key in _KEYS)]


def _of_entry(entry: Node, document: Node) -> list[FoundLaunch]:
    command = next(node for key in _KEYS if (node := entry.at(key)) is not None)
    environment = environment_in(entry.at("envs") or entry.at("env"), {}, {})
    title = entry.string("name") or document.string("test_name") or ""
    if command.kind == "scalar":
        found = read_script(command.text, command.source.name, command.places(), environment)
    else:
        known = Variables({key: Value(item.text, item.place) for key, item in environment.items()})
        fields = [field_of(one, text_in(one.text, known)) for one in command.elements() if one.kind == "scalar"]
        found = _of_list(fields, entry, document)
    for launch in found:
        launch.environment = {**environment_of(environment), **launch.environment}
        launch.name = launch.name or title
    return found


def _of_list(fields: list[Field], entry: Node, document: Node) -> list[FoundLaunch]:
    """A list is a whole command, or only the options that the test adds to `vllm serve MODEL`."""
    started = find_program(fields)
    if started is not None and started.engine:
        return [FoundLaunch(started.engine, words_of(started.words))]
    if not fields or not fields[0].text.startswith("-"):
        return []
    model = entry.at("model") or document.at("model")
    place = fields[0].place
    program = [Field("vllm", place), Field("serve", place)] + ([field_of(model)] if model is not None and model.kind == "scalar" else [])
    return [FoundLaunch("vllm", words_of(program + fields))]
