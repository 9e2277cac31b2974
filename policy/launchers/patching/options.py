"""Edits of a mapping whose keys become options: an engine's configuration file, `engine_kwargs`, the section of a role."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from policy.launchers.found import FoundLaunch
from policy.launchers.patching.nodes import add_keys, mappings_in, set_scalar
from policy.launchers.patching.text import Edits, PatchProblem
from policy.launchers.rewrite_objects import merged, merged_text, nested
from policy.launchers.rewriting import Change
from policy.launchers.yaml_places import Node


def option_mappings(documents: Sequence[Node], text: str, found: FoundLaunch) -> list[Node]:
    """The mappings that hold options of the launch, the one of its last option first."""
    keys = {place: mapping for mapping in mappings_in(documents) for place in mapping.keys.values() if place[0] >= mapping.line}
    mappings: list[Node] = []
    for word in reversed(found.words):
        if word.text.startswith("--"):
            mapping = keys.get((word.origin.line or 0, word.origin.column or 0))
            if mapping is not None and all(mapping is not one for one in mappings):
                mappings.append(mapping)
    named = {body for file, body in found.files.items() if any(word.text == file for word in found.words)}
    whole = [document for document in documents if document.kind == "mapping" and document.source.text in named]
    return [*mappings, *(one for one in whole if all(one is not other for other in mappings))]


#: Formats whose options go to the engine's classes and not to its command line, so that an object is a mapping.
KEYWORDS = ("Ray Serve LLM configuration", "Ray on Kubernetes")


def option_texts(text: str, mappings: Sequence[Node], changes: Sequence[Change], version: str | None, objects: Sequence[str], format: str) -> Iterator[str]:
    """The text with the changes written into one of the mappings: first the one that holds the setting already. `objects`
    names the settings that are objects."""
    forms = (True, False) if any(name in KEYWORDS for name in format.split(" and ")) else (False, True)
    names = {change.path.partition(".")[0] for change in changes}
    ordered = sorted(mappings, key=lambda mapping: not any(_key(mapping, name) for name in names))
    for mapping in ordered:
        for as_mapping in forms:
            edits = Edits(text)
            try:
                for name in dict.fromkeys(change.path.partition(".")[0] for change in changes):
                    mine = [change for change in changes if change.path.partition(".")[0] == name]
                    if name in objects:
                        _set_object(edits, mapping, name, mine, version, as_mapping)
                    else:
                        _set_option(edits, mapping, mine[0])
            except PatchProblem:
                continue
            yield edits.text()


def holds(mapping: Node, changes: Sequence[Change]) -> bool:
    """Whether one of the settings stands in the mapping already."""
    return any(_key(mapping, change.path.partition(".")[0]) for change in changes)


def _key(mapping: Node, name: str) -> str | None:
    """The key of a setting, however it is spelled."""
    return next((key for key in mapping.value if key.replace("-", "_") == name), None)


def _style(mapping: Node, name: str) -> str:
    """The setting's name in the style of the mapping's other keys."""
    underscores = sum("_" in key for key in mapping.value)
    dashes = sum("-" in key for key in mapping.value)
    return name if underscores > dashes else name.replace("_", "-")


def _set_option(edits: Edits, mapping: Node, change: Change) -> None:
    key = _key(mapping, change.path)
    if key is None:
        add_keys(edits, mapping, {_style(mapping, change.path): change.value})
    elif mapping.value[key].kind == "scalar":
        set_scalar(edits, mapping.value[key], change.value)
    else:
        raise PatchProblem(f"`{key}` is no single value")


def _set_object(edits: Edits, mapping: Node, name: str, changes: Sequence[Change], version: str | None, as_mapping: bool) -> None:
    wanted = {change.path.partition(".")[2]: change.value for change in changes}
    key = _key(mapping, name)
    if key is None:
        value: Any = nested(wanted) if as_mapping else merged_text({}, wanted, version)
        add_keys(edits, mapping, {_style(mapping, name): value})
        return
    node = mapping.value[key]
    if node.kind == "mapping":
        _differences(edits, node, merged(node.plain(), wanted, version))
        return
    import json

    try:
        held = json.loads(node.text)
    except ValueError:
        raise PatchProblem(f"`{key}` holds no JSON") from None
    set_scalar(edits, node, merged_text(held, wanted, version, node.text))


def _differences(edits: Edits, node: Node, new: dict[str, Any]) -> None:
    """Write what differs between a mapping and its new value."""
    for key, value in new.items():
        held = node.value.get(key)
        if held is None:
            add_keys(edits, node, {key: value})
        elif held.kind == "mapping" and isinstance(value, dict) and held.value:
            _differences(edits, held, value)
        elif held.plain() != value:
            if held.kind != "scalar":
                raise PatchProblem(f"`{key}` is no single value")
            set_scalar(edits, held, value)
