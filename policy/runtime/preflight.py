"""`python -m policy.runtime.preflight`: agree, build, verify and time on the machine at hand, in throw-away processes.

Under torchrun every process is a rank; alone it starts one process a visible GPU. Text for a person; with
`--format json` a report whose `facts` any `policy` command reads with `--facts`. Exit codes: 0 with an outcome (`unfused`
is one), 1 where `--require-fused` is not met, 2 for bad usage, 75 where the processes must be started again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from policy.runtime.library import installed, tool_at_hand
from policy.runtime.machine import RENDEZVOUS, Machine, package_versions, probe_machine
from policy.runtime.plan import EXIT_RESTART, FUSED, HOW_TO_STORE, RESTART, Consumer, Deadline, Decision, RuntimeRequestError
from policy.runtime.settle import Settled, settle

SCHEMA_VERSION = 1
PARENT = "FUSION_POLICY_PREFLIGHT_PARENT"
PACKAGES = ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache")


def parser() -> argparse.ArgumentParser:
    """The options of the module as a program."""
    made = argparse.ArgumentParser(prog="python -m policy.runtime.preflight", description=(__doc__ or "").split("\n")[0])
    add_options(made)
    return made


def add_options(made: argparse.ArgumentParser) -> None:
    """The options; shapes describe the largest call the engine will make."""
    made.add_argument("--decision", type=Path, help=f"a stored decision (`{HOW_TO_STORE}`); without it: FlashInfer trtllm, scoped to the group")
    made.add_argument("--hidden-size", type=int, default=8192, help="elements (default 8192)")
    made.add_argument("--max-tokens", type=int, default=2048, help="tokens of the largest call (default 2048)")
    made.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16")
    made.add_argument("--norm-weight-dtype", choices=("bfloat16", "float16", "float32"), help="default: the dtype")
    made.add_argument("--one-shot", choices=("auto", "on", "off"), default="auto")
    made.add_argument("--launch-with-pdl", action="store_true")
    made.add_argument("--tensor-parallel-size", type=int, help="ranks that share a workspace (default: all)")
    made.add_argument("--processes", type=int, help="ranks to start when not under torchrun (default: one a visible GPU)")
    made.add_argument("--deadline", type=float, default=120.0, help="seconds to an outcome (default 120; compiling kernels takes minutes)")
    made.add_argument("--no-timing", action="store_true", help="skip the timing table")
    made.add_argument("--format", choices=("text", "json"), default="text")
    made.add_argument("--output", type=Path, help="write there instead of the standard output")
    made.add_argument("--require-fused", action="store_true", help="exit with 1 where the outcome is not fused")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as a rank where torchrun says so, else start the ranks."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return run(parser().parse_args(words), words)


def run(options: argparse.Namespace, words: Sequence[str]) -> int:
    """The preflight with these options; `words` are what they were read from, for the ranks that are started."""
    try:
        import torch.distributed  # noqa: F401
    except ImportError:
        print("torch is not installed here; install `fusion-policy[runtime]` or run this where the engine runs", file=sys.stderr)
        return 2
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return run_rank(options)
    try:
        if options.decision is not None:
            stored(options.decision)
    except RuntimeRequestError as error:
        print(f"preflight: {error}", file=sys.stderr)
        return 2
    return start_ranks(options, list(words))


def start_ranks(options: argparse.Namespace, arguments: list[str]) -> int:
    """The same command under torchrun's module, one process a visible GPU (one at least)."""
    count = options.processes or max(probe_machine().visible_devices, 1)
    with_ranks = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m", "policy.runtime.preflight", *arguments]
    environment = {**os.environ, PARENT: "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    done = subprocess.run(with_ranks, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    lines = done.stderr.splitlines()
    marked = [line for line in lines if line.startswith("preflight exit ")]
    # where a rank said how it ended, what the launcher of the ranks says of it is noise
    told = [line for line in lines if line.startswith("preflight: ")] if marked else lines
    sys.stderr.write("".join(line + "\n" for line in told))
    return int(marked[-1].split()[-1]) if marked else done.returncode


def run_rank(options: argparse.Namespace) -> int:
    """One rank of the preflight."""
    import torch
    import torch.distributed as dist

    RENDEZVOUS.install()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    gpus = torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(local % gpus)
    own_device = gpus >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    backend = "cpu:gloo,cuda:nccl" if gpus and own_device else "gloo"  # NCCL refuses two ranks of a group on one GPU
    dist.init_process_group(backend, timeout=timedelta(seconds=max(options.deadline, 30)))
    try:
        decision, consumer, group = asked(options)
    except RuntimeRequestError as error:
        if dist.get_rank() == 0:
            print(f"preflight: {error}", file=sys.stderr)
        return _end(2)
    machine, library = probe_machine(), installed(decision.plan.library if decision.plan else "flashinfer")
    settled = settle(decision, [consumer], group, deadline=Deadline(options.deadline), machine=machine, library=library)
    timings: list[dict[str, Any]] = []
    if settled.outcome.word == FUSED and not options.no_timing:
        from policy.runtime.timing import table

        timings = table(settled.workspace, consumer, settled.workspace.group)
    if dist.get_rank() == 0:
        report(options, settled, timings, machine)
    code = EXIT_RESTART if settled.outcome.word == RESTART else int(options.require_fused and settled.outcome.word != FUSED)
    if settled.outcome.word == RESTART:
        _end(code)
    if settled.workspace is not None:
        settled.workspace.graphs_are_gone()
        settled.workspace.teardown()
    dist.barrier()
    dist.destroy_process_group()
    return _end(code)


def _end(code: int) -> int:
    if os.environ.get("RANK") == "0" and PARENT in os.environ:  # torchrun replaces exit codes by its own
        print(f"preflight exit {code}", file=sys.stderr)
    if code == EXIT_RESTART:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def stored(file: Path) -> Decision:
    """The decision in a file. Raises RuntimeRequestError where it holds none."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RuntimeRequestError(f"`{file}` cannot be read as a stored decision: {error}") from None
    return Decision.from_json(document)


def asked(options: argparse.Namespace) -> tuple[Decision, Consumer, Any]:
    """The decision, the shape and the group of this rank. Raises RuntimeRequestError for what cannot be."""
    import torch.distributed as dist

    decision = Decision(digest="preflight")
    if options.decision is not None:
        decision = stored(options.decision)
    one_shot = {"auto": None, "on": True, "off": False}[options.one_shot]
    weights = options.norm_weight_dtype or options.dtype
    consumer = Consumer("target", options.hidden_size, options.max_tokens, options.dtype, weights, one_shot, options.launch_with_pdl)
    world, size = dist.get_world_size(), options.tensor_parallel_size or dist.get_world_size()
    if size < 1 or world % size:
        raise RuntimeRequestError(f"{world} ranks cannot be divided into groups of `{size}`; give a divisor with --tensor-parallel-size")
    group = None
    for first in range(0, world, size):
        created = dist.new_group(list(range(first, first + size))) if size != world else None
        if first <= dist.get_rank() < first + size:
            group = created
    return decision, consumer, group


def known_facts(machine: Machine) -> dict[str, Any]:
    """What was found out about this machine, by the fact names of the pack; a fact that could not be asked is left out."""
    facts: dict[str, Any] = {f"packages.{name}": version for name, version in package_versions(PACKAGES).items()}
    facts |= {"device.platform": machine.platform, "engine.nvcc": tool_at_hand("nvcc"), "engine.ninja": tool_at_hand("ninja")}
    if machine.capability is not None:
        facts |= {"device.compute_capability": machine.capability_text, "device.gpus_per_node": machine.visible_devices, "device.name": machine.device_name}
    if machine.p2p is not None:
        facts["device.p2p"] = machine.p2p
    return facts


def report(options: argparse.Namespace, settled: Settled, timings: list[dict[str, Any]], machine: Machine) -> None:
    """Rank 0 says what came of it, as text or JSON."""
    document = {
        "schema_version": SCHEMA_VERSION,
        **settled.outcome.to_json(),
        "facts": known_facts(machine),
        "timings": timings,
        "checks": [asdict(each) for each in settled.checks],
        "diagnosis": None if settled.diagnosis is None else str(settled.diagnosis),
    }
    text = json.dumps(document, indent=1) + "\n" if options.format == "json" else as_text(document)
    if options.output is not None:
        options.output.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def as_text(document: dict[str, Any]) -> str:
    """The report for a person: outcome, reason, cost, checks, times."""
    reason = document["reason"]
    who = "" if reason["rank"] is None else f"rank {reason['rank']}, "
    lines = [f"{document['outcome']}: {reason['text']}", f"  {who}{reason['phase']}, {reason['fact']}"]
    lines += [f"  also: {detail}" for detail in document["details"]]
    lines.append("  seconds: " + ", ".join(f"{name} {value:.2f}" for name, value in document["seconds"].items()))
    if document["checks"]:
        worst = max(document["checks"], key=lambda check: check["error"] / check["limit"])
        lines.append(f"  {len(document['checks'])} fused calls verified; largest error {worst['error']:.3g} of {worst['limit']:.3g} allowed")
    if document["diagnosis"]:
        lines += ["", document["diagnosis"]]
    if document["timings"]:
        lines += ["", "  tokens   fused us   unfused us   faster"]
        for row in document["timings"]:
            fused, unfused = row["fused_us"], row["unfused_us"]
            lines.append(f"  {row['tokens']:6d} {fused:10.1f} {unfused:12.1f} {unfused / fused:7.2f}x")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
