"""Docker Compose: services with image, entrypoint and command."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import environment_of, field_of, merge_parts, number, role_of_name, role_of_words, word_of
from policy.launchers.containers.reading.pods import environment_in, from_fields
from policy.launchers.containers.reading.shell_expand import Field, Value, Variables, text_in
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.shell_words import tokens
from policy.launchers.yaml_places import Node

NAME = "Docker Compose"
LOOKS_FOR = "services whose entrypoint, command or image start an engine"
_SERVICE = {"image", "build", "command", "entrypoint"}


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    services = [service for document in documents for _, service in document.items("services")]
    return 90 if any(service.kind == "mapping" and _SERVICE & set(service.value) for service in services) and not _manifest(documents) else 0


def _manifest(documents: list[Node]) -> bool:
    return any(document.string("apiVersion") for document in documents)


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        for service_name, service in document.items("services"):
            if service.kind == "mapping":
                launches += _of_service(service_name, service)
    return merge_parts(launches)


def _of_service(name: str, service: Node) -> list[FoundLaunch]:
    environment = environment_in(service.at("environment"), {}, {})
    entry, command = _words(service.at("entrypoint")), _words(service.at("command"))
    image = service.at("image")
    fields = [item for item, _ in entry + command]
    nodes = [node for _, node in entry + command]
    image_text = _interpolated(image.text) if image is not None and image.kind == "scalar" else None
    found = from_fields(fields, nodes, environment, image_text, bool(entry))
    for launch in found:
        launch.environment = {**environment_of(environment), **launch.environment}
        launch.name = launch.name or name
        launch.role = launch.role or role_of_words([word.text for word in launch.words]) or role_of_name(name)
        if launch.image is None and image is not None and image_text is not None:
            launch.image = word_of(image, "image", image_text)
        for device in service.elements("deploy", "resources", "reservations", "devices"):
            count, identifiers = device.at("count"), device.at("device_ids")
            if count is not None and isinstance(number(count), int):
                launch.stated["device.gpus_per_node"] = Stated(number(count), count.origin("devices.count"))
            elif identifiers is not None and identifiers.kind == "sequence":
                launch.stated["device.gpus_per_node"] = Stated(len(identifiers.value), identifiers.origin("devices.device_ids"))
    return found


def _words(node: Node | None) -> list[tuple[Field, Node]]:
    """A list as it stands; a string split as a shell splits it."""
    if node is None or node.value is None:
        return []
    if node.kind == "sequence":
        return [(field_of(one, _interpolated(one.text)), one) for one in node.elements() if one.kind == "scalar"]
    if node.kind != "scalar":
        return []
    places = node.places()
    result = []
    for token in tokens(node.text):
        if token.word is not None and token.kind == "word":
            line, column = places(token.offset)
            result.append((Field(_interpolated(token.word.written), (node.source.name, line, column)), node))
    return result


def _interpolated(text: str) -> str:
    """`${NAME:-default}` as Compose reads it where the file alone decides; `$$` is an escaped `$`."""
    if "$" not in text:
        return text
    held = text.replace("$$", "\0")
    defaults = Variables({"": Value("", ("", 1, 1))})
    return re.sub(r"\$\{[^}]*\}", lambda match: text_in(match.group(0), defaults), held).replace("\0", "$")
