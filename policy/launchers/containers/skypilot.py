"""SkyPilot tasks: `run`, with the variables that SkyPilot sets from `resources` and `num_nodes`."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import environment_of, field_of, merge_parts, state, word_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field, Variables
from policy.launchers.containers.reading.shell_run import Run
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node
from policy.origin import Origin

NAME = "SkyPilot task"
LOOKS_FOR = "an engine's command line in `run`"
_KEYS = {"resources", "setup", "num_nodes", "envs", "file_mounts", "workdir", "service", "secrets"}


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 90 if any(_is(document) for document in documents) else 0


def _is(document: Node) -> bool:
    return document.kind == "mapping" and document.string("run") is not None and bool(_KEYS & set(document.value))


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        run = document.at("run")
        if not _is(document) or run is None:
            continue
        variables = {}
        for key in ("envs", "secrets"):
            variables.update(environment_in(document.at(key), {}, {}))
        exported = dict(variables)
        gpus, nodes = _gpus(document), document.at("num_nodes")
        if gpus is not None:
            variables["SKYPILOT_NUM_GPUS_PER_NODE"] = gpus
        variables["SKYPILOT_NUM_NODES"] = field_of(nodes) if nodes is not None and nodes.value is not None else Field("1", field_of(run).place)
        found = merge_parts(read_script(run.text, run.source.name, run.places(), variables, versions=_installed(document)))
        image = document.at("resources", "image_id")
        for launch in found:
            launch.environment = {**environment_of(exported), **launch.environment}
            launch.name = launch.name or document.string("name") or ""
            if image is not None and image.kind == "scalar" and image.value is not None and launch.image is None:
                launch.image = word_of(image, "resources.image_id")
            state(launch, "parallel.nodes", nodes, "num_nodes")
            if gpus is not None:
                launch.stated["device.gpus_per_node"] = Stated(int(gpus.text), Origin("file", "resources.accelerators", *gpus.place))
        launches += found
    return launches


def _installed(document: Node) -> dict[str, Field]:
    setup = document.at("setup")
    if setup is None or setup.kind != "scalar":
        return {}
    run = Run()
    run.script(setup.text, setup.source.name, setup.places(), Variables())
    return run.versions


def _gpus(document: Node) -> Field | None:
    """GPUs of a node, where every alternative has the same number."""
    counts: list[Field] = []
    holders = [document.at("resources"), *document.elements("resources", "any_of"), *document.elements("resources", "ordered"), *document.elements("resources")]
    for holder in holders:
        accelerators = holder.at("accelerators") if holder is not None else None
        if accelerators is None:
            continue
        if accelerators.kind == "mapping":
            pairs = [(key if value.value is None else f"{key}:{value.text}", value) for key, value in accelerators.items()]
        else:
            pairs = [(one.text, one) for one in accelerators.elements() or [accelerators] if one.kind == "scalar" and one.value is not None]
        for said, node in pairs:
            match = re.fullmatch(r"[^:]+(?::(\d+))?", said)
            if match is None:
                return None
            counts.append(field_of(node, match.group(1) or "1"))
    return counts[0] if counts and len({item.text for item in counts}) == 1 else None
