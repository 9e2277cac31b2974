"""`policy explain`: what is decided for a launch, and why."""

from __future__ import annotations

import argparse
import json
import sys

from policy.commands import common
from policy.explain import as_markdown, as_text, quiet_line

EXAMPLE = "policy explain allreduce_rms -- vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 -pp 2"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy explain`."""
    parser.add_argument("words", nargs="*", metavar="FUSION|FILE", help="fusions to explain (all where left out), and files that hold launches")
    common.add_inputs(parser)
    common.add_decision(parser)
    common.add_pack(parser)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")
    parser.add_argument("-q", "--quiet", action="store_true", help="one line a decision: file:line:id<TAB>fusion=state")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every plan and every reason")


def run(options: argparse.Namespace) -> int:
    """Explain every launch of the input; the exit code is described in `policy --help`."""
    common.wanted_kinds(options)
    pack = common.load(options)
    fusions, files = common.split_words(pack, options.words)
    fusions = common.with_required(fusions, options, pack)
    read = common.read_inputs(pack, options, files)
    verdicts = []
    for one in read:
        verdict = common.decided(pack, one, options, fusions)
        for decision in verdict.decisions:
            if (fusions or options.format == "json") and not options.quiet:
                common.with_flips(pack, one, decision, options.strict)
        verdicts.append(verdict)
    if options.quiet:
        for verdict in verdicts:
            for decision in verdict.decisions:
                print(quiet_line(decision, pack))
    elif options.format == "json":
        data = [verdict.as_json() for verdict in verdicts]
        for named, one in zip(data, read, strict=True):
            if one.found is not None and one.found.name:
                named["name"] = one.found.name
        json.dump(data[0] if len(data) == 1 else data, sys.stdout, indent=1)
        print()
    else:
        for one, verdict in zip(read, verdicts, strict=True):
            if len(read) > 1:
                print(f"# {one.found.name if one.found else 'launch'}")
            if options.format == "markdown":
                sys.stdout.write(as_markdown(verdict, pack, options.verbose))
            else:
                sys.stdout.write(as_text(verdict, pack, bool(fusions), options.verbose, common.painter()))
    return common.ending(verdicts, options, pack)
