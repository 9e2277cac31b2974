"""AIBrix StormService and RoleSet: roles, each with a pod template; `podGroupSize` pods make one engine."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import merge_parts, number, role_of_name, state
from policy.launchers.containers.reading.pods import Surroundings, configurations, launches_of_pod, objects
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "AIBrix StormService"
LOOKS_FOR = "roles whose pod template starts an engine"
KINDS = frozenset({"StormService", "RoleSet"})


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in objects(documents):
        if document.string("kind") not in KINDS:
            continue
        whole = document.string("metadata", "name") or ""
        for role in document.elements("spec", "template", "spec", "roles") or document.elements("spec", "roles"):
            around = Surroundings(configurations(documents), name=f"{whole}/{role.string('name') or ''}", role=role_of_name(role.string("name")))
            found = merge_parts(launches_of_pod(role.at("template", "spec"), around))
            size = role.at("podGroupSize")
            for launch in found:
                if size is not None and isinstance(number(size), int) and number(size) > 1:
                    state(launch, "parallel.nodes", size, "podGroupSize")
            launches += found
    return launches
