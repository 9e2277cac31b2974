"""The runtime on real GPUs, in one run: agreement, build, verification, speed, scoping, a rank that cannot allocate.

    python3 tests/gpu/runtime_on_gpus.py --packages .fi/slim --out "$OUT" [--gpus N] [--releases 0.6.12,0.7.4] [--parts agree,groups] [--budget 540]

`--packages` holds `flashinfer-VERSION.zip` and wheels (see slim_packages.py). Works with 1 to 4 GPUs; parts that need more say
so. Every case runs in processes of its own with a hard time-out and is ended by process id, so that a kernel that never
ends takes nothing else with it. NVLink multicast stays off: only backend trtllm, and the environment is asserted.
Writes runtime-gpu.json and runtime-gpu.md to `--out`, prints the table last."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RELEASES = ("0.6.10.post1", "0.6.12", "0.6.14", "0.6.17", "0.7.4")
PARTS = ("agree", "preflight", "groups", "pipeline", "memory", "unscoped")
ENVIRONMENT = {
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NCCL_NVLS_ENABLE": "0",
    "NVSHMEM_DISABLE_NVLS": "1",
    "FLASHINFER_DISABLE_VERSION_CHECK": "1",
    "FLASHINFER_CONFIDENTIAL_COMPUTE": "0",
    "PYTHONUNBUFFERED": "1",
    "OMP_NUM_THREADS": "2",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
}
SLOW_FIRST_IMPORT = 60.0


# ---------------------------------------------------------------------------------------------- parent: no torch here
def gpu_count() -> int:
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return sum(line.startswith("GPU ") for line in done.stdout.splitlines())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Bench:
    """Starts cases, keeps their results and what they printed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.begun = options, time.monotonic()
        self.out = Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="runtime-gpu-"))
        self.gpus = options.gpus or gpu_count()
        self.results: list[dict[str, Any]] = []
        self.paths: dict[str, str] = {}

    def left(self) -> float:
        return float(self.options.budget) - (time.monotonic() - self.begun)

    def path_for(self, release: str) -> str:
        """PYTHONPATH of a release: this repository, the unpacked release, the wheels it imports."""
        if release not in self.paths:
            packages = Path(self.options.packages)
            tree = self.work / f"tree-{release}"
            with zipfile.ZipFile(packages / f"flashinfer-{release}.zip") as archive:
                archive.extractall(tree)
            parts = [str(ROOT), str(tree)]
            for wheel in sorted([*packages.glob("*.whl"), *packages.glob("whl/*.whl")]):
                target = self.work / f"wheel-{wheel.name.split('-')[0]}"
                if not target.is_dir():
                    with zipfile.ZipFile(wheel) as archive:
                        archive.extractall(target)
                parts.append(str(target))
            self.paths[release] = os.pathsep.join(parts)
        return self.paths[release]

    def case(self, name: str, release: str, size: int, seconds: float, **settings: Any) -> dict[str, Any]:
        """Run `size` ranks; returns what each reported, and who had to be ended."""
        if self.left() < 25:
            return self.note({"case": name, "release": release, "skipped": "the time budget is used up"})
        seconds = min(seconds, max(self.left() - 5, 20))
        folder = self.work / f"{name}-{release}-{len(self.results)}"
        folder.mkdir()
        port, begun = free_port(), time.monotonic()
        processes: list[subprocess.Popen[bytes]] = []
        logs = []
        for rank in range(size):
            environment = {**os.environ, **ENVIRONMENT, **settings.get("environment", {}), "PYTHONPATH": self.path_for(release)}
            environment["FUSION_POLICY_STATE"] = str(folder / "state")
            environment |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GPUS": str(self.gpus)}
            log = (folder / f"log-{rank}.txt").open("wb")
            logs.append(log)
            case = json.dumps({"name": name, "release": release, "folder": str(folder), **settings})
            command = [sys.executable, str(Path(__file__).resolve()), "--worker", case]
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=folder))
        until = begun + seconds
        while time.monotonic() < until and any(process.poll() is None for process in processes):
            time.sleep(0.05)
        ended = [rank for rank, process in enumerate(processes) if process.poll() is None]
        for rank in ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(processes[rank].pid, signal.SIGKILL)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for log in logs:
            log.close()
        ranks = {}
        for rank, process in enumerate(processes):
            file = folder / f"rank-{rank}.json"
            ranks[rank] = json.loads(file.read_text()) if file.exists() else {"state": "no report"}
            ranks[rank]["exit"] = "killed after the time-out" if rank in ended else process.returncode
        report = {"case": name, "release": release, "seconds": round(time.monotonic() - begun, 1), "ranks": ranks}
        trouble = ended or any(rank.get("error") or rank["state"] == "no report" for rank in ranks.values())
        if trouble:
            report["logs"] = {rank: (folder / f"log-{rank}.txt").read_bytes()[-1500:].decode(errors="replace") for rank in range(size)}
        return self.note(report)

    def note(self, report: dict[str, Any]) -> dict[str, Any]:
        self.results.append(report)
        print(f"[{time.monotonic() - self.begun:6.1f} s] {report['release']:>13} {report['case']}: {summary(report)}", flush=True)
        for rank, text in report.get("logs", {}).items():
            print(f"    --- rank {rank} ---\n    " + "\n    ".join(text.splitlines()[-12:]), flush=True)
        self.save()
        return report

    def save(self) -> None:
        (self.out / "runtime-gpu.json").write_text(json.dumps({"gpus": self.gpus, "results": self.results}, indent=1, default=str))
        (self.out / "runtime-gpu.md").write_text(table(self.results, self.gpus))


