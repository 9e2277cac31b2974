"""One rank of a fault test, and the faults: runs in a process forked by `tests/runtime/forkserver.py`."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

CONSUMER = {"name": "target", "hidden_size": 32, "max_tokens": 16, "dtype": "float32", "norm_weight_dtype": "float32", "one_shot": True}


def write(file: Path, content: dict[str, Any]) -> None:
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(content))
    temporary.replace(file)


def wait_for(file: Path, seconds: float) -> str:
    until = time.monotonic() + seconds
    while not file.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{file.name} did not appear")
        time.sleep(0.005)
    return file.read_text()


def host_store(folder: Path) -> None:
    """The process that hosts the store and does nothing else."""
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    write(folder / "store.json", {"port": store.port, "pid": os.getpid()})
    time.sleep(120)


class Faults:
    """The fault ordered for this rank, carried out when its phase begins."""

    def __init__(self, ordered: dict[str, Any], folder: Path, overrun: float) -> None:
        self.ordered, self.folder, self.overrun = ordered, folder, overrun
        self.phases: list[str] = []

    def __call__(self, phase: str) -> None:
        self.phases.append(phase)
        if self.ordered.get("phase") != phase:
            return
        kind = self.ordered["kind"]
        if kind == "exception":
            raise RuntimeError(f"ordered failure at {phase}")
        if kind == "delay":
            time.sleep(self.overrun)
        elif kind in ("SIGKILL", "SIGSTOP"):
            os.kill(os.getpid(), getattr(signal, kind))
        elif kind in ("store-SIGKILL", "store-SIGSTOP"):
            os.kill(json.loads((self.folder / "store.json").read_text())["pid"], getattr(signal, kind.removeprefix("store-")))
            time.sleep(0.05)


def run_rank(case: dict[str, Any], rank: int, folder: Path) -> None:
    """Start torch.distributed over gloo, settle, write what came of it to `rank-N.json`, wait until the case is over."""
    mine = case["ranks"].get(str(rank), {})
    os.environ["FUSION_POLICY_STATE"] = str(folder / "state")
    os.environ.update(mine.get("environment", {}))
    if "library_fault" in mine:
        os.environ["STANDIN_FAULT"] = json.dumps(mine["library_fault"])
    sys.path.insert(0, str(Path(case["libraries"]) / mine.get("library", case["library"])))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if case["store"] == "rank0" and rank == 0:
        tcp = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        write(folder / "store.json", {"port": tcp.port, "pid": os.getpid()})
    else:
        port = json.loads(wait_for(folder / "store.json", 20))["port"]
        tcp = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=30))
    dist.init_process_group("gloo", store=tcp, rank=rank, world_size=case["size"], timeout=timedelta(seconds=60))
    group = None
    for members in case["groups"]:
        created = dist.new_group(members)
        if rank in members:
            group = created
    dist.barrier()
    if mine.get("adapter") is False:
        wait_for(folder / "over", 60)
        os._exit(0)
    settled, elapsed, phases = settle_here(case, mine, rank, group, folder)
    content = {**settled.outcome.to_json(), "elapsed": elapsed, "phases": phases, "diagnosis": str(settled.diagnosis or ""), "checks": len(settled.checks)}
    write(folder / f"rank-{rank}.json", content)
    if mine.get("leaves"):
        os._exit(0)
    if settled.outcome.word == "restart":
        settled.exit_if_restart()
    wait_for(folder / "over", 60)
    os._exit(0)


def settle_here(case: dict[str, Any], mine: dict[str, Any], rank: int, group: Any, folder: Path) -> tuple[Any, float, list[str]]:
    import torch

    from policy.runtime import Consumer, Deadline, Decision, settle
    from policy.runtime.machine import Machine

    total, agree = case["deadline"]
    faults = Faults(mine.get("fault", {}), folder, total + 1.0)
    facts = {"platform": "cuda", "node": "one", "device": f"gpu-{rank}", "capability": (9, 0), "multiprocessors": 132, "torch": str(torch.__version__)}
    machine = Machine(**{**facts, **mine.get("machine", {})})
    consumer = Consumer(**{**CONSUMER, **mine.get("consumer", {})})
    decision = Decision(digest=mine.get("digest", "d1"), state=mine.get("state", "on"))
    begun = time.monotonic()
    settled = settle(decision, [consumer], group, deadline=Deadline(total=total, agree=agree), device="cpu", machine=machine, observer=faults)
    return settled, time.monotonic() - begun, faults.phases
