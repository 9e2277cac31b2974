"""RoleBasedGroup: roles with their own template or a patch on a shared one; a leader-worker role is one launch."""

from __future__ import annotations

from policy.launchers.containers.reading.launches import field_of, merge_parts, role_of_name, state
from policy.launchers.containers.reading.pods import Surroundings, configurations, launches_of_pod, merged, objects
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node

NAME = "RoleBasedGroup"
LOOKS_FOR = "roles whose pod template, with its patches, starts an engine"
KINDS = frozenset({"RoleBasedGroup", "RoleBasedGroupSet"})
_PATTERNS = ("standalonePattern", "leaderWorkerPattern", "customComponentsPattern", "leaderWorkerSet")


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    return 100 if any(document.string("kind") in KINDS for document in objects(documents)) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    launches: list[FoundLaunch] = []
    for document in objects(documents):
        if document.string("kind") not in KINDS:
            continue
        spec = document.at("spec", "template", "spec") if document.at("spec", "roles") is None else document.at("spec")
        if spec is None:
            continue
        shared = {one.string("name") or "": one.at("template") for one in spec.elements("roleTemplates")}
        for role in spec.elements("roles"):
            whole = f"{document.string('metadata', 'name') or ''}/{role.string('name') or ''}"
            around = Surroundings(configurations(documents), name=whole, role=role_of_name(role.string("name")))
            launches += _of_role(role, shared, around)
    return launches


def _of_role(role: Node, shared: dict[str, Node | None], around: Surroundings) -> list[FoundLaunch]:
    pattern = next((role.at(name) for name in _PATTERNS if role.at(name) is not None), None)
    size = pattern.at("size") if pattern is not None else None
    if size is not None and size.kind == "scalar":
        around.given.update({key: field_of(size) for key in ("RBG_LWP_GROUP_SIZE", "LWS_GROUP_SIZE", "GROUP_SIZE")})
    templates = [template for holder in (role, pattern) if holder is not None for template in _templates(holder, shared)]
    for template in templates:
        patches = [holder.at(key) for holder in (pattern, role) if holder is not None for key in ("leaderTemplatePatch", "patchLeaderTemplate")]
        full = merged(template, next((patch for patch in patches if patch is not None), None))
        found = merge_parts(launches_of_pod(full.at("spec") if full is not None else None, around))
        for launch in found:
            state(launch, "parallel.nodes", size, "size of the leader-worker pattern")
        if found:
            return found
    return []


def _templates(holder: Node, shared: dict[str, Node | None]) -> list[Node]:
    template = holder.at("template")
    if template is None:
        reference = holder.string("templateRef", "name") or holder.string("templateRef")
        patch = holder.at("templateRef", "patch") or holder.at("templatePatch")
        template = merged(shared.get(reference or ""), patch)
    parts = [merged(None, one.at("template")) for one in holder.elements("components")]
    return [one for one in [template, *parts] if one is not None]
