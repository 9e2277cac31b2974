"""`policy audit FILE…`: many launches at once, what is dangerous and what is missed, for people and for other programs."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from policy import __version__
from policy.commands import common
from policy.findings import KINDS, Reported, as_github, as_junit, as_sarif, reported
from policy.launchers.found import OF_A_RELEASE
from policy.launchers.inputs import contradictions, launches
from policy.launchers.read import ReadLaunch
from policy.pack import Pack, did_you_mean
from policy.problems import PolicyError, UsageError
from policy.records import dataclass, field, replace
from policy.waivers import Waiver, find_waivers

EXAMPLE = "policy audit deploy/ --device h200-sxm8 --fail-on hazard,lost-setting"
#: Files of a folder that are looked at; a page in it is not, since it tells of launches and is none.
SUFFIXES = (".yaml", ".yml", ".json", ".sh", ".bash", ".slurm", ".sbatch", ".jsonl", ".log", ".service", ".container", "Dockerfile", "Containerfile")
PREFIXES = ("Dockerfile.", "Containerfile.")
FORMATS = ("text", "json", "sarif", "github", "junit", "markdown")
#: What fails where nothing else is said.
FAILING = "hazard,conflict,refused"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy audit`."""
    parser.add_argument("files", nargs="*", metavar="FILE|DIR", help="files that hold launches; folders are searched for YAML, JSON, shell and log files")
    common.add_inputs(parser)
    common.add_decision(parser, FAILING)
    common.add_pack(parser)
    parser.set_defaults(posture="audit")
    parser.add_argument("--format", choices=FORMATS, default="text")
    parser.add_argument("--allow-empty", action="store_true", help="a file that is named and holds no launch is no problem")
    parser.add_argument("-v", "--verbose", action="store_true", help="also list every undetermined launch, and the files that hold none")


@dataclass(slots=True)
class Audit:
    """What was found: launches by their labels, findings, files that could not be read, files without a launch, files whose
    launches cannot be as the options say, and the states of required fusions."""

    launches: list[str] = field(default_factory=list)
    findings: list[Reported] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    required: set[str] = field(default_factory=set)


def run(options: argparse.Namespace) -> int:
    """Report every finding; the exit code follows `--fail-on` (default: hazard, conflict, refused), waivers taken out."""
    if options.launch and options.files:
        raise UsageError("audit takes files, or one command after `--`", "call it once for each")
    failing = common.wanted_kinds(options)
    pack = common.load(options)
    common.stated_facts(pack, options)
    missing = next((name for name in options.files if name != "-" and not os.path.lexists(name)), None)
    if missing is not None:
        raise UsageError(f"there is no file `{missing}`", "look at the path")
    audit = _read(pack, options)
    audit.findings = _waived(audit.findings, list(_files(options.files)), pack)
    shown = [one for one in audit.findings if one.kind != "undetermined" or options.verbose or "undetermined" in failing]
    _print(options.format, audit, shown, failing, pack)
    for line in (*dict.fromkeys(audit.undecided), *audit.unread, *(audit.empty if options.verbose else ())):
        print(line, file=sys.stderr)
    if audit.empty and not options.verbose:
        print(f"{len(audit.empty)} file{'s hold' if len(audit.empty) > 1 else ' holds'} no launch that is known (-v lists them)", file=sys.stderr)
    if audit.undecided:
        return common.USAGE
    if any(one.kind in failing and not one.waived for one in audit.findings):
        return common.FINDING
    return common.of_required(audit.required)


def _read(pack: Pack, options: argparse.Namespace) -> Audit:
    """Every launch of every file. A file that is named and cannot be read is a problem; one of a folder is counted."""
    audit = Audit()
    files = list(_files(options.files))
    progress = len(files) > 20 and sys.stderr.isatty()
    for number, name in enumerate(files or [None] if not options.files else files):
        if progress:
            print(f"\r{number + 1}/{len(files)}", end="", file=sys.stderr, flush=True)
        try:
            read = launches(pack, common.request(options, [name] if name else []), common.stated_facts(pack, options))
        except PolicyError as error:
            if name is None or (options.files == [name] and not options.allow_empty):
                raise
            target = audit.unread if name in options.files and not options.allow_empty else audit.empty
            target.append("\n".join(problem.render() for problem in error.problems))
            continue
        impossible = list(contradictions(pack, read))
        if impossible:
            audit.undecided.extend(f"{name or 'command'}: {problem.render()}" for problem in impossible)
            continue
        for position, one in enumerate(read):
            label = _label(one, name, position, len(read))
            audit.launches.append(label)
            audit.findings.extend(_about(pack, one, options, label, name, audit.required))
    if progress:
        print("\r\033[K", end="", file=sys.stderr)
    return audit


def _about(pack: Pack, read: ReadLaunch, options: argparse.Namespace, label: str, name: str | None, required: set[str]) -> Iterator[Reported]:
    """The findings of one launch; remarks that depend on the release say nothing where that is not known."""
    assumed = read.settings is not None and read.settings.version is None
    verdict = common.decided(pack, read, options, None)
    required.update(decision.state for decision in verdict.decisions if decision.fusion in options.require)
    for one in reported(verdict, label, _place(read, name)):
        if not (assumed and one.kind == "warning" and one.id in OF_A_RELEASE):
            yield one


