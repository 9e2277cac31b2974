"""Facts of the machine at hand without torch: GPUs through nvidia-ml-py where it is installed, compilers, containers.

Nothing here creates a CUDA context. A probe that cannot answer leaves its fact unknown; only what was seen is stated.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from policy.origin import Origin

Seen = tuple[str, Any, Origin]

#: Environment variables whose values may be recorded, by prefix; anything that looks like a secret is left out.
ALLOWED_PREFIXES = (
    "VLLM_",
    "SGLANG_",
    "FLASHINFER_",
    "NCCL_",
    "TORCH_",
    "TRTLLM_",
    "CUDA_",
    "SLURM_",
    "RAY_",
    "FUSION_POLICY_",
    "HF_HUB_OFFLINE",
    "ROCR_",
    "HIP_",
)
ALLOWED_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_PORT", "PYTORCH_CUDA_ALLOC_CONF", "TMPDIR", "KUBERNETES_SERVICE_PORT")
SECRET_WORDS = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "COOKIE")


def allowed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be recorded: by allow-list, never a secret."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if (name.startswith(ALLOWED_PREFIXES) or name in ALLOWED_NAMES) and not any(word in name.upper() for word in SECRET_WORDS) and "://" not in value
    }


def machine_facts(environment: Mapping[str, str] | None = None) -> Iterator[Seen]:
    """Every fact of this machine that could be seen."""
    variables = os.environ if environment is None else environment
    yield "runtime.python_version", ".".join(map(str, sys.version_info[:3])), Origin("probe", "this interpreter")
    yield from compilers(variables)
    seen = list(gpus(variables))
    yield from seen
    yield from scheduled(variables, counted=any(name == "device.gpus_per_node" for name, _, _ in seen))


def scheduled(environment: Mapping[str, str], counted: bool) -> Iterator[Seen]:
    """What the scheduler's variables say of the launch that this process belongs to: inferred, and below what is written.
    `counted`: the GPUs were counted already."""
    size = environment.get("LWS_GROUP_SIZE", "")
    if size.isdigit() and int(size) > 0:  # the pods of a group are the nodes of one launch
        yield "parallel.nodes", int(size), Origin("probe", f"inferred from LWS_GROUP_SIZE={size}")
    gpus_of_node = environment.get("SLURM_GPUS_ON_NODE", "")
    if not counted and gpus_of_node.isdigit() and int(gpus_of_node) > 0:
        yield "device.gpus_per_node", int(gpus_of_node), Origin("probe", f"inferred from SLURM_GPUS_ON_NODE={gpus_of_node}")


def hints(environment: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """(variable, what it hints at, what to do) where a scheduler's variable fits several launches, so that no fact follows."""
    name = next((one for one in ("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES") if environment.get(one, "").isdigit()), None)
    if name is not None and int(environment[name]) > 1:
        nodes = environment[name]
        message = f"this process runs in a Slurm job of {nodes} nodes, and the launch does not say how many it spans"
        yield name, message, f"--set parallel.nodes={nodes} if all of them"
    name = next((one for one in ("RAY_ADDRESS", "RAY_JOB_ID") if environment.get(one)), None)
    if name is not None:
        yield name, "this process belongs to a Ray cluster, whose nodes the launch may span", "--set parallel.nodes=NODES if it does"
    if environment.get("KUBERNETES_SERVICE_HOST"):
        yield "KUBERNETES_SERVICE_HOST", "this process runs in a pod: what is probed is what its container sees", "probe in the engine's own pod"


def compilers(environment: Mapping[str, str]) -> Iterator[Seen]:
    """Whether nvcc and ninja are found, where the engines look for them."""
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)] + ["/usr/local/cuda"]
    from shutil import which  # only where the machine is looked at

    nvcc = next((str(path) for home in homes if (path := Path(home) / "bin" / "nvcc").is_file()), None) or which("nvcc", path=environment.get("PATH"))
    yield "engine.nvcc", nvcc is not None, Origin("probe", nvcc or "no nvcc in CUDA_HOME, CUDA_PATH or PATH")
    ninja = which("ninja", path=environment.get("PATH"))
    yield "engine.ninja", ninja is not None, Origin("probe", ninja or "no ninja in PATH")


def gpus(environment: Mapping[str, str]) -> Iterator[Seen]:
    """What nvidia-ml-py tells of the visible GPUs: capability, name, count, links, peer access, fabric, confidential mode."""
    try:
        import pynvml as nvml
    except ImportError:
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return
    try:
        yield from _visible(nvml, environment)
    finally:
        nvml.nvmlShutdown()