def summary(report: dict[str, Any]) -> str:
    if "skipped" in report:
        return f"skipped: {report['skipped']}"
    ranks = report["ranks"].values()
    words = sorted({str(rank.get("outcome") or rank["state"]) for rank in ranks})
    parts = [" and ".join(words)]
    first = report["ranks"][0]
    reason = next((rank["reason"] for rank in ranks if rank.get("reason")), None)
    if reason and words != ["fused"]:
        parts.append(reason)
    for key in ("checks", "worst", "tokens_equal", "tokens_equal_bf16", "teardown", "speed", "seen", "cost"):
        values = [rank[key] for rank in ranks if key in rank]
        if values:
            parts.append(f"{key} {first.get(key, values[0]) if key != 'seen' else '; '.join(map(str, values))}")
    killed = [rank for rank, value in report["ranks"].items() if value["exit"] == "killed after the time-out"]
    if killed:
        parts.append(f"ended by id: {killed}")
    errors = [rank["error"] for rank in ranks if rank.get("error")]
    if errors:
        parts.append(f"error {errors[0][:200]}")
    return "; ".join(parts)


def table(results: list[dict[str, Any]], gpus: int) -> str:
    lines = [f"# The runtime on {gpus} GPUs", "", "| case | release | seconds | what was seen |", "|---|---|---|---|"]
    lines += [f"| {report['case']} | {report['release']} | {report.get('seconds', '')} | {summary(report).replace('|', '/')[:700]} |" for report in results]
    return "\n".join(lines) + "\n"


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    made.add_argument("--packages", default=str(ROOT / ".fi" / "slim"))
    made.add_argument("--out", default=os.environ.get("OUT", "out"))
    made.add_argument("--gpus", type=int)
    made.add_argument("--releases", default=",".join(RELEASES))
    made.add_argument("--parts", default=",".join(PARTS))
    made.add_argument("--budget", type=float, default=540.0, help="seconds for everything")
    made.add_argument("--share", action="store_true", help="let ranks of one group share a GPU, for a machine that has one: everything but speed can be seen")
    made.add_argument("--worker")
    options = made.parse_args()
    if options.worker:
        return worker(json.loads(options.worker))
    bench = Bench(options)
    here = {release: (Path(options.packages) / f"flashinfer-{release}.zip").exists() for release in options.releases.split(",")}
    for release in (release for release, there in here.items() if not there):
        bench.note({"case": "all", "release": release, "skipped": f"no flashinfer-{release}.zip in {options.packages}"})
    releases = [release for release, there in here.items() if there]
    parts = options.parts.split(",")
    group = 2 if bench.gpus < 4 else bench.gpus
    enough = bench.gpus >= 2 or options.share
    if options.share:
        ENVIRONMENT["TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES"] = "1"
    for release in releases:
        if "agree" in parts:
            bench.case("agree", release, group, 100, part="agree", speed=release in (releases[0], releases[-1], "0.6.12"))
    newest, scoped_by_group = releases[-1:], [release for release in releases if release.startswith(("0.6.12", "0.6.10", "0.6.14"))][:1]
    for release in dict.fromkeys([*scoped_by_group, *newest]):
        if "memory" in parts and enough:
            bench.case("one rank cannot allocate", release, 2, 60, part="memory")
        if "groups" in parts and enough:
            bench.case("TP2 x DP2", release, 4, 100, part="groups")
        if "pipeline" in parts and enough:
            bench.case("TP2 x PP2", release, 4, 100, part="pipeline")
    if "preflight" in parts and newest:
        preflight(bench, newest[0])
    if "unscoped" in parts and enough:
        for release in dict.fromkeys([*scoped_by_group, *newest]):
            bench.case("unscoped: refused by the adapter", release, 4, 60, part="refused")
            allow = {"TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES": "1"} if bench.gpus < 4 else {}
            bench.case("unscoped: past the adapter, one group calls", release, 4, 60, part="past", callers=[0, 1], environment=allow)
            bench.case("unscoped: past the adapter, both groups call", release, 4, 60, part="past", callers=[0, 1, 2, 3], environment=allow)
    for part in ("memory", "groups", "pipeline", "unscoped"):
        if part in parts and not enough:
            bench.note({"case": part, "release": "-", "skipped": f"needs two GPUs, there are {bench.gpus}"})
    print("\n" + table(bench.results, bench.gpus), flush=True)
    return 0


