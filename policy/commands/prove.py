"""`policy prove`: invariants proved for all launches, or refuted by a launch."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from policy.analyse.invariants import read_invariants
from policy.analyse.prove import PROVED, REFUTED, SECONDS, prove, render
from policy.commands import common
from policy.commands.long_work import long_work
from policy.problems import UsageError

EXAMPLE = "policy prove"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy prove`."""
    parser.add_argument("file", nargs="?", help="invariants as YAML (default: those that come with the pack)")
    parser.add_argument("--only", metavar="ID", action="append", default=[], help="only this invariant")
    parser.add_argument("--traits", choices=("tabulated", "probed"), default="tabulated", help="traits as the tables say, or free, as a probe might find them")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds for one invariant (default: %(default)s)")
    parser.add_argument("--witness", metavar="FILE", help="write the launch that refutes as a facts file")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    common.add_pack(parser)


def run(options: argparse.Namespace) -> int:
    """Exit 0 where all are proved, 1 where one is refuted, 3 where one is undecided."""
    pack = common.load(options, compiled=False)
    invariants = read_invariants(pack, options.file)
    if options.only:
        unknown = sorted(set(options.only) - {one.id for one in invariants})
        if unknown:
            raise UsageError(f"no invariant is named `{unknown[0]}`", f"invariants: {', '.join(one.id for one in invariants)}", "--only")
        invariants = [one for one in invariants if one.id in options.only]
    with long_work() as progress:
        proofs = prove(pack, invariants, options.traits, options.seconds, progress=progress)
    if options.format == "json":
        json.dump({"schema_version": 1, "pack": pack.digest, "proofs": [proof.as_json() for proof in proofs]}, sys.stdout, indent=1, default=str)
        print()
    else:
        sys.stdout.write(render(proofs).rstrip() + "\n")
    refuted = next((proof.refutation for proof in proofs if proof.refutation is not None), None)
    if options.witness and refuted is not None:
        Path(options.witness).write_text(json.dumps(dict(refuted.facts), indent=1, default=str) + "\n", encoding="utf-8")
    if any(proof.status == REFUTED for proof in proofs):
        return common.FINDING
    return common.OK if all(proof.status == PROVED for proof in proofs) else common.UNDECIDED