def _files(names: Sequence[str]) -> Iterator[str]:
    """The files of the names, folders searched without what is hidden in them."""
    for name in names:
        if not name or not Path(name).is_dir():
            yield name
            continue
        for folder, inner, files in os.walk(name):
            inner[:] = sorted(one for one in inner if not one.startswith(".") and one not in ("node_modules", "__pycache__"))
            wanted = [file for file in sorted(files) if (file.endswith(SUFFIXES) or file.startswith(PREFIXES)) and not file.startswith(".")]
            yield from (os.path.join(folder, file) for file in wanted)


def _label(read: ReadLaunch, name: str | None, position: int, count: int) -> str:
    own = read.found.name if read.found else ""
    if name is None:
        return own or "command"
    return f"{name}: {own}" if own else name if count == 1 else f"{name}: launch {position + 1}"


def _place(read: ReadLaunch, name: str | None) -> tuple[str, int]:
    words = read.found.words if read.found else ()
    line = next((word.origin.line for word in words if word.origin.line), 1)
    return (name, line) if name and name != "-" else ("", 0)


# --- waivers ---


def _waived(findings: Sequence[Reported], files: Sequence[str], pack: Pack) -> list[Reported]:
    """The findings, those marked that the nearest waivers of their file accept today; waivers that are over or name nothing."""
    today = datetime.date.today()
    folders: dict[str, list[Waiver]] = {}

    def nearest(file: str) -> list[Waiver]:
        folder = os.path.dirname(file) or "."
        if folder not in folders:
            folders[folder] = find_waivers(Path(folder))
        return folders[folder]

    for file in files or [""]:
        nearest(file)
    marked = [replace(one, waived=any(waiver.id == one.id and not waiver.expired(today) for waiver in nearest(one.file))) for one in findings]
    ids = {one.id for one in findings} | set(pack.rules)
    for waiver in dict.fromkeys(waiver for waivers in folders.values() for waiver in waivers):
        if waiver.expired(today):
            message = f"the waiver of {waiver.id} ran out on {waiver.until}: {waiver.reason}"
            marked.append(Reported("warning", "expired-waiver", message, "", waiver.file, waiver.line))
        elif waiver.id not in ids:
            near = did_you_mean(waiver.id, ids)
            message = f"the waiver names `{waiver.id}`, which was not found and is no rule{'; ' + near if near else ''}"
            marked.append(Reported("warning", "unknown-waiver", message, "", waiver.file, waiver.line))
    return marked


# --- what is printed ---


def _print(kind: str, audit: Audit, shown: Sequence[Reported], failing: set[str], pack: Pack) -> None:
    if kind == "sarif":
        sys.stdout.write(as_sarif(shown, pack, __version__))
    elif kind == "github":
        sys.stdout.write(as_github(shown))
    elif kind == "junit":
        sys.stdout.write(as_junit(shown, audit.launches, failing))
    elif kind == "json":
        json.dump({"schema_version": 1, "launches": len(audit.launches), "findings": [_as_json(one) for one in audit.findings]}, sys.stdout, indent=1)
        print()
    elif kind == "markdown":
        print("\n".join(_markdown(audit, shown)))
    else:
        for one in shown:
            place = f"{one.file}:{one.line}: " if one.file else f"{one.launch}: " if one.launch else ""
            print(f"{place}{one.kind}{' (waived)' if one.waived else ''}: {one.message}")
        print("\n".join(_summary(audit)))


def _as_json(one: Reported) -> dict[str, object]:
    names = ("kind", "id", "message", "launch", "file", "line", "fusion", "waived")
    return {name: getattr(one, name) for name in names}


def _markdown(audit: Audit, shown: Sequence[Reported]) -> Iterator[str]:
    yield from _summary(audit)
    if shown:
        yield from ("", "| kind | launch | finding |", "|---|---|---|")
    for one in shown:
        cells = (f"{one.kind}{' (waived)' if one.waived else ''}", one.launch or one.file, one.message)
        yield f"| {' | '.join(cell.replace('|', '&#124;').replace('<', '&lt;') for cell in cells)} |"


def _summary(audit: Audit) -> Iterator[str]:
    """One line of counts, and one that says what would decide the undetermined launches."""
    counts = Counter(one.kind for one in audit.findings if not one.waived)
    words = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]) or "nothing found"
    waived = sum(one.waived for one in audit.findings)
    yield f"{len(audit.launches)} launch{'es' if len(audit.launches) != 1 else ''}: {words}" + (f"; {waived} waived" if waived else "")
    facts = Counter(name for one in audit.findings for name in one.wants)
    if facts:
        names = ", ".join(f"{name} ({count})" for name, count in facts.most_common(6))
        yield f"undetermined for want of {names}; give them with --set, --device or --facts"
