"""Imports torch once and forks from there: a case of N ranks starts in tenths of a second instead of seconds.

Reads one JSON case a line on stdin, writes one JSON report a line on stdout (`python -m tests.runtime.forkserver FOLDER PARALLEL`).
Every case has a supervisor of its own, which forks the ranks, waits for their outcomes, and ends by process id what is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tests.runtime.ranks import host_store, run_rank, write


def fork(work: Any, log: Path) -> int:
    """Run `work` in a child of its own; the child never returns here."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False), os.fdopen(2, "w", buffering=1, closefd=False)
        work()
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def supervise(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """One case from start to end. The report: a rank's outcome, how its process ended, and what had to be ended here."""
    folder.mkdir(parents=True)
    log = folder / "log.txt"
    pids: dict[str, int] = {}
    if case["store"] == "host":
        pids["store"] = fork(lambda: host_store(folder), log)
    for rank in range(case["size"]):
        pids[str(rank)] = fork(lambda rank=rank: run_rank(case, rank, folder), log)  # type: ignore[misc]
    statuses: dict[str, str] = {}
    expected = [name for name in pids if name != "store" and case["ranks"].get(name, {}).get("adapter") is not False]
    until = time.monotonic() + 25 + case["deadline"][0] + 6
    stopped: set[str] = set()
    while time.monotonic() < until:
        reap(pids, statuses, stopped)
        if all((folder / f"rank-{name}.json").exists() or name in statuses or name in stopped for name in expected):
            break
        time.sleep(0.01)
    for name in stopped & set(expected):  # a stopped rank that comes back must not contradict the others
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[name], signal.SIGCONT)
    resumed = time.monotonic() + 6
    while stopped and time.monotonic() < resumed and not all((folder / f"rank-{name}.json").exists() or name in statuses for name in stopped & set(expected)):
        reap(pids, statuses, set())
        time.sleep(0.01)
    write(folder / "over", {})
    ended_by = time.monotonic() + 4
    while time.monotonic() < ended_by and any(name not in statuses for name in pids if name != "store"):
        reap(pids, statuses, set())
        time.sleep(0.01)
    leaked = [name for name in pids if name not in statuses and name != "store"]
    for name in [name for name in pids if name not in statuses]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[name], signal.SIGKILL)
            os.waitpid(pids[name], 0)
    outcomes = {name: json.loads((folder / f"rank-{name}.json").read_text()) for name in expected if (folder / f"rank-{name}.json").exists()}
    latched = sorted(path.name for path in (folder / "state").glob("latch-*.json")) if (folder / "state").is_dir() else []
    return {
        "id": case["id"],
        "outcomes": outcomes,
        "statuses": statuses,
        "stopped": sorted(stopped),
        "leaked": leaked,
        "latched": len(latched),
        "log": log.read_text()[-3000:],
    }


def reap(pids: dict[str, int], statuses: dict[str, str], stopped: set[str]) -> None:
    for name, pid in pids.items():
        if name in statuses:
            continue
        done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if not done:
            continue
        if os.WIFSTOPPED(status):
            stopped.add(name)
        elif os.WIFSIGNALED(status):
            statuses[name] = signal.Signals(os.WTERMSIG(status)).name
        else:
            statuses[name] = f"exit {os.WEXITSTATUS(status)}"


def serve(folder: Path, parallel: int) -> None:
    """Read cases until end of input; at most `parallel` at a time."""
    import torch
    import torch.distributed

    import policy.runtime.settle
    import policy.runtime.verify  # noqa: F401

    torch.set_num_threads(1)
    running: dict[int, tuple[str, Path]] = {}

    def finish_one() -> None:
        pid, _ = os.wait()
        name, report = running.pop(pid)
        text = (
            report.read_text()
            if report.exists()
            else json.dumps({"id": name, "outcomes": {}, "statuses": {}, "stopped": [], "leaked": ["supervisor"], "latched": 0, "log": ""})
        )
        print(text, flush=True)

    for line in sys.stdin:
        case = json.loads(line)
        while len(running) >= parallel:
            finish_one()
        place, report = folder / case["id"], folder / f"{case['id']}.json"
        pid = fork(lambda case=case, place=place, report=report: write(report, supervise(case, place)), folder / "supervisors.txt")  # type: ignore[misc]
        running[pid] = (case["id"], report)
    while running:
        finish_one()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
