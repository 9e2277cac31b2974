"""LeaderWorkerSet: one launch a group, whose size is the number of hosts."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import field_of, state
from policy.launchers.containers.reading.pods import Surroundings, configurations, launches_of_pod, objects, role_of
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "LeaderWorkerSet"
LOOKS_FOR = "an engine's command in the leader or the worker template"
KINDS = frozenset({"LeaderWorkerSet"})


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in objects(documents):
        if document.string("kind") not in KINDS:
            continue
        template = document.at("spec", "leaderWorkerTemplate")
        if template is None:
            continue
        size = template.at("size")
        around = Surroundings(configurations(documents), name=document.string("metadata", "name") or "", role=role_of(document))
        if size is not None and size.kind == "scalar":
            around.given["LWS_GROUP_SIZE"] = field_of(size)
        found = launches_of_pod(template.at("leaderTemplate", "spec"), around)
        found = found or launches_of_pod(template.at("workerTemplate", "spec"), around)[:1]
        for launch in found:
            state(launch, "parallel.nodes", size, "leaderWorkerTemplate.size")
        launches += found
    return launches
