"""Where each format takes a further option or variable that nothing in the file has a place for yet.

A home is a path of keys below the mapping where the launch begins (its model entry, its container); what is missing of
the path is added. Only keys that the format itself reads are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.launchers.found import FoundLaunch
from policy.launchers.patching.nodes import add_items, add_keys, mappings_in, set_scalar
from policy.launchers.patching.text import Edits, PatchProblem
from policy.launchers.rewrite_objects import nested
from policy.launchers.rewriting import Change
from policy.launchers.yaml_places import Node
from policy.records import dataclass

ARGUMENTS_VARIABLE = "VLLM_ADDITIONAL_ARGS"


@dataclass(frozen=True, slots=True)
class Home:
    """One place: the keys from where the launch begins, and what stands there: `list` of words, `mapping` of options,
    `variables` as a mapping, `environment` as a list of name and value, or `arguments` in one variable of such a list."""

    path: tuple[str, ...]
    kind: str


#: For each format its places for options, the best first.
OPTIONS: Mapping[str, tuple[Home, ...]] = {
    "vLLM production stack values": (Home(("vllmConfig", "extraArgs"), "list"),),
    "VLLMRuntime": (Home(("vllmConfig", "extraArgs"), "list"),),
    "Ray Serve LLM configuration": (Home(("engine_kwargs",), "mapping"),),
    "Ray on Kubernetes": (Home(("engine_kwargs",), "mapping"),),
    "vLLM recipe": (Home(("base_args",), "list"),),
    "llm-d modelservice values": (Home(("args",), "list"),),
    "KServe LLMInferenceService": (Home(("env",), "arguments"), Home(("template",), "arguments of a template")),
}
#: For each format its places for variables.
VARIABLES: Mapping[str, tuple[Home, ...]] = {
    "vLLM production stack values": (Home(("env",), "environment"),),
    "VLLMRuntime": (Home(("vllmConfig", "env"), "environment"),),
    "Ray Serve LLM configuration": (Home(("runtime_env", "env_vars"), "variables"),),
    "Ray on Kubernetes": (Home(("runtime_env", "env_vars"), "variables"),),
    "vLLM recipe": (Home(("base_env",), "variables"),),
    "llm-d modelservice values": (Home(("env",), "environment"),),
    "KServe LLMInferenceService": (Home(("env",), "environment"), Home(("template",), "template")),
}


def option_texts(text: str, documents: Sequence[Node], format: str, found: FoundLaunch, changes: Sequence[Change]) -> Iterator[str]:
    """The text with the changes in each home of the format."""
    words = [word for said in dict.fromkeys(change.words for change in changes) for word in said]
    for beginning in _beginnings(documents, found):
        for home in _homes(OPTIONS, format):
            edits = Edits(text)
            try:
                _write_options(edits, beginning, home, words, changes)
            except PatchProblem:
                continue
            yield edits.text()


def variable_texts(text: str, documents: Sequence[Node], format: str, found: FoundLaunch, variables: Mapping[str, str]) -> Iterator[str]:
    """The text with the variables in each home of the format."""
    for beginning in _beginnings(documents, found):
        for home in _homes(VARIABLES, format):
            edits = Edits(text)
            try:
                _write_variables(edits, beginning, home, variables)
            except PatchProblem:
                continue
            yield edits.text()


def _homes(table: Mapping[str, tuple[Home, ...]], format: str) -> Iterator[Home]:
    for name, homes in table.items():
        if name in format.split(" and "):
            yield from homes


def _beginnings(documents: Sequence[Node], found: FoundLaunch) -> list[Node]:
    """The mappings that begin where the launch's first word is placed, the innermost first."""
    if not found.words:
        return []
    place = (found.words[0].origin.line, found.words[0].origin.column)
    return [mapping for mapping in reversed(list(mappings_in(documents))) if (mapping.line, mapping.column) == place]


def _write_options(edits: Edits, beginning: Node, home: Home, words: Sequence[str], changes: Sequence[Change]) -> None:
    if home.kind == "list":
        _into_list(edits, beginning, home.path, list(words))
    elif home.kind == "mapping":
        made: dict[str, Any] = nested({change.path: change.value for change in changes})
        holder, rest = _reached(beginning, home.path)
        if rest:
            add_keys(edits, holder, {rest[0]: _wrapped(rest[1:], made)})
        else:
            if any(key in holder.value for key in made):
                raise PatchProblem(f"`{home.path[-1]}` has the setting already")
            add_keys(edits, holder, made)
    else:
        value = " ".join(_joined(words))
        held = beginning.at("env")
        for element in held.elements() if held is not None else []:
            if element.string("name") == ARGUMENTS_VARIABLE and (node := element.at("value")) is not None:
                set_scalar(edits, node, f"{node.text} {value}".strip())
                return
        _write_variables(edits, beginning, Home(home.path, "template" if home.path == ("template",) else "environment"), {ARGUMENTS_VARIABLE: value})


def _joined(words: Sequence[str]) -> Iterator[str]:
    import shlex

    yield from (shlex.quote(word) for word in words)


def _into_list(edits: Edits, beginning: Node, path: tuple[str, ...], words: list[str]) -> None:
    holder, rest = _reached(beginning, path)
    if rest:
        add_keys(edits, holder, {rest[0]: _wrapped(rest[1:], words)})
    elif holder.kind == "sequence":
        add_items(edits, holder, words)
    else:
        raise PatchProblem(f"`{path[-1]}` is no list")


def _write_variables(edits: Edits, beginning: Node, home: Home, variables: Mapping[str, str]) -> None:
    entries = [{"name": name, "value": value} for name, value in variables.items()]
    if home.kind == "template":
        if beginning.at("template") is not None or beginning.at("model") is None:
            raise PatchProblem("there is a template already")
        add_keys(edits, beginning, {"template": {"containers": [{"name": "main", "env": entries}]}})
        return
    holder, rest = _reached(beginning, home.path)
    if rest:
        add_keys(edits, holder, {rest[0]: _wrapped(rest[1:], dict(variables) if home.kind == "variables" else entries)})
    elif holder.kind == "sequence":
        add_items(edits, holder, entries)
    else:
        add_keys(edits, holder, variables)


def _reached(beginning: Node, path: Sequence[str]) -> tuple[Node, list[str]]:
    """The node as far down the path as the file has it, and the keys that are missing."""
    node, rest = beginning, list(path)
    while rest and node.kind == "mapping" and (child := node.at(rest[0])) is not None:
        if child.kind == "scalar":
            raise PatchProblem(f"`{rest[0]}` holds a single value")
        node = child
        rest.pop(0)
    if rest and node.kind != "mapping":
        raise PatchProblem(f"`{rest[0]}` has no place")
    return node, rest


def _wrapped(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value
