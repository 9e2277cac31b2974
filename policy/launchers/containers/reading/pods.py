"""Containers of a pod -> launches: command and arguments, `$(NAME)` references, environment, image, mounted ConfigMaps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from policy.launchers.containers.reading.images import engine_of_image, serves_by_itself
from policy.launchers.containers.reading.launches import environment_of, field_of, number, role_of_name, role_of_words, word_of, words_of
from policy.launchers.containers.reading.programs import Started, find_program, implicit
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, Stated, Word
from policy.launchers.yaml_places import Node
from policy.origin import Origin
from policy.records import dataclass, field

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_DEVICES = re.compile(r"^(?:(?:nvidia|amd)\.com/gpu|gpu\.intel\.com/\w+|gpu)$")


@dataclass(slots=True)
class Surroundings:
    """What is known around a pod: ConfigMaps of the same stream by name, variables that a controller sets."""

    configurations: dict[str, Node] = field(default_factory=dict)
    given: dict[str, Field] = field(default_factory=dict)
    name: str = ""
    role: str | None = None
    bare: bool = True  # whether an engine's image without a command of its own starts its server


def manifest(document: Node) -> bool:
    """Whether a document is a Kubernetes object."""
    return document.kind == "mapping" and document.string("kind") is not None and document.string("apiVersion") is not None


def objects(documents: Iterable[Node]) -> list[Node]:
    """The Kubernetes objects among the documents; the items of a List each by itself."""
    result = []
    for document in documents:
        if manifest(document):
            items = document.elements("items") if str(document.string("kind")).endswith("List") else []
            result += [item for item in items if manifest(item)] if items else [document]
    return result


def configurations(documents: Iterable[Node]) -> dict[str, Node]:
    """ConfigMaps by name."""
    result = {}
    for document in objects(documents):
        data = document.at("data")
        if document.string("kind") == "ConfigMap" and data is not None:
            result[document.string("metadata", "name") or ""] = data
    return result


def role_of(document: Node, *more: str | None) -> str | None:
    """The role that labels or names say."""
    for path in (("metadata", "labels"), ("spec", "template", "metadata", "labels")):
        for key, value in document.items(*path):
            if key.rpartition("/")[2] in {"role", "role-name", "component", "inference-role"} and role_of_name(value.text):
                return role_of_name(value.text)
    for name in (*more, document.string("metadata", "name")):
        if role_of_name(name):
            return role_of_name(name)
    return None


def launches_of_pod(pod: Node | None, around: Surroundings) -> list[FoundLaunch]:
    """The launches of a pod's containers (init containers and side containers start none)."""
    if pod is None:
        return []
    files = _files(pod, around.configurations)
    launches: list[FoundLaunch] = []
    for container in pod.elements("containers"):
        launches += launches_of_container(container, around, files)
    return launches


def launches_of_container(container: Node, around: Surroundings, files: Mapping[str, dict[str, Node]] | None = None) -> list[FoundLaunch]:
    """The launches of one container; `files` are those of the pod's volumes."""
    if container.kind != "mapping":
        return []
    environment = environment_in(container.at("env"), around.given, around.configurations, container)
    mounted = _mounted(container, files or {})
    image = container.at("image")
    nodes = [node for key in ("command", "args") for node in argument_nodes(container.at(key))]
    fields = [field_of(node, referenced(node.text, environment)) for node in nodes]
    name = image.text if image is not None and image.kind == "scalar" else None
    launches = from_fields(fields, nodes, environment, name, container.at("command") is not None, mounted)
    if not fields and around.bare and image is not None and name is not None and serves_by_itself(name) and engine_of_image(name) == "vllm":
        launches = [FoundLaunch("vllm", words_of([field_of(image, "vllm"), field_of(image, "serve")]))]
    for launch in launches:
        launch.files = {**{path: node.text for path, node in mounted.items()}, **launch.files}
        complete(launch, container, environment, around)
    return launches


def from_fields(
    fields: list[Field],
    nodes: list[Node],
    environment: dict[str, Field],
    image: str | None,
    has_command: bool,
    mounted: Mapping[str, Node] | None = None,
) -> list[FoundLaunch]:
    """Launches of one command line; `nodes` are where its words stand, for a script among them; `mounted` are files that
    it may run."""
    started = find_program(fields)
    if started is None and not has_command and image is not None and fields:
        started = implicit(image, fields, fields[0])
    script = (mounted or {}).get(started.script_file if started is not None else fields[0].text if fields else "")
    if script is not None:
        positional = started.positional if started is not None else fields
        return read_script(script.text, script.source.name, script.places(), environment, positional)
    if started is None:
        return []
    if started.script is not None:
        return _of_script(started, fields, nodes, environment)
    if not started.engine:
        return []
    launch = FoundLaunch(started.engine, words_of(started.words), environment_of(started.environment))
    if started.image is not None:
        launch.image = Word(started.image.text, Origin("file", "image", *started.image.place))
    return [launch]


def _of_script(started: Started, fields: list[Field], nodes: list[Node], environment: dict[str, Field]) -> list[FoundLaunch]:
    script = started.script
    if script is None:
        return []
    at = next((index for index, item in enumerate(fields) if item is script), None)
    node = nodes[at] if at is not None else None
    text = node.text if node is not None else script.text
    return read_script(text, script.place[0], node.places() if node is not None else None, environment, started.positional or None)


