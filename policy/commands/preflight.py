"""`policy preflight`: agree, build, verify and time on the machine at hand, in throw-away processes."""

from __future__ import annotations

import argparse
import sys

from policy.problems import UsageError
from policy.runtime import preflight

EXAMPLE = "policy preflight --tensor-parallel-size 2 --hidden-size 8192 --require-fused"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `python -m policy.runtime.preflight`."""
    preflight.add_options(parser)


def run(options: argparse.Namespace) -> int:
    """Start the ranks, or be one of them under torchrun."""
    if options.launch:
        raise UsageError("preflight takes no command", "give the shapes of its largest call: `policy preflight --help`")
    words = sys.argv[1:]
    return preflight.run(options, words[words.index("preflight") + 1 :])