def preflight(bench: Bench, release: str) -> None:
    """The preflight command itself, started as a user would."""
    begun, report = time.monotonic(), bench.out / "preflight.json"
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": bench.path_for(release), "FUSION_POLICY_STATE": str(bench.work / "state")}
    command = [sys.executable, "-m", "policy.runtime.preflight", "--format", "json", "--output", str(report), "--processes", "2", "--deadline", "90"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=bench.work)
    try:
        _, errors = process.communicate(timeout=min(150, max(bench.left(), 30)))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        errors = "killed after the time-out"
    rank: dict[str, Any] = {"state": "no report", "exit": process.returncode, "error": errors[-1200:] if process.returncode else ""}
    if report.exists():
        document = json.loads(report.read_text())
        rank |= {"state": document["outcome"], "outcome": document["outcome"], "reason": document["reason"]["text"]}
        rank["seen"] = {**document["facts"], "timings": len(document["timings"])}
    bench.note({"case": "preflight", "release": release, "seconds": round(time.monotonic() - begun, 1), "ranks": {0: rank}})


# ------------------------------------------------------------------------------------------------------------- worker
def worker(case: dict[str, Any]) -> int:
    """One rank of a case: run its part, write its report."""
    rank = int(os.environ["RANK"])
    report: dict[str, Any] = {"state": "started"}
    file = Path(case["folder"]) / f"rank-{rank}.json"

    def save() -> None:
        temporary = file.with_suffix(".tmp")
        temporary.write_text(json.dumps(report, default=str))
        temporary.replace(file)

    code = 0
    try:
        for name, value in ENVIRONMENT.items():
            assert os.environ.get(name) == value, f"{name} must be {value}"
        start_torch(report)
        PART_FUNCTIONS[case["part"]](case, report, save)
        report["state"] = "done"
    except BaseException as error:
        traceback.print_exc()
        report["error"] = f"{type(error).__name__}: {error}"
        code = 1
    save()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # destructors of a spinning kernel never return


def start_torch(report: dict[str, Any]) -> None:
    """Set the device, and see that multicast is off before anything is created."""
    import torch

    rank, gpus = int(os.environ["RANK"]), torch.cuda.device_count()
    torch.cuda.set_device(rank % gpus)
    symmetric = torch._C._distributed_c10d._SymmetricMemory
    from torch._C._autograd import DeviceType

    multicast = symmetric.has_multicast_support(DeviceType.CUDA, torch.cuda.current_device())
    assert not multicast, "NVLink multicast is on"
    report |= {"torch": str(torch.__version__), "device": torch.cuda.get_device_name(), "multicast": multicast}


