"""`policy why-not FUSION=on`: the smallest changes that would turn a fusion on, and nothing else."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from policy.analyse.flips import search
from policy.commands import common
from policy.evaluate import evaluate
from policy.explain import headline
from policy.pack import did_you_mean
from policy.problems import UsageError

EXAMPLE = "policy why-not allreduce_rms=on -- vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 -pp 2"
SECONDS = 5.0


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy why-not`."""
    parser.add_argument("words", nargs="+", metavar="FUSION=on|FILE", help="the fusion that should be on, and files that hold launches")
    common.add_inputs(parser)
    common.add_pack(parser)
    parser.add_argument("--posture", choices=("safe", "fast"), default="safe")
    parser.add_argument("--strict", action="store_true", help="assume nothing")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds for the search (default: %(default)s)")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(options: argparse.Namespace) -> int:
    """Print the changes, fewest and cheapest first; exit 0 where the fusion is on or can be, 1 where nothing helps."""
    pack = common.load(options)
    name, _, state = options.words[0].partition("=")
    if name not in pack.fusions:
        if name == "-" or Path(name).exists():
            raise UsageError("the fusion comes first", f"policy why-not FUSION=on {name}")
        common.split_words(pack, options.words)  # says what else it could have been
        raise UsageError(f"`{name}` is no fusion", did_you_mean(name, pack.fusions) or f"fusions: {', '.join(sorted(pack.fusions))}")
    if state not in ("", "on"):
        raise UsageError(f"`{options.words[0]}` asks for nothing that can be searched", f"write `{name}=on`")
    _, files = common.split_words(pack, options.words[1:])
    found_any, data = False, []
    for one in common.read_inputs(pack, options, files):
        decision = evaluate(pack, one.launch, options.posture, [name], options.strict)[name]
        found = search(pack, one.launch, name, options.posture, options.seconds, options.strict, decision)
        found_any = found_any or decision.state == "on" or bool(found.found)
        flips = [{"set": dict(flip.changes), "cost": flip.cost} for flip in found.found]
        data.append({"schema_version": 1, "fusion": name, "state": decision.state, "flips": flips, "complete": found.complete, "fixed": dict(found.fixed)})
        if options.format == "text":
            print(headline(decision))
            for flip in found.found:
                print(f"  {', '.join(f'{fact} {value}' for fact, value in flip.changes.items())}  ({flip.cost})")
            if not found.found and decision.state != "on":
                print("  nothing you can change" + (f": {', '.join(f'{fact} {value}' for fact, value in found.fixed.items())}" if found.fixed else ""))
            if not found.complete:
                print(f"  the search ended after {options.seconds:g} s of CPU time; there may be more")
    if options.format == "json":
        json.dump(data[0] if len(data) == 1 else data, sys.stdout, indent=1)
        print()
    return common.OK if found_any else common.FINDING
