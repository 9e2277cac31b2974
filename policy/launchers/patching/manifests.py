"""The difference between two versions of a manifest as patches that other tools apply: JSON Patch, kustomize."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
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


def manifest_patches(old: str, new: str, loads: Callable[[str], list[Any]]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """For each document that differs: what names it (kind, name, namespace, group and version), and its JSON Patch."""
    found = []
    for before, after in zip(loads(old), loads(new), strict=False):
        operations = json_patch(before, after)
        if operations and isinstance(before, dict):
            group, _, version = str(before.get("apiVersion", "")).rpartition("/")
            metadata = before.get("metadata") or {}
            target = {"group": group, "version": version, "kind": before.get("kind"), "name": metadata.get("name"), "namespace": metadata.get("namespace")}
            found.append(({name: value for name, value in target.items() if value}, operations))
    return found
