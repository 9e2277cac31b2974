"""Dynamo graph deployments, v1alpha1 (`services`) and v1beta1 (`components`)."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import merge_parts, role_of_name, state
from policy.launchers.containers.reading.pods import (
    Surroundings,
    configurations,
    environment_in,
    launches_of_pod,
    merged,
    objects,
    state_devices,
)
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "Dynamo graph deployment"
LOOKS_FOR = "services or components whose main container runs an engine's worker"
KINDS = frozenset({"DynamoGraphDeployment", "DynamoComponentDeployment"})


def looks_like(text: str, documents: list[Node], name: str) -> int:
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    launches: list[FoundLaunch] = []
    maps = configurations(documents)
    for document in objects(documents):
        if document.string("kind") not in KINDS:
            continue
        whole = document.string("metadata", "name") or ""
        spec = document.at("spec")
        if spec is None:
            continue
        parts = list(spec.items("services")) + [(one.string("name") or "", one) for one in spec.elements("components")]
        if document.string("kind") == "DynamoComponentDeployment":
            parts.append((spec.string("serviceName") or "", spec))
        for part_name, part in parts:
            role = role_of_name(part.string("subComponentType")) or role_of_name(part.string("type")) or role_of_name(part_name)
            around = Surroundings(maps, name=f"{whole}/{part_name}", role=role)
            for holder in (spec, part):
                around.given.update(environment_in(holder.at("envs") or holder.at("env"), {}, maps))
            launches += _of_part(part, around)
    return launches


def _of_part(part: Node, around: Surroundings) -> list[FoundLaunch]:
    given, around.given = around.given, {}
    extra = part.at("extraPodSpec")
    pods: list[Node] = [pod for pod in (part.at("podTemplate", "spec"),) if pod is not None]
    main = extra.at("mainContainer") if extra is not None else None
    if main is not None and extra is not None:
        containers = Node("sequence", [main], "", main.line, main.column, main.source, main.start, main.end)
        pods.append(Node("mapping", {**extra.value, "containers": containers}, "", extra.line, extra.column, extra.source, extra.start, extra.end, keys=extra.keys))
    found: list[FoundLaunch] = []
    for pod in pods:
        for container in pod.elements("containers"):
            if container.at("env") is not None or given:
                around.given = {key: item for key, item in given.items()}
        found += launches_of_pod(pod, around)
    for launch in found:
        state(launch, "parallel.nodes", part.at("multinode", "nodeCount"), "multinode.nodeCount")
        state_devices(launch, part)
    return merge_parts(found)


_ = merged