def complete(launch: FoundLaunch, container: Node, environment: Mapping[str, Field], around: Surroundings) -> None:
    """Image, environment, devices and names that surround a command."""
    image = container.at("image")
    if launch.image is None and image is not None and image.kind == "scalar" and image.value is not None:
        launch.image = word_of(image, "image")
    launch.environment = {**environment_of({key: item for key, item in environment.items() if key not in around.given}), **launch.environment}
    launch.name = launch.name or around.name
    texts = [word.text for word in launch.words]
    launch.role = launch.role or role_of_words(texts) or around.role
    state_devices(launch, container)


def state_devices(launch: FoundLaunch, container: Node) -> None:
    """Devices that the container asks for: what one host gives to the launch."""
    for kind in ("limits", "requests"):
        for key, value in container.items("resources", kind):
            if _DEVICES.match(key) and isinstance(number(value), int):
                launch.stated.setdefault("device.gpus_per_node", Stated(number(value), value.origin(f"resources.{kind}.{key}")))


def argument_nodes(node: Node | None) -> list[Node]:
    """The scalars of `command` or `args`, however written."""
    if node is None:
        return []
    if node.kind == "scalar":
        return [node] if node.value is not None else []
    return [element for element in node.elements() if element.kind == "scalar"]


def environment_in(node: Node | None, given: Mapping[str, Field], maps: Mapping[str, Node], container: Node | None = None) -> dict[str, Field]:
    """`env` (a list of name and value, or a mapping) as variables; values taken from elsewhere (`valueFrom`) stay out."""
    result = dict(given)
    for source in container.elements("envFrom") if container is not None else []:
        data = maps.get(source.string("configMapRef", "name") or "")
        if data is not None:
            result.update({key: field_of(value) for key, value in data.items() if value.kind == "scalar"})
    if node is None:
        return result
    if node.kind == "mapping":
        given_here = {key: value for key, value in node.items() if value.kind == "scalar" and value.value is not None}
        result.update({key: field_of(value, referenced(value.text, result)) for key, value in given_here.items()})
    for element in node.elements():
        name, value = element.string("name"), element.at("value")
        if name and value is not None and value.kind == "scalar" and value.value is not None:
            result[name] = field_of(value, referenced(value.text, result))
        elif element.kind == "scalar" and "=" in element.text:
            name, _, text = element.text.partition("=")
            result[name] = field_of(element, text)
    return result


def referenced(text: str, environment: Mapping[str, Field]) -> str:
    """`$(NAME)` replaced where NAME is known; `$$` is an escaped `$`."""

    def known(match: re.Match[str]) -> str:
        if match.group(1) is None:
            return "$"
        item = environment.get(match.group(1))
        return match.group(0) if item is None else item.text

    return _REFERENCE.sub(known, text) if "$" in text else text


def _files(pod: Node, maps: Mapping[str, Node]) -> dict[str, dict[str, Node]]:
    """Volume name -> file name -> its text, for volumes made of ConfigMaps of the same stream."""
    result: dict[str, dict[str, Node]] = {}
    for volume in pod.elements("volumes"):
        data = maps.get(volume.string("configMap", "name") or "")
        if data is None:
            continue
        texts = {key: value for key, value in data.items() if value.kind == "scalar"}
        items = volume.elements("configMap", "items")
        if items:
            texts = {str(item.string("path")): texts[str(item.string("key"))] for item in items if str(item.string("key")) in texts}
        result[volume.string("name") or ""] = texts
    return result


def _mounted(container: Node, volumes: Mapping[str, dict[str, Node]]) -> dict[str, Node]:
    result: dict[str, Node] = {}
    for mount in container.elements("volumeMounts"):
        texts = volumes.get(mount.string("name") or "", {})
        path, part = (mount.string("mountPath") or mount.string("mountPoint") or "").rstrip("/"), mount.string("subPath")
        if part is not None:
            if part in texts:
                result[path] = texts[part]
        else:
            result.update({f"{path}/{key}": text for key, text in texts.items()})
    return result


def merged(base: Node | None, patch: Node | None) -> Node | None:
    """A strategic merge: mappings are joined, lists of named things by name, everything else is replaced."""
    if base is None or patch is None:
        return patch if base is None else base
    if base.kind == patch.kind == "mapping":
        value = dict(base.value)
        for key, node in patch.value.items():
            value[key] = merged(value.get(key), node)
        keys = {**base.keys, **patch.keys}
        return Node("mapping", value, "", patch.line, patch.column, patch.source, patch.start, patch.end, keys=keys)
    if base.kind == patch.kind == "sequence" and any(one.string("name") for one in patch.value):
        result = {one.string("name") or str(index): one for index, one in enumerate(base.value)}
        for index, one in enumerate(patch.value):
            name = one.string("name") or f"patch{index}"
            both = merged(result.get(name), one)
            if both is not None:
                result[name] = both
        return Node("sequence", list(result.values()), "", patch.line, patch.column, patch.source, patch.start, patch.end)
    return patch


def engine_container(pod: Node | None) -> Node | None:
    """The container that most likely holds the engine: by image, else the first."""
    containers = pod.elements("containers") if pod is not None else []
    for container in containers:
        if engine_of_image(container.string("image") or ""):
            return container
    return containers[0] if containers else None