def _visible(nvml: Any, environment: Mapping[str, str]) -> Iterator[Seen]:
    handles = _handles(nvml, environment)
    if not handles:
        return
    at = Origin("probe", "nvidia-ml-py")
    yield "device.platform", "cuda", at
    yield "device.gpus_per_node", len(handles), at
    names = {_text(_asked(nvml, "nvmlDeviceGetName", handle)) for handle in handles}
    if len(names) == 1 and None not in names:
        yield "device.name", names.pop(), at
    capabilities = {_asked(nvml, "nvmlDeviceGetCudaComputeCapability", handle) for handle in handles} - {None}
    if capabilities:
        yield "device.compute_capability", sorted({f"{major}.{minor}" for major, minor in capabilities}), at
    modes = [_asked(nvml, "nvmlDeviceGetMigMode", handle) for handle in handles]
    if any(mode is not None for mode in modes):
        yield "device.mig", any(mode is not None and mode[0] == 1 for mode in modes), at
    yield from _links(nvml, handles, at)
    confidential = _asked(nvml, "nvmlSystemGetConfComputeState")
    if confidential is not None:
        yield "device.confidential_compute", bool(getattr(confidential, "ccFeature", 0)), at


def _handles(nvml: Any, environment: Mapping[str, str]) -> list[Any]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, by number or UUID; all where it is not set."""
    shown = environment.get("CUDA_VISIBLE_DEVICES")
    count = _asked(nvml, "nvmlDeviceGetCount") or 0
    if shown is None:
        return [handle for index in range(count) if (handle := _asked(nvml, "nvmlDeviceGetHandleByIndex", index)) is not None]
    found = []
    for word in (part.strip() for part in shown.split(",")):
        if word.isdigit() and int(word) < count:
            handle = _asked(nvml, "nvmlDeviceGetHandleByIndex", int(word))
        elif word.startswith("GPU-"):
            handle = _asked(nvml, "nvmlDeviceGetHandleByUUID", word)
        else:
            break
        if handle is not None:
            found.append(handle)
    return found


def _links(nvml: Any, handles: list[Any], at: Origin) -> Iterator[Seen]:
    """How the visible GPUs reach each other."""
    pairs = [(one, other) for number, one in enumerate(handles) for other in handles[number + 1 :]]
    linked = [_asked(nvml, "nvmlDeviceGetP2PStatus", one, other, _number(nvml, "NVML_P2P_CAPS_INDEX_NVLINK", 2)) for one, other in pairs]
    readable = [_asked(nvml, "nvmlDeviceGetP2PStatus", one, other, _number(nvml, "NVML_P2P_CAPS_INDEX_READ", 0)) for one, other in pairs]
    good = _number(nvml, "NVML_P2P_STATUS_OK", 0)
    if pairs and all(status is not None for status in readable):
        yield "device.p2p", all(status == good for status in readable), at
    if pairs and all(status is not None for status in linked):
        kinds = {_remote(nvml, handle) for handle in handles}
        everywhere = all(status == good for status in linked)
        kind = (
            "nvswitch"
            if everywhere and kinds == {"switch"}
            else "nvlink"
            if everywhere
            else "nvlink_pairs"
            if any(status == good for status in linked)
            else "pcie"
        )
        yield "device.interconnect", kind, at
    fabric = [_fabric(nvml, handle) for handle in handles]
    if all(state is not None for state in fabric):
        yield "device.fabric", all(fabric), at


def _remote(nvml: Any, handle: Any) -> str | None:
    """What the first active NVLink of a GPU ends in: a switch or a GPU."""
    for link in range(_number(nvml, "NVML_NVLINK_MAX_LINKS", 18)):
        if _asked(nvml, "nvmlDeviceGetNvLinkState", handle, link) != 1:
            continue
        kind = _asked(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        return "switch" if kind == _number(nvml, "NVML_NVLINK_DEVICE_TYPE_SWITCH", 2) else "gpu"
    return None


def _fabric(nvml: Any, handle: Any) -> bool | None:
    """Whether the GPU belongs to a completed multi-node NVLink domain with a cluster of its own."""
    from ctypes import byref

    try:
        info = nvml.c_nvmlGpuFabricInfoV_t()
        # by reference: the binding hands its argument on as it is, and the driver writes through it
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(info))
    except (AttributeError, TypeError, nvml.NVMLError):
        return None
    return info.state == _number(nvml, "NVML_GPU_FABRIC_STATE_COMPLETED", 3) and any(bytes(info.clusterUuid))


def _asked(nvml: Any, function: str, *arguments: Any) -> Any:
    """One question to the driver; None where it does not answer."""
    from ctypes import ArgumentError

    try:
        return getattr(nvml, function)(*arguments)
    except (AttributeError, TypeError, ValueError, ArgumentError, nvml.NVMLError):
        return None


def _number(nvml: Any, name: str, otherwise: int) -> int:
    """A constant of the binding, some of which are written as tuples of one."""
    held = getattr(nvml, name, otherwise)
    return int(held[0] if isinstance(held, tuple) else held)


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
