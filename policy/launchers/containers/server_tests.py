"""Server test configurations (vLLM Ascend): entries with `server_cmd`, a command line or its options as a list, and
templates whose sizes stand in a table of nodes."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import environment_of, field_of, merge_parts, state, words_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.programs import find_program
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field, Value, Variables, text_in
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "server test configuration"
LOOKS_FOR = "entries with server_cmd or server_cmd_template"
_KEYS = ("server_cmd", "server_cmd_template")
_MAX_ENTRIES = 500


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 85 if any(key in text for key in _KEYS) and any(_entries(document) for document in documents) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        seen: set[str] = set()
        found: list[FoundLaunch] = []
        for entry in _entries(document)[:_MAX_ENTRIES]:
            node = _node_of(entry, document)
            group = node.string("dp_address") if node is not None else None
            if group is not None and group in seen:
                continue  # another node of the same data-parallel engine
            seen.add(group or "")
            started = _of_entry(entry, document, node)
            for launch in started:
                if group is not None and node is not None:
                    count = sum(one.string("dp_address") == group for one in document.elements("config"))
                    launch.stated["parallel.nodes"] = Stated(count, node.origin("nodes with this dp_address"))
            found += started
        merged = merge_parts(found)
        for launch in merged:
            parts = sum(one.role == launch.role for one in found)
            if len(merged) > 1 and parts > 1 and sum(one.role == launch.role for one in merged) == 1:
                launch.stated.setdefault("parallel.nodes", Stated(parts, launch.words[0].origin))  # one command a node
            if len(merged) == 1 and "parallel.nodes" not in launch.stated:
                state(launch, "parallel.nodes", document.at("num_nodes"), "num_nodes")
            state(launch, "device.gpus_per_node", document.at("npu_per_node") or document.at("gpus_per_node"), "devices of a node")
        launches += merged
    return launches


def _entries(document: Node) -> list[Node]:
    return [node for _, node in document.walk() if node.kind == "mapping" and any(node.at(key) is not None for key in _KEYS)]


def _node_of(entry: Node, document: Node) -> Node | None:
    """The row of the table of nodes that fills an entry's template."""
    index = entry.at("node_index")
    if index is None:
        return None
    return next((one for one in document.elements("config") if one.at("node_index") is not None and one.string("node_index") == index.text), None)


def _of_entry(entry: Node, document: Node, node: Node | None) -> list[FoundLaunch]:
    command = next(one for key in _KEYS if (one := entry.at(key)) is not None)
    environment = environment_in(entry.at("envs") or entry.at("env"), {}, {})
    variables = {**environment, **{key.upper(): field_of(value) for key, value in (node.items() if node is not None else ()) if value.kind == "scalar"}}
    if command.kind == "scalar":  # split into words without a shell: line ends are only blanks
        found = read_script(command.text.replace("\n", " "), command.source.name, command.places(), variables)
    else:
        known = Variables({key: Value(item.text, item.place) for key, item in variables.items()})
        found = _of_list([field_of(one, text_in(one.text, known)) for one in command.elements() if one.kind == "scalar"], entry, document)
    for launch in found:
        launch.environment = {**environment_of(environment), **launch.environment}
        launch.name = launch.name or entry.string("name") or document.string("test_name") or ""
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
