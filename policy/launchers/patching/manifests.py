"""The difference between two versions of a manifest as patches that other tools apply: JSON Patch, kustomize."""

from __future__ import annotations

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
    if len(old) == len(new):
        return [operation for number, (one, other) in enumerate(zip(old, new, strict=True)) for operation in json_patch(one, other, f"{path}/{number}")]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    operations: list[dict[str, Any]] = [{"op": "remove", "path": f"{path}/{head}"} for _ in old[head : len(old) - tail]]
    for number, value in enumerate(new[head : len(new) - tail], head):
        operations.append({"op": "add", "path": f"{path}/{number}", "value": value})
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
