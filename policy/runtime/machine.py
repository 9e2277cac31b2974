"""Facts of this process and its device, as the vote and the static check need them. Reads torch; creates nothing on a GPU."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Machine:
    """One process's machine. `platform` is cuda, rocm or cpu; `node` identifies the host across containers (its boot);
    `device` the GPU (its uuid); `memory_free` in bytes; `p2p` None where it cannot be asked (one visible device)."""

    platform: str = "cpu"
    node: str = ""
    device: str = ""
    device_name: str = ""
    device_index: int | None = None
    capability: tuple[int, int] | None = None
    multiprocessors: int = 0
    memory_free: int | None = None
    mig: bool = False
    p2p: bool | None = None
    visible_devices: int = 0
    torch: str = ""
    cuda: str | None = None
    python: tuple[int, int] = field(default_factory=lambda: sys.version_info[:2])

    @property
    def capability_text(self) -> str | None:
        """`9.0`; None without a GPU."""
        return None if self.capability is None else f"{self.capability[0]}.{self.capability[1]}"


def node_identity() -> str:
    """The same for all containers of a host, different between hosts and boots."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return platform.node()


def probe_machine() -> Machine:
    """Ask torch about the current device. A machine without a usable GPU is one with platform `cpu`."""
    import torch

    common: dict[str, Any] = {"node": node_identity(), "torch": str(torch.__version__), "cuda": torch.version.cuda}
    if not torch.cuda.is_available():
        return Machine(**common)
    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    visible = torch.cuda.device_count()
    peers = [torch.cuda.can_device_access_peer(index, other) for other in range(visible) if other != index]
    uuid = str(getattr(properties, "uuid", "")) or f"{common['node']}:{os.environ.get('CUDA_VISIBLE_DEVICES', '')}:{index}"
    return Machine(
        platform="rocm" if getattr(torch.version, "hip", None) else "cuda",
        device=uuid,
        device_name=properties.name,
        device_index=index,
        capability=(properties.major, properties.minor),
        multiprocessors=properties.multi_processor_count,
        memory_free=torch.cuda.mem_get_info(index)[0],
        mig="MIG" in properties.name or "MIG-" in os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        p2p=all(peers) if peers else None,
        visible_devices=visible,
        **common,
    )


def package_versions(names: tuple[str, ...]) -> dict[str, str]:
    """Installed versions by distribution name; `absent` where there is none."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


class RendezvousCounter:
    """Counts this process's symmetric-memory rendezvous from its installation on. A scoped workspace of some releases
    blocks when the members have different counts behind them."""

    def __init__(self) -> None:
        self.count = 0
        self.installed = False

    def install(self) -> None:
        """Put the counter around torch's rendezvous. Engines do it first thing; calling it again changes nothing."""
        if self.installed:
            return
        import torch

        symmetric_memory = getattr(getattr(torch._C, "_distributed_c10d", None), "_SymmetricMemory", None)
        original = getattr(symmetric_memory, "rendezvous", None)
        if symmetric_memory is None or original is None:
            return

        def rendezvous(*arguments: Any, **named: Any) -> Any:
            self.count += 1
            return original(*arguments, **named)

        symmetric_memory.rendezvous = staticmethod(rendezvous)
        self.installed = True


RENDEZVOUS = RendezvousCounter()
