"""`policy docs`: write the pages about a pack."""

from __future__ import annotations

import argparse
from pathlib import Path

from policy.commands import common

EXAMPLE = "policy docs --out docs"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy docs`."""
    parser.add_argument("--out", metavar="DIR", default="docs", help="the folder to write to; pages of rules that are gone are removed (default: %(default)s)")
    common.add_pack(parser)


def run(options: argparse.Namespace) -> int:
    """Write every page."""
    from policy.pages import pages

    root = Path(options.out)
    made = pages(common.load(options, compiled=False))
    for folder in {Path(path).parts[0] for path in made if "/" in path}:
        for old in (root / folder).rglob("*.md"):
            if old.relative_to(root).as_posix() not in made:
                old.unlink()
    for path, text in made.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    print(f"{len(made)} pages in {root}")
    return common.OK
