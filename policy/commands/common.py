"""Options and endings that the commands share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from policy.decision import Decision, Verdict
from policy.evaluate import evaluate
from policy.explain import Paint, colour_paint, plain_paint, wants_colour
from policy.launch import Launch
from policy.launchers.found import LOST_KINDS
from policy.launchers.inputs import WRITTEN, Request, contradictions, launches, stated, with_notices
from policy.launchers.read import ReadLaunch, launch_in
from policy.pack import Pack, did_you_mean
from policy.private_packs import added_by_environment, read_packs
from policy.problems import LaunchError, UsageError

FAIL_ON = ("conflict", "hazard", "missed", "undetermined", "warning", "lost-setting", "refused")
OK, FINDING, USAGE, UNDECIDED = 0, 1, 2, 3


def add_pack(parser: argparse.ArgumentParser) -> None:
    """`--pack DIR` and `--add-pack DIR`."""
    parser.add_argument("--pack", metavar="DIR", help="use the pack in DIR instead of the one that comes with the package")
    parser.add_argument("--add-pack", metavar="DIR", action="append", default=[], help="add a pack of your own, whose rules can only narrow; may be repeated")


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """The options that say which launch is meant."""
    group = parser.add_argument_group("the launch", f"a command after `--`, as in `{WRITTEN}`, or what is read from files, and:")
    group.add_argument(
        "--facts",
        metavar="FILE",
        action="append",
        default=[],
        help="facts as YAML or JSON, or a report of `policy facts --format json`; `-` is the standard input",
    )
    group.add_argument("--set", metavar="FACT=VALUE", action="append", default=[], dest="assignments", help="state one fact; wins over everything else")
    group.add_argument("--device", metavar="NAME", help="take the device's facts from a profile (h200-sxm8, gb200-nvl72, …)")
    group.add_argument(
        "--probe",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="read this machine's packages and devices (default: only where the engine is installed here)",
    )


def add_decision(parser: argparse.ArgumentParser, fail_on: str = "none") -> None:
    """The options that shape a decision and its ending; `fail_on` is what fails where nothing else is said."""
    group = parser.add_argument_group("the decision")
    group.add_argument(
        "--posture",
        choices=("safe", "fast", "audit"),
        default="safe",
        help="safe: never wider than the engine; fast: on where able and wanted; audit: change nothing (default: %(default)s)",
    )
    group.add_argument("--strict", action="store_true", help="assume nothing")
    group.add_argument(
        "--fail-on",
        metavar="KIND,…",
        default=fail_on,
        help=f"exit 1 where a finding is of these kinds: {', '.join(FAIL_ON)}, or none (default: %(default)s)",
    )
    group.add_argument("--require", metavar="FUSION", action="append", default=[], help="exit 1 where this fusion is off, 3 where it is undetermined")


def load(options: argparse.Namespace, compiled: bool = True) -> Pack:
    """The pack the options name; `compiled=False` where every fact that a condition names has to be known."""
    return read_packs(options.pack, [*options.add_pack, *added_by_environment()], compiled)


def split_words(pack: Pack, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Leading words before `--` into fusions and files. Raises `UsageError` for a word that is neither."""
    fusions: list[str] = []
    files: list[str] = []
    for number, word in enumerate(words):
        if word == "all" or word in pack.fusions:
            fusions.append(word)
        elif word == "-" or (word and Path(word).exists()):
            files.append(word)
        else:
            if launch_in(words[number:]) is not None:
                raise UsageError("a launch is written after `--`", f"as in `-- {' '.join(words[number:])}`")
            no_file(word)
            bare = word.removeprefix("fuse_").removeprefix("enable_").replace("-", "_")
            near = f"did you mean `{bare}`?" if bare in pack.fusions else did_you_mean(word, pack.fusions)
            raise UsageError(f"`{word}` is neither a fusion nor a file", near or f"fusions: {', '.join(sorted(pack.fusions))}")
    return ([] if "all" in fusions else fusions), files


def no_file(word: str) -> None:
    """Raise `UsageError` for a word that looks like the path of a file that is not there."""
    if not word or "." in word or "/" in word:
        raise UsageError(f"there is no file `{word}`", f"look at the path; a launch is written after `--`, as in `{WRITTEN}`")


def with_required(fusions: Sequence[str], options: argparse.Namespace, pack: Pack) -> list[str]:
    """The fusions that are named, and those that `--require` asks about; none where all are meant."""
    return [*dict.fromkeys((*fusions, *(name for name in options.require if name in pack.fusions)))] if fusions else []


