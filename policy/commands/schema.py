"""`policy schema`: write the JSON Schemas, for editors and for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from policy.commands import common

EXAMPLE = "policy schema --out schemas"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy schema`."""
    parser.add_argument("--out", metavar="DIR", default="schemas", help="the folder to write to (default: %(default)s)")
    common.add_pack(parser)


def run(options: argparse.Namespace) -> int:
    """Write every schema."""
    from policy.schema import write

    for path in write(common.load(options, compiled=False), Path(options.out)):
        print(path)
    return common.OK
