"""The difference between two versions of a manifest as patches that other tools apply: JSON Patch, kustomize."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any


def json_patch(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """The RFC 6902 operations from one document to the other: what was added, removed and replaced."""
    if type(old) is not type(new):
        return [{"op": "replace", "path": path, "value": new}]
    if isinstance(old, dict):
        operations: list[dict[str, Any]] = []
        for key, value in new.items():
            here = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            operations.extend(json_patch(old[key], value, here) if key in old else [{"op": "add", "path": here, "value": value}])
        operations.extend({"op": "remove", "path": f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"} for key in old if key not in new)
        return operations
    if isinstance(old, list):
        return _list_patch(old, new, path)
    return [] if old == new else [{"op": "replace", "path": path, "value": new}]


def _list_patch(old: list[Any], new: list[Any], path: str) -> list[dict[str, Any]]:
    """From the end to the start, so that the numbers of the elements before stay as they are."""
    before, after = ([json.dumps(one, sort_keys=True, default=str) for one in values] for values in (old, new))
    operations: list[dict[str, Any]] = []
    for kind, first, last, start, stop in reversed(difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()):
        if kind == "equal":
            continue
        shared = min(last - first, stop - start)
        operations.extend({"op": "remove", "path": f"{path}/{number}"} for number in reversed(range(first + shared, last)))
        operations.extend({"op": "add", "path": f"{path}/{first + shared}", "value": value} for value in reversed(new[start + shared : stop]))
        for offset in range(shared):
            operations.extend(json_patch(old[first + offset], new[start + offset], f"{path}/{first + offset}"))
    return operations


def documents_of(text: str) -> list[Any] | None:
    """The YAML documents of a text; None where it is something else."""
    import yaml

    try:
        found = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    held = [one for one in found if one is not None]
    return found if held and all(isinstance(one, (dict, list)) for one in held) else None


def manifest_patches(before: Sequence[Any], after: Sequence[Any], single: bool = False) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """For each document that differs: what names it (kind, name, namespace, group and version), and its JSON Patch.
    `single`: each member of a `List` is a resource by itself, as tools that apply manifests take it."""
    found = []
    for old, new in zip(*(_resources(before), _resources(after)) if single else (before, after), strict=False):
        operations = json_patch(old, new)
        if operations:
            found.append((_target(old) if isinstance(old, dict) else {}, operations))
    return found


def _resources(documents: Sequence[Any]) -> list[Any]:
    made: list[Any] = []
    for one in documents:
        items = one.get("items") if isinstance(one, dict) and str(one.get("kind", "")).endswith("List") else None
        made.extend(_resources(items) if isinstance(items, list) else [one])
    return made


def _target(document: dict[str, Any]) -> dict[str, Any]:
    group, _, version = str(document.get("apiVersion", "")).rpartition("/")
    metadata = document.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    target = {"group": group, "version": version, "kind": document.get("kind"), "name": named.get("name"), "namespace": named.get("namespace")}
    return {name: value for name, value in target.items() if value}


def kustomize_text(patches: Sequence[tuple[dict[str, Any], list[dict[str, Any]]]]) -> str:
    """The patches as the `patches:` of a kustomization, each a readable block."""
    if not patches:
        return "patches: []\n"
    import yaml

    lines = ["patches:"]
    for target, operations in patches:
        for number, line in enumerate(yaml.safe_dump({"target": target}, sort_keys=False, width=10_000).splitlines()):
            lines.append(f"{'- ' if number == 0 else '  '}{line}")
        lines.append("  patch: |-")
        lines.extend(f"    {line}".rstrip() for line in yaml.safe_dump(operations, sort_keys=False, width=10_000).splitlines())
    return "\n".join(lines) + "\n"
