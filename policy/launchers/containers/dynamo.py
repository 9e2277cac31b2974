"""Dynamo graph deployments, v1alpha1 (`services`) and v1beta1 (`components`)."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import merge_parts, role_of_name, state
from policy.launchers.containers.reading.pods import Surroundings, configurations, launches_of_pod, objects, state_devices
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "Dynamo graph deployment"
LOOKS_FOR = "services or components whose main container runs an engine's worker"
KINDS = frozenset({"DynamoGraphDeployment", "DynamoComponentDeployment"})


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    maps = configurations(documents)
    for document in objects(documents):
        spec = document.at("spec")
        if document.string("kind") not in KINDS or spec is None:
            continue
        parts = list(spec.items("services")) + [(one.string("name") or "", one) for one in spec.elements("components")]
        if document.string("kind") == "DynamoComponentDeployment":
            parts.append((spec.string("serviceName") or "", spec))
        for part_name, part in parts:
            role = next((role for said in (part.string("subComponentType"), part.string("type"), part_name) if (role := role_of_name(said))), None)
            around = Surroundings(maps, name=f"{document.string('metadata', 'name') or ''}/{part_name}", role=role, bare=False)
            outer = [one for holder in ((spec, part) if part is not spec else (spec,)) for key in ("envs", "env") for one in holder.elements(key)]
            launches += _of_part(part, outer, around)
    return launches


def _of_part(part: Node, outer: list[Node], around: Surroundings) -> list[FoundLaunch]:
    """`outer` are environment entries of the deployment and of the part, which hold for its containers too."""
    pods = [pod for pod in (part.at("podTemplate", "spec"), part.at("extraPodSpec")) if pod is not None and pod.kind == "mapping"]
    found: list[FoundLaunch] = []
    for pod in pods:
        main = pod.at("mainContainer")
        containers = ([main] if main is not None else []) + pod.elements("containers")
        ready = [_with(one, env=_list(one, outer + one.elements("env"))) for one in containers if one.kind == "mapping"]
        found += launches_of_pod(_with(pod, containers=_list(pod, ready)), around)
    for launch in found:
        state(launch, "parallel.nodes", part.at("multinode", "nodeCount"), "multinode.nodeCount")
        state_devices(launch, part)
    return merge_parts(found)


def _list(near: Node, elements: list[Node]) -> Node:
    return Node("sequence", elements, "", near.line, near.column, near.source, near.start, near.end)


def _with(node: Node, **more: Node) -> Node:
    return Node("mapping", {**node.value, **more}, "", node.line, node.column, node.source, node.start, node.end, keys=node.keys)
