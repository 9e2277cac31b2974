"""Scores the traits of FlashInfer releases against their recorded signatures, one row a release and trait.

`traits.flashinfer.scope_authority` has no column of its own: it must agree with what the signature takes and where the
workspace is allocated (with torch's symmetric memory only `group` scopes it, and nothing where there is no such
parameter).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from policy.launch import Facts, Launch
from policy.pack import Pack
from policy.values import ABSENT

Release = Mapping[str, Any]
ALLOCATORS = {
    "never": "symmetric_device_memory",
    "always": "torch_symmetric_memory",
    "confidential_compute_only": "torch_symmetric_memory_under_confidential_compute",
}


def takes(function: str, parameter: str) -> Callable[[Release], bool]:
    """Whether a function of the release has a parameter."""
    return lambda release: any(one["name"] == parameter for one in (release[function] or {}).get("parameters", ()))


def allocator(release: Release) -> Any:
    """Where a trtllm workspace of the unified API is allocated; absent where there is no such class."""
    return ALLOCATORS[release["trtllm_torch_symmetric_memory"]] if release["TRTLLMAllReduceFusionWorkspace"] is not None else ABSENT


def scope_authority(release: Release) -> Any:
    """What scopes a workspace where everything that can be passed is passed."""
    if release["create_allreduce_fusion_workspace"] is None:
        return ABSENT
    if release["trtllm_torch_symmetric_memory"] != "always":
        return "comm_backend"
    return "group" if takes("create_allreduce_fusion_workspace", "group")(release) else "world"


#: Trait -> what the recorded release says.
RECORDED: dict[str, Callable[[Release], Any]] = {
    "unified_api": lambda release: release["create_allreduce_fusion_workspace"] is not None,
    "takes_group": takes("create_allreduce_fusion_workspace", "group"),
    "takes_comm_backend": takes("create_allreduce_fusion_workspace", "comm_backend"),
    "takes_trigger_completion": takes("allreduce_fusion", "trigger_completion_at_end"),
    "takes_weight_bias": takes("allreduce_fusion", "weight_bias"),
    "backends": lambda release: ABSENT if release["backends"] is None else frozenset(release["backends"]),
    "patterns": lambda release: frozenset(release["patterns"]),
    "trtllm_allocator": allocator,
    "scope_authority": scope_authority,
    "cutedsl_workspace": lambda release: "mnnvl_cutedsl_ar" in release["comm_modules"],
}


def handles(row: Mapping[str, Any]) -> bool:
    """Whether the content of a file has this format."""
    return bool(row) and all(isinstance(one, Mapping) and "create_allreduce_fusion_workspace" in one for one in row.values())


def answer(pack: Pack, release: str, trait: str) -> Any:
    """The trait's value for a release; None where the pack does not know one."""
    facts = Facts(pack, Launch.of(pack, {"packages.flashinfer-python": release}))
    return facts.values(f"traits.flashinfer.{trait}").single()


def _comparisons(pack: Pack, rows: Iterable[Mapping[str, Release]]) -> Iterator[str]:
    for content in rows:
        for release, recorded in content.items():
            for trait, expected in RECORDED.items():
                wanted, got = expected(recorded), answer(pack, release, trait)
                yield "" if got == wanted else f"flashinfer-python {release}: {trait} is recorded as {_shown(wanted)}, the pack says {_shown(got)}"


def _shown(value: Any) -> str:
    return "absent" if value is ABSENT else ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value)


def compare(pack: Pack, rows: Iterable[Mapping[str, Release]]) -> tuple[int, int, list[str]]:
    """Rows (a release and trait each), agreements, and each disagreement in words."""
    found = list(_comparisons(pack, rows))
    disagreements = [text for text in found if text]
    return len(found), len(found) - len(disagreements), disagreements
