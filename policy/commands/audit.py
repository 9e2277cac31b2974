"""`policy audit FILE…`: many launches at once, what is dangerous and what is missed, for people and for other programs."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from policy import __version__
from policy.commands import common
from policy.findings import KINDS, Reported, as_github, as_junit, as_sarif, reported
from policy.launchers.read import ReadLaunch
from policy.problems import PolicyError
from policy.waivers import find_waivers, split

EXAMPLE = "policy audit deploy/ --device h200-sxm8 --fail-on hazard,lost-setting"
SUFFIXES = (".yaml", ".yml", ".sh", ".bash", ".slurm", ".sbatch", ".jsonl", ".log")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy audit`."""
    parser.add_argument("files", nargs="*", metavar="FILE|DIR", help="files that hold launches; folders are searched for YAML, shell, JSONL and log files")
    common.add_inputs(parser)
    common.add_decision(parser)
    common.add_pack(parser)
    parser.set_defaults(posture="audit")
    parser.add_argument("--format", choices=("text", "json", "sarif", "github", "junit", "markdown"), default="text")


def run(options: argparse.Namespace) -> int:
    """Report every finding; the exit code follows `--fail-on` (default: hazard, conflict, refused), waivers taken out."""
    if not options.fail_on:
        options.fail_on = "hazard,conflict,refused"
    failing = common.wanted_kinds(options)
    pack = common.load(options)
    findings: list[Reported] = []
    launches: list[str] = []
    unread: list[str] = []
    files = _files(options.files)
    for number, name in enumerate(files or [None]):
        if len(files) > 20 and sys.stderr.isatty():
            print(f"\r{number + 1}/{len(files)}", end="", file=sys.stderr, flush=True)
        try:
            read = common.read_inputs(pack, options, [name] if name else [])
        except PolicyError as error:
            if len(files) <= 1 and (name is None or name in options.files):
                raise
            unread.extend(problem.render() for problem in error.problems)
            continue
        for position, one in enumerate(read):
            label = _label(one, name, position, len(read))
            launches.append(label)
            findings.extend(reported(common.decided(pack, one, options, None), label, _place(one, name)))
    if len(files) > 20 and sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)
    waivers = find_waivers(Path(files[0]).parent if files else Path("."))
    waived, expired = split({one.id for one in findings}, waivers, datetime.date.today())
    findings = [replace(one, waived=one.id in waived) for one in findings]
    findings.extend(
        Reported("warning", "expired-waiver", f"the waiver of {waiver.id} ran out on {waiver.until}: {waiver.reason}", "", waiver.file, 1) for waiver in expired
    )
    _print(options.format, findings, launches, failing, pack)
    for line in unread:
        print(line, file=sys.stderr)
    if any(one.kind in failing and not one.waived for one in findings):
        return common.FINDING
    return common.OK


def _files(names: list[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        path = Path(name)
        found.extend(sorted(str(one) for one in path.rglob("*") if one.suffix in SUFFIXES and one.is_file()) if path.is_dir() else [name])
    return found


def _label(read: ReadLaunch, name: str | None, position: int, count: int) -> str:
    own = read.found.name if read.found else ""
    if name is None:
        return own or "command"
    return f"{name}: {own}" if own else name if count == 1 else f"{name}: launch {position + 1}"


def _place(read: ReadLaunch, name: str | None) -> tuple[str, int]:
    words = read.found.words if read.found else ()
    line = next((word.origin.line for word in words if word.origin.line), 1)
    return (name, line) if name and name != "-" else ("", 0)


def _print(kind: str, findings: list[Reported], launches: list[str], failing: set[str], pack: object) -> None:
    from policy.pack import Pack

    assert isinstance(pack, Pack)
    if kind == "sarif":
        sys.stdout.write(as_sarif(findings, pack, __version__))
    elif kind == "github":
        sys.stdout.write(as_github(findings))
    elif kind == "junit":
        sys.stdout.write(as_junit(findings, launches, failing))
    elif kind == "json":
        listed = [
            {
                "kind": one.kind,
                "id": one.id,
                "message": one.message,
                "launch": one.launch,
                "file": one.file,
                "line": one.line,
                "fusion": one.fusion,
                "waived": one.waived,
            }
            for one in findings
        ]
        json.dump({"schema_version": 1, "launches": len(launches), "findings": listed}, sys.stdout, indent=1)
        print()
    elif kind == "markdown":
        print(_summary(findings, launches) + "\n\n| kind | launch | finding |\n|---|---|---|")
        for one in findings:
            print(f"| {one.kind}{' (waived)' if one.waived else ''} | {one.launch} | {one.message} |".replace("<", "&lt;"))
    else:
        for one in findings:
            place = f"{one.file}:{one.line}: " if one.file else f"{one.launch}: " if one.launch else ""
            print(f"{place}{one.kind}{' (waived)' if one.waived else ''}: {one.message}")
        print(_summary(findings, launches))


def _summary(findings: list[Reported], launches: list[str]) -> str:
    counts = Counter(one.kind for one in findings if not one.waived)
    words = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]) or "nothing found"
    waived = sum(one.waived for one in findings)
    return f"{len(launches)} launch{'es' if len(launches) != 1 else ''}: {words}" + (f"; {waived} waived" if waived else "")