def start_world(backend: str, seconds: int = 60) -> tuple[int, int]:
    from datetime import timedelta

    import torch.distributed as dist

    dist.init_process_group(backend, timeout=timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()


def pairs(world: int) -> Any:
    """This rank's tensor-parallel group of two. Every rank makes every group, in the same order. NCCL refuses two ranks of
    a group on one GPU, so that gloo takes its place there."""
    import torch
    import torch.distributed as dist

    backend = "nccl" if torch.cuda.device_count() >= 2 else "gloo"

    mine = None
    for first in range(0, world, 2):
        group = dist.new_group([first, first + 1], backend=backend)
        if dist.get_rank() in (first, first + 1):
            mine = group
    return mine


def told(settled: Any, report: dict[str, Any]) -> None:
    outcome = settled.outcome
    report |= {"outcome": outcome.word, "reason": str(outcome.reason), "cost": dict(outcome.seconds), "details": outcome.details}
    if settled.diagnosis is not None:
        report["diagnosis"] = str(settled.diagnosis)


def agree(case: dict[str, Any], report: dict[str, Any], save: Any) -> None:
    """Settle over WORLD, many shapes against float32, speed in CUDA graphs, capture refusal, memory given back."""
    import torch
    import torch.distributed as dist

    from policy.runtime import Consumer, Deadline, Decision, settle
    from policy.runtime.machine import RENDEZVOUS
    from policy.runtime.timing import table as times
    from policy.runtime.workspace import WorkspaceInUseError

    RENDEZVOUS.install()
    shared_gpu = torch.cuda.device_count() < int(os.environ["WORLD_SIZE"])
    _, size = start_world("gloo" if shared_gpu else "cpu:gloo,cuda:nccl")
    safe_pdl = case["release"] >= "0.7"
    consumer = Consumer("target", 8192, 2048, one_shot=True, launch_with_pdl=safe_pdl)
    free_before = torch.cuda.mem_get_info()[0]
    settled = settle(Decision("gpu-agree"), [consumer], deadline=Deadline(60))
    told(settled, report)
    save()
    if settled.workspace is None:
        return
    workspace = settled.workspace
    report["rendezvous_counted"] = RENDEZVOUS.count
    report["checks"], report["worst"], report["failed"] = correctness(workspace, size)
    save()
    if case.get("speed"):
        report["times"] = {}
        for hidden in (4096, 8192):
            rows = times(workspace, Consumer("target", hidden, 2048, one_shot=True, launch_with_pdl=safe_pdl), None)
            report["times"][hidden] = rows
        report["speed"] = "h8192 " + ", ".join(f"{row['tokens']}: {row['unfused_us'] / row['fused_us']:.2f}x" for row in report["times"][8192])
        save()
    workspace.note_capture()
    try:
        workspace.teardown()
        refused = False
    except WorkspaceInUseError:
        refused = True
    workspace.graphs_are_gone()
    torch.cuda.synchronize()
    dist.barrier()
    before = torch.cuda.mem_get_info()[0]
    needed = workspace.shape.bytes_needed(size)
    workspace.teardown()
    dist.barrier()  # peers' mappings of the memory are gone too
    freed = torch.cuda.mem_get_info()[0] - before
    report["teardown"] = f"refused while captured: {refused}; freed {freed >> 20} MiB of {needed >> 20}; started with {free_before >> 20} free"
    again = settle(Decision("gpu-agree-again"), [consumer], deadline=Deadline(60))
    report["second_settle"] = str(again.outcome.word)


def correctness(workspace: Any, size: int) -> tuple[int, float, list[str]]:
    """Fused against float32 over hidden sizes and tokens, one- and two-shot: (calls, worst error / limit, what failed)."""
    import torch
    import torch.distributed as dist

    from policy.runtime import Consumer
    from policy.runtime.verify import WrongNumbersError, _one

    calls, worst, failed = 0, 0.0, []
    until = time.monotonic() + 90
    for hidden in (1024, 2048, 2880, 4096, 5120, 7168, 8192):
        for tokens in (1, 2, 3, 7, 16, 64, 257, 1024, 2048):
            for one_shot in (True, False):
                if not one_shot and tokens <= size:
                    continue
                consumer = Consumer(f"h{hidden}", hidden, tokens, one_shot=one_shot)
                calls += 1
                try:
                    check = _one(workspace, consumer, tokens, torch.device("cuda", torch.cuda.current_device()), until, seed=calls)
                    worst = max(worst, check.error / check.limit)
                except WrongNumbersError as error:
                    failed.append(str(error))
    total = torch.tensor([len(failed)], device="cuda")
    if str(dist.get_backend()) == "gloo":
        total = total.cpu()
    dist.all_reduce(total)
    return calls, round(worst, 3), failed


class Decoder:
    """A small decoder with random weights, tensor-parallel over two ranks, with a key-value cache; one token a step.

    `reduce(partial, residual, weight)` is the fused or the unfused all-reduce + residual add + RMSNorm."""

    def __init__(self, rank_in_group: int, layers: range, dtype: Any, hidden: int = 1024, heads: int = 8, vocabulary: int = 512, steps: int = 128) -> None:
        import torch

        self.hidden, self.heads, self.steps, self.layers = hidden, heads // 2, steps, layers
        self.width = hidden // heads

        def weights(seed: int, rows: int, columns: int, split: int | None = None) -> Any:
            whole = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) / rows**0.5
            part = whole if split is None else whole.chunk(2, dim=split)[rank_in_group]
            return part.contiguous().to(dtype).cuda()

        self.embedding = (weights(1, vocabulary, hidden) * vocabulary**0.5).contiguous()
        self.head = weights(2, hidden, vocabulary)
        self.norms = {key: torch.ones(hidden, dtype=dtype, device="cuda") for layer in range(16) for key in ((layer, "a"), (layer, "b"))}
        self.blocks = {}
        for layer in layers:
            base = 100 * (layer + 1)
            queries = [weights(base + part, hidden, hidden, 1) for part in range(3)]
            out, up, down = weights(base + 4, hidden, hidden, 0), weights(base + 5, hidden, 4 * hidden, 1), weights(base + 6, 4 * hidden, hidden, 0)
            self.blocks[layer] = (*queries, out, up, down)
        shape = (self.heads, steps, self.width)
        self.cache = {layer: (torch.zeros(shape, dtype=dtype, device="cuda"), torch.zeros(shape, dtype=dtype, device="cuda")) for layer in layers}
        self.position = torch.zeros(1, dtype=torch.long, device="cuda")
        self.token = torch.zeros(1, dtype=torch.long, device="cuda")
        self.out = torch.zeros(1, dtype=torch.long, device="cuda")
        self.state = torch.zeros(2, 1, hidden, dtype=dtype, device="cuda")

    def reset(self) -> None:
        for keys, values in self.cache.values():
            keys.zero_()
            values.zero_()
        for tensor in (self.position, self.token, self.out, self.state):
            tensor.zero_()

    def step(self, reduce: Any, first: bool, last: bool) -> None:
        """Reads `token` (first stage) or `state`, writes `out` (last stage) or `state`."""
        import torch

        if first:
            residual = self.embedding[self.token]
            x = torch.nn.functional.rms_norm(residual, (self.hidden,))
        else:
            x, residual = self.state[0], self.state[1]
        visible = torch.arange(self.steps, device="cuda") <= self.position
        for layer in self.layers:
            q, k, v, o, up, down = self.blocks[layer]
            keys, values = self.cache[layer]
            keys.index_copy_(1, self.position, (x @ k).view(1, self.heads, self.width).transpose(0, 1))
            values.index_copy_(1, self.position, (x @ v).view(1, self.heads, self.width).transpose(0, 1))
            scores = ((x @ q).view(self.heads, 1, self.width) @ keys.transpose(1, 2)).float() / self.width**0.5
            attention = torch.softmax(scores.masked_fill(~visible, float("-inf")), -1).to(x.dtype) @ values
            x, residual = reduce((attention.reshape(1, -1) @ o).contiguous(), residual, self.norms[layer, "a"])
            x, residual = reduce((torch.nn.functional.silu(x @ up) @ down).contiguous(), residual, self.norms[layer, "b"])
        if last:
            self.out.copy_((x @ self.head).argmax(-1))
        else:
            self.state.copy_(torch.stack([x, residual]))
        self.position.add_(1)