def read_inputs(pack: Pack, options: argparse.Namespace, files: Sequence[str]) -> list[ReadLaunch]:
    """The launches the options name; facts that contradict each other are refused."""
    read = launches(pack, request(options, files), stated_facts(pack, options))
    problems = list(contradictions(pack, read))
    if problems:
        raise LaunchError(problems)
    return read


def request(options: argparse.Namespace, files: Sequence[str] = ()) -> Request:
    """What the options that the commands share ask to be read."""
    return Request(list(options.launch), list(files), list(options.facts), list(options.assignments), options.device, options.probe)


def stated_facts(pack: Pack, options: argparse.Namespace) -> Launch:
    """The facts that the options state for every launch, read once. Raises `PolicyError` for what is wrong with an option,
    which is no defect of a file."""
    known_fusions(pack, getattr(options, "require", ()))
    if getattr(options, "stated", None) is None:
        options.stated = stated(pack, request(options))
    held: Launch = options.stated
    return held


def decided(pack: Pack, read: ReadLaunch, options: argparse.Namespace, fusions: Sequence[str] | None) -> Verdict:
    """The verdict about one launch, what the reading found included."""
    verdict = evaluate(pack, read.launch, options.posture, fusions or None, options.strict)
    verdict.launch = with_notices(verdict.launch, read)
    for decision in verdict.decisions:
        if decision.asked == "off":
            from policy.stale import stale_workaround

            stale = stale_workaround(pack, read.launch, decision, options.strict)
            if stale is not None:
                decision.warnings = (*decision.warnings, stale)
    return verdict


def kinds_of(verdict: Verdict) -> set[str]:
    """The kinds of `--fail-on` that a verdict holds."""
    kinds: set[str] = set()
    for decision in verdict.decisions:
        if decision.conflict:
            kinds.add("conflict")
        if decision.audit in ("hazard", "missed"):
            kinds.add(decision.audit)
        if decision.state == "undetermined":
            kinds.add("undetermined")
        if decision.warnings:
            kinds.add("warning")
    if verdict.launch.state == "refused":
        kinds.add("refused")
    if any(one.effect == "warn" for one in verdict.launch.findings):
        kinds.add("warning")
    if any(one.id in LOST_KINDS for one in verdict.launch.findings):
        kinds.add("lost-setting")
    return kinds


def wanted_kinds(options: argparse.Namespace) -> set[str]:
    """The kinds that `--fail-on` names; `none` names none. Raises `UsageError` for an unknown one."""
    kinds = {kind.strip() for kind in options.fail_on.split(",") if kind.strip()} - {"none"}
    for kind in sorted(kinds - set(FAIL_ON)):
        raise UsageError(f"`{kind}` is no kind of finding", did_you_mean(kind, FAIL_ON) or f"kinds: {', '.join(FAIL_ON)}", "--fail-on")
    return kinds


def known_fusions(pack: Pack, names: Iterable[str]) -> None:
    """Raise `UsageError` for a required fusion that the pack does not know."""
    for name in names:
        if name not in pack.fusions:
            raise UsageError(f"`{name}` is no fusion", did_you_mean(name, pack.fusions) or f"fusions: {', '.join(sorted(pack.fusions))}", "--require")


def ending(verdicts: Iterable[Verdict], options: argparse.Namespace, pack: Pack) -> int:
    """The exit code: `--require` before `--fail-on`."""
    verdicts = list(verdicts)
    known_fusions(pack, options.require)
    code = of_required({decision.state for verdict in verdicts for decision in verdict.decisions if decision.fusion in options.require})
    if code:
        return code
    failing = wanted_kinds(options)
    return FINDING if any(kinds_of(verdict) & failing for verdict in verdicts) else OK


def of_required(states: Collection[str]) -> int:
    """The exit code for the states of required fusions."""
    return FINDING if "off" in states else UNDECIDED if "undetermined" in states else OK


def painter() -> Paint:
    """Colour for the standard output, or none."""
    return colour_paint if wants_colour(sys.stdout.isatty()) else plain_paint


def with_flips(pack: Pack, read: ReadLaunch, decision: Decision, strict: bool) -> None:
    """Add the smallest changes that would turn a fusion on."""
    if decision.state != "on":
        from policy.analyse.flips import flips

        decision.flips = tuple(flips(pack, read.launch, decision.fusion, decision.posture, strict=strict, decided=decision))
