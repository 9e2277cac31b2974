"""Kubernetes workloads without a format of their own: Deployment, StatefulSet, Job, Pod and every other kind that holds
pod templates; also scripts in ConfigMaps where nothing else starts an engine."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import merge_parts, number, option_value
from policy.launchers.containers.reading.pods import Surroundings, configurations, launches_of_pod, objects, role_of
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node

NAME = "Kubernetes manifest"
LOOKS_FOR = "containers whose command, arguments or image start an engine"


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") not in _claimed() for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    maps = configurations(documents)
    launches: list[FoundLaunch] = []
    mine = [document for document in objects(documents) if document.string("kind") not in _claimed()]
    for document in mine:
        found: list[FoundLaunch] = []
        around = Surroundings(maps, name=document.string("metadata", "name") or "", role=role_of(document))
        for pod in pods_in(document):
            found += launches_of_pod(pod, around)
        found = merge_parts(found)
        for launch in found:
            _state_nodes(launch, document)
        launches += found
    if not launches and len(mine) == len(objects(documents)):
        launches = _scripts(mine)
    return launches


def pods_in(document: Node) -> list[Node]:
    """Every mapping below the document that lists containers, outermost first and none inside another."""
    result: list[Node] = []
    for _, node in document.walk():
        if node.kind == "mapping" and node.elements("containers") and not any(node.start >= one.start and node.end <= one.end for one in result):
            result.append(node)
    return result


def _state_nodes(launch: FoundLaunch, document: Node) -> None:
    """Replicas of a StatefulSet or of an indexed Job are the hosts of one launch where the command numbers its nodes."""
    import re

    texts = [word.text for word in launch.words]
    nodes = option_value(texts, re.compile(r"^--nnodes(?:=|$)"))
    rank = option_value(texts, re.compile(r"^--node[-_]rank(?:=|$)"))
    if rank is None or (nodes is not None and nodes.isdigit()):
        return
    for path in (("spec", "replicas"), ("spec", "completions"), ("spec", "parallelism")):
        count = document.at(*path)
        if count is not None and document.string("kind") in {"StatefulSet", "Job"} and isinstance(number(count), int):
            launch.stated["parallel.nodes"] = Stated(number(count), count.origin(".".join(path)))
            return


def _scripts(documents: list[Node]) -> list[FoundLaunch]:
    launches: list[FoundLaunch] = []
    for document in documents:
        for key, value in document.items("data") if document.string("kind") == "ConfigMap" else ():
            if value.kind == "scalar" and (key.endswith(".sh") or value.text.startswith("#!")):
                found = merge_parts(read_script(value.text, value.source.name, value.places()))
                for launch in found:
                    launch.name = launch.name or f"{document.string('metadata', 'name') or ''}/{key}"
                launches += found
    return launches


def _claimed() -> frozenset[str]:
    """Kinds that have a format of their own."""
    from policy.launchers.containers import formats

    return frozenset(kind for module in formats() for kind in getattr(module, "KINDS", ()))