def reducers(workspace: Any, consumer: Any, group: Any) -> dict[str, Any]:
    import torch
    import torch.distributed as dist

    def fused(partial: Any, residual: Any, weight: Any) -> Any:
        return workspace.all_reduce_rms(partial, residual.contiguous(), weight, consumer)

    def unfused(partial: Any, residual: Any, weight: Any) -> Any:
        dist.all_reduce(partial, group=group)
        total = partial + residual
        return torch.nn.functional.rms_norm(total, (total.shape[-1],), weight, consumer.rms_eps), total

    return {"fused": fused, "unfused": unfused}


class Eager:
    """Replays by running: gloo, which stands in for NCCL where ranks share a GPU, cannot be captured."""

    def __init__(self, step: Any) -> None:
        self.replay = step


def captured(decoder: Decoder, reduce: Any, first: bool, last: bool, capturable: bool = True) -> Any:
    import torch

    if not capturable:
        decoder.step(reduce, first, last)
        decoder.reset()
        torch.cuda.synchronize()
        return Eager(lambda: decoder.step(reduce, first, last))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            decoder.step(reduce, first, last)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        decoder.step(reduce, first, last)
    decoder.reset()
    torch.cuda.synchronize()
    return graph


def finish(until: float, what: str) -> None:
    """Poll instead of synchronising: a spinning kernel must become a report, not a blocked process."""
    import torch

    event = torch.cuda.Event()
    event.record()
    while not event.query():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} never finished")
        time.sleep(0.0005)


