"""Pipelines of continuous integration (GitHub workflows and actions, GitLab, Buildkite): the commands of their steps."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import environment_of, field_of, merge_parts, word_of
from policy.launchers.containers.reading.pods import environment_in
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "CI pipeline"
LOOKS_FOR = "steps whose commands start an engine"
_COMMANDS = ("run", "script", "before_script", "command", "commands")


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 88 if any(_jobs(document) for document in documents) else 0


def _jobs(document: Node) -> list[tuple[str, Node, list[Node]]]:
    """(name, job, its steps) of every job; of GitLab and Buildkite a step is a job."""
    if document.kind != "mapping" or document.at("apiVersion") is not None:
        return []
    github = [(key, job, job.elements("steps")) for key, job in document.items("jobs") if job.elements("steps")]
    if github:
        return github
    if document.elements("runs", "steps"):
        return [(document.string("name") or "", document, document.elements("runs", "steps"))]
    buildkite = [step for step in document.elements("steps") if any(step.at(key) is not None for key in ("command", "commands"))]
    if buildkite:
        return [(step.string("label") or "", step, [step]) for step in buildkite]
    return [(key, job, [job]) for key, job in document.items() if job.kind == "mapping" and (job.elements("script") or job.string("script")) and _gitlab(job)]


def _gitlab(job: Node) -> bool:
    return any(job.at(key) is not None for key in ("stage", "image", "tags", "needs", "rules", "before_script", "extends"))


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in documents:
        for key, job, steps in _jobs(document):
            around = {**_variables(document), **_variables(job)}
            image = job.at("container", "image") or job.at("container") or job.at("image", "name") or job.at("image")
            found: list[FoundLaunch] = []
            for step in steps:
                environment = {**around, **_variables(step)} if step is not job else around
                for command in [one for command in _COMMANDS if (node := step.at(command)) is not None for one in _scalars(node)]:
                    made = read_script(command.text, command.source.name, command.places(), environment)
                    for launch in made:
                        launch.environment = {**environment_of(environment), **launch.environment}
                        launch.name = key
                        if launch.image is None and image is not None and image.kind == "scalar" and image.value is not None:
                            launch.image = word_of(image, "image")
                    found += made
            launches += merge_parts(found)
    return launches


def _scalars(node: Node) -> list[Node]:
    return [node] if node.kind == "scalar" else [one for one in node.elements() if one.kind == "scalar"]


def _variables(node: Node) -> dict[str, Field]:
    """`env` or `variables`; what a matrix or a secret fills in stays out."""
    found = {**environment_in(node.at("env"), {}, {}), **environment_in(node.at("variables"), {}, {})}
    for key, value in node.items("variables"):  # GitLab's long form
        if value.at("value") is not None:
            found[key] = field_of(value.elements("value")[0] if value.elements("value") else value.at("value") or value)
    return {key: item for key, item in found.items() if not re.search(r"\$\{\{", item.text)}
