"""Ray on Kubernetes: RayCluster, RayJob, AIBrix's RayClusterFleet; and RayService with its Serve configuration."""

from __future__ import annotations

from policy.launchers.containers import ray_serve
from policy.launchers.containers.reading.images import engine_of_image
from policy.launchers.containers.reading.launches import environment_of, field_of, merge_parts, number, word_of
from policy.launchers.containers.reading.pods import (
    Surroundings,
    complete,
    configurations,
    environment_in,
    launches_of_pod,
    objects,
    role_of,
    state_devices,
)
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node, read_documents

NAME = "Ray on Kubernetes"
LOOKS_FOR = "an entry point, a head container's command or a Serve LLM application that starts an engine"
KINDS = frozenset({"RayCluster", "RayJob", "RayService", "RayClusterFleet", "RayClusterReplicaSet"})


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in objects(documents):
        if document.string("kind") not in KINDS:
            continue
        paths = (("spec", "template", "spec"), ("spec", "rayClusterSpec"), ("spec", "rayClusterConfig"), ("spec",))
        cluster = next((node for path in paths if (node := document.at(*path)) is not None and node.at("headGroupSpec") is not None), None)
        around = Surroundings(configurations(documents), name=document.string("metadata", "name") or "", role=role_of(document), bare=False)
        serve = document.at("spec", "serveConfigV2")
        if serve is not None:
            launches += _of_service(serve, cluster, around, problems)
            continue
        launches += _of_cluster(document, cluster, around)
    return launches


def _of_cluster(document: Node, cluster: Node | None, around: Surroundings) -> list[FoundLaunch]:
    """A cluster made for one launch: its hosts with devices are the launch's hosts."""
    head = cluster.at("headGroupSpec", "template", "spec") if cluster is not None else None
    found = launches_of_pod(head, around)
    entry = document.at("spec", "entrypoint")
    if entry is not None and entry.kind == "scalar":
        container = head.at("containers", 0) if head is not None else None
        environment = environment_in(container.at("env") if container is not None else None, around.given, around.configurations, container)
        started = read_script(entry.text, entry.source.name, entry.places(), environment)
        for launch in started:
            if container is not None:
                complete(launch, container, environment, around)
            runtime = document.at("spec", "runtimeEnvYAML")
            if runtime is not None and runtime.kind == "scalar":
                for inner in read_documents(runtime.text, runtime.source.name, runtime.places()).documents:
                    launch.environment.update(environment_of({key: field_of(value) for key, value in inner.items("env_vars") if value.kind == "scalar"}))
        found += started
    found = merge_parts(found)
    nodes = _hosts(cluster)
    for launch in found:
        if nodes is not None and len(found) == 1:
            launch.stated["parallel.nodes"] = nodes
        if cluster is not None:
            for container in cluster.elements("workerGroupSpecs", 0, "template", "spec", "containers"):
                state_devices(launch, container)
    return found


def _hosts(cluster: Node | None) -> Stated | None:
    """Head and workers that hold devices."""
    if cluster is None:
        return None
    count = int(_devices(cluster.at("headGroupSpec")))
    place: Node = cluster
    for group in cluster.elements("workerGroupSpecs"):
        if not _devices(group):
            continue
        replicas, hosts = group.at("replicas"), group.at("numOfHosts")
        if replicas is None or not isinstance(number(replicas), int):
            return None
        count += number(replicas) * (number(hosts) if hosts is not None and isinstance(number(hosts), int) else 1)
        place = replicas
    return Stated(count, place.origin("head and worker replicas")) if count else None


def _devices(group: Node | None) -> bool:
    probe = FoundLaunch("")
    for container in group.elements("template", "spec", "containers") if group is not None else []:
        state_devices(probe, container)
    return any(stated.value for stated in probe.stated.values())


def _of_service(serve: Node, cluster: Node | None, around: Surroundings, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    if serve.kind == "scalar":
        inner = read_documents(serve.text, serve.source.name, serve.places())
        problems.extend(inner.problems)
        documents = inner.documents
    else:
        documents = [serve]
    launches = ray_serve.read("", documents, serve.source.name, problems)
    groups = [*cluster.elements("workerGroupSpecs"), cluster.at("headGroupSpec")] if cluster is not None else []
    containers = [one for group in groups if group is not None for one in group.elements("template", "spec", "containers")]
    chosen = next((one for one in containers if engine_of_image(one.string("image") or "") or _devices_of(one)), containers[0] if containers else None)
    for launch in launches:
        launch.name = "/".join(part for part in (around.name, launch.name) if part)
        if chosen is None:
            continue
        image = chosen.at("image")
        if image is not None and image.kind == "scalar" and launch.image is None:
            launch.image = word_of(image, "image")
        launch.environment = {**environment_of(environment_in(chosen.at("env"), {}, around.configurations, chosen)), **launch.environment}
        state_devices(launch, chosen)
    return launches


def _devices_of(container: Node) -> bool:
    probe = FoundLaunch("")
    state_devices(probe, container)
    return bool(probe.stated)
