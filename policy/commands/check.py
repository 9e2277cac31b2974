"""`policy check`: load a pack, look for mistakes in it, and run the cases of its rules."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from policy.analyse.report import PackReport, render
from policy.commands import common
from policy.commands.long_work import long_work
from policy.pack import Pack
from policy.private_packs import joined
from policy.problems import UsageError

EXAMPLE = "policy check rules"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy check`."""
    parser.add_argument("folder", nargs="?", metavar="DIR", help="the pack's folder (default: the pack that comes with the package)")
    parser.add_argument("--quick", action="store_true", help="only load it, look for plain mistakes and run the cases; prove nothing")
    parser.add_argument("--gaps", action="store_true", help="also list releases and traits that nobody read")
    parser.add_argument("--compile", metavar="FILE", nargs="?", const="", help="write the compiled form of the pack (default: beside the package)")
    parser.add_argument("--add-pack", metavar="DIR", action="append", default=[], help="check a pack of your own together with it; may be repeated")
    parser.set_defaults(pack=None)


def run(options: argparse.Namespace) -> int:
    """Report every mistake; exit 1 where there is one, 2 where the pack cannot be loaded."""
    with long_work():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    from policy.check import check
    from policy.compiled import compiled_text, shipped_file
    from policy.load import YamlSource, be_folder, build_checked, default_folder, digest_of, pack_files, read_sources

    root = Path(options.folder) if options.folder else default_folder()
    be_folder(root)
    if options.add_pack:
        if options.compile is not None:
            raise UsageError("only a pack by itself is compiled", "leave `--add-pack` out", "--compile")
        pack, held = joined(root, [Path(one) for one in options.add_pack], compiled=False)
        sources = [source for source in held if isinstance(source, YamlSource)]
    else:
        files = pack_files(root)
        sources = read_sources(root, files)
        pack = build_checked(sources, digest_of(root, files), root)
    report = check(pack, sources)
    deep = None if options.quick or report.problems else _deep(pack)
    problems = [*report.problems, *(deep.problems(pack) if deep is not None else [])]
    for problem in problems:
        print(problem.render(), file=sys.stderr)
    if options.compile is not None:
        target = Path(options.compile) if options.compile else shipped_file()
        target.write_text(compiled_text(sources, pack), encoding="utf-8")
        print(f"compiled: {target}", file=sys.stderr)
    if deep is not None:
        for line in render(deep, 20 if options.gaps else 0).splitlines():
            print(line)
    counts = f"{len(pack.rules)} rules, {len(pack.fusions)} fusions, {len(pack.facts)} facts, {report.cases} cases, {len(problems)} problems"
    print(f"{pack.name} {pack.version} ({pack.digest}): {counts}")
    return common.FINDING if problems else common.OK


def _deep(pack: Pack) -> PackReport:
    from policy.analyse.report import report

    return report(pack)