def settle_pairs(dtype: str, group: Any, report: dict[str, Any]) -> tuple[Any, Any]:
    from policy.runtime import Consumer, Deadline, Decision, settle

    consumer = Consumer("target", 1024, 64, dtype=dtype, norm_weight_dtype=dtype, one_shot=True)
    settled = settle(Decision(f"gpu-{dtype}"), [consumer], group, deadline=Deadline(60))
    told(settled, report)
    return settled, consumer


def groups(case: dict[str, Any], report: dict[str, Any], save: Any) -> None:
    """Two replicas of TP 2 in one gloo WORLD, captured, 100 steps, fused and unfused: the tokens must be the same."""
    import torch

    rank, world = start_world("gloo")
    group = pairs(world)
    for dtype, steps in (("float32", 100), ("bfloat16", 100)):
        settled, consumer = settle_pairs(dtype, group, report)
        report[f"outcome_{dtype}"] = settled.outcome.word
        save()
        if settled.workspace is None:
            continue
        decoder = Decoder(rank % 2, range(4), getattr(torch, dtype))
        decoder.token.fill_(rank // 2)
        tokens: dict[str, list[int]] = {}
        for name, reduce in reducers(settled.workspace, consumer, group).items():
            graph = captured(decoder, reduce, True, True, capturable=name == "fused" or torch.cuda.device_count() >= 2)
            decoder.token.fill_(7 + rank // 2)
            tokens[name], until = [], time.monotonic() + 25
            for step in range(steps):
                graph.replay()
                finish(until, f"{name} step {step}")
                if name == "unfused" and dtype == "bfloat16":  # compared step by step on the same inputs: rounding must not compound
                    tokens[name].append(int(decoder.out))
                    decoder.token.fill_(tokens["fused"][step])
                else:
                    tokens[name].append(int(decoder.out))
                    decoder.token.copy_(decoder.out)
        same = sum(a == b for a, b in zip(tokens["fused"], tokens["unfused"], strict=True))
        report["tokens_equal" if dtype == "float32" else "tokens_equal_bf16"] = f"{same}/{steps}"
        report[f"distinct_{dtype}"] = len(set(tokens["fused"]))
        save()


def pipeline(case: dict[str, Any], report: dict[str, Any], save: Any) -> None:
    """Two stages of TP 2 in one gloo WORLD; the hidden state travels over gloo between the captured stages."""
    import torch
    import torch.distributed as dist

    rank, world = start_world("gloo")
    group = pairs(world)
    settled, consumer = settle_pairs("float32", group, report)
    save()
    if settled.workspace is None:
        return
    stage = rank // 2
    decoder = Decoder(rank % 2, range(2) if stage == 0 else range(2, 4), torch.float32)
    tokens: dict[str, list[int]] = {}
    for name, reduce in reducers(settled.workspace, consumer, group).items():
        graph = captured(decoder, reduce, stage == 0, stage == 1, capturable=name == "fused" or torch.cuda.device_count() >= 2)
        decoder.token.fill_(7)
        tokens[name], until = [], time.monotonic() + 30
        for step in range(100):
            if stage == 1:
                arrived = torch.empty(2, 1, decoder.hidden)
                dist.recv(arrived, src=rank - 2)
                decoder.state.copy_(arrived)
            graph.replay()
            finish(until, f"{name} step {step}")
            if stage == 0:
                dist.send(decoder.state.cpu(), dst=rank + 2)
                token = torch.empty(1, dtype=torch.long)
                dist.recv(token, src=rank + 2)
                decoder.token.copy_(token)
            else:
                dist.send(decoder.out.cpu(), dst=rank - 2)
            tokens[name].append(int(decoder.out if stage else decoder.token))
    same = sum(a == b for a, b in zip(tokens["fused"], tokens["unfused"], strict=True))
    report["tokens_equal"] = f"{same}/100"
    report["distinct"] = len(set(tokens["fused"]))


def memory(case: dict[str, Any], report: dict[str, Any], save: Any) -> None:
    """Rank 1 has no memory left for the workspace: both ranks must come out unfused."""
    import torch

    from policy.runtime import Consumer, Deadline, Decision, settle

    rank, _ = start_world("cpu:gloo,cuda:nccl" if torch.cuda.device_count() >= 2 else "gloo")
    if rank == 1:
        held = torch.empty(torch.cuda.mem_get_info()[0] - (400 << 20), dtype=torch.uint8, device="cuda")
        report["held_mib"] = held.numel() >> 20
    settled = settle(Decision("gpu-memory"), [Consumer("target", 8192, 8192, one_shot=True)], deadline=Deadline(40))
    told(settled, report)


def refused(case: dict[str, Any], report: dict[str, Any], save: Any) -> None:
    """The adapter asked to build unscoped in a WORLD of two groups."""
    from policy.runtime import Consumer, Deadline, Decision, WorkspacePlan, settle

    _, world = start_world("gloo")
    group = pairs(world)
    scope = {"scope": "world", "passes": ()} if case["release"] >= "0.6.15" else {"passes": ("comm_backend",)}
    settled = settle(Decision("gpu-unscoped", plan=WorkspacePlan(**scope)), [Consumer("target", 4096, 256, one_shot=True)], group, deadline=Deadline(30))
    told(settled, report)


def past(case: dict[str, Any], report: dict[str, Any], save: Any) -> None:
    """What the adapter prevents, done by hand: a workspace for two ranks that nothing scopes, in a WORLD of four."""
    import torch
    import torch.distributed as dist

    rank, world = start_world("gloo", seconds=20)
    group = pairs(world)
    warm = torch.ones(1, device="cuda")
    dist.all_reduce(warm, group=group)
    if rank not in case["callers"]:
        report["seen"] = "does not call"
        save()
        time.sleep(25)
        return
    import flashinfer.comm as comm

    begun = time.monotonic()
    report["seen"] = "never came back from creation"
    save()
    try:
        unscoped = {"comm_backend": torch_backend(group)} if case["release"] < "0.6.15" else {}
        shape = {"world_size": 2, "rank": rank % 2, "max_token_num": 256, "hidden_dim": 4096, "dtype": torch.bfloat16}
        workspace = comm.create_allreduce_fusion_workspace(backend="trtllm", **shape, **unscoped)
    except Exception as error:
        report["seen"] = f"{type(error).__name__} after {time.monotonic() - begun:.0f} s"
        return
    report["seen"] = "created, then a kernel never finished"
    report["span"] = [getattr(handle, "world_size", None) for handle in workspace.mem_handles][:1]
    save()
    worst = 0.0
    for call in range(5):
        x = torch.randn(64, 4096, generator=torch.Generator().manual_seed(100 * call + rank)).bfloat16().cuda()
        residual, weight, out, new = torch.zeros_like(x), torch.ones(4096, dtype=x.dtype, device="cuda"), torch.empty_like(x), torch.empty_like(x)
        tensors = {"input": x, "residual_in": residual, "residual_out": new, "norm_out": out, "rms_gamma": weight}
        comm.allreduce_fusion(workspace=workspace, pattern=comm.AllReduceFusionPattern.kARResidualRMSNorm, use_oneshot=True, **tensors)
        finish(time.monotonic() + 12, "the kernel")
        other = torch.randn(64, 4096, generator=torch.Generator().manual_seed(100 * call + (rank ^ 1))).bfloat16().cuda()
        total = x.float() + other.float()
        worst = max(worst, float((out.float() - total * torch.rsqrt(total.square().mean(-1, keepdim=True) + 1e-6)).abs().max()))
    report["seen"] = f"right (error {worst:.2g})" if worst < 0.1 else f"wrong numbers (error {worst:.2g})"


def torch_backend(group: Any) -> Any:
    from flashinfer.comm.mnnvl import TorchDistBackend

    return TorchDistBackend(group=group)


PART_FUNCTIONS = {"agree": agree, "groups": groups, "pipeline": pipeline, "memory": memory, "refused": refused, "past": past}

if __name__ == "__main__":
    sys.exit(main())
