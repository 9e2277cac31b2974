"""`policy diagnose LOG…`: which hazards a log speaks for, and what would confirm each."""

from __future__ import annotations

import argparse
import json
import sys

from policy.commands import common
from policy.diagnose import Suspect, suspects
from policy.explain import Paint, shown_place
from policy.launch import Launch
from policy.launchers.containers import find_launches
from policy.launchers.found import FoundLaunch
from policy.launchers.inputs import Request, launches
from policy.launchers.logs import Log, read_log
from policy.launchers.read import read_launch
from policy.pack import Pack
from policy.problems import LaunchError, UsageError

EXAMPLE = "policy diagnose server.log --device gb200-nvl72"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy diagnose`."""
    parser.add_argument("logs", nargs="+", metavar="LOG", help="logs of one launch, of any of its ranks; `-` is the standard input")
    common.add_inputs(parser)
    common.add_pack(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--all", action="store_true", help="show every suspect, not only the first five")


def run(options: argparse.Namespace) -> int:
    """Rank the hazards that fit; the exit code is 0 whether one fits or not."""
    pack = common.load(options)
    logs: list[Log] = []
    found: list[FoundLaunch] = []
    for name in options.logs:
        log, problems = read_log(name)
        if log is None:
            raise LaunchError(problems)
        logs.append(log)
        found.extend(find_launches(log.launch_text(), name).launches)
    launch = _launch(pack, options, found)
    ranked = suspects(pack, launch, logs)
    shown = ranked if options.all else ranked[:5]
    if options.format == "json":
        json.dump({"schema_version": 1, "launch": bool(found), "suspects": [_as_json(one) for one in shown]}, sys.stdout, indent=1)
        print()
        return common.OK
    paint = common.painter()
    if not found:
        print("no launch was found in the log; what is known of it comes from the options", file=sys.stderr)
    if not shown:
        print("no hazard that is known fits this log")
    for number, one in enumerate(shown, 1):
        _print(number, one, pack, paint)
    if len(ranked) > len(shown):
        print(f"{len(ranked) - len(shown)} more with --all")
    return common.OK


def _launch(pack: Pack, options: argparse.Namespace, found: list[FoundLaunch]) -> Launch:
    """The launch of the log, with what the options add; what a log says of one launch in several lines is joined."""
    stated: Launch | None = None
    request = Request(list(options.launch), [], list(options.facts), list(options.assignments), options.device, options.probe)
    try:
        stated = launches(pack, request)[0].launch
    except UsageError:
        if options.launch:
            raise
    joined = Launch()
    for one in found:
        for name, given in read_launch(pack, one, None, None, False).launch.given.items():
            joined.given.setdefault(name, given)
    if stated is not None:
        joined.given.update(stated.given)
    return joined


def _print(number: int, one: Suspect, pack: Pack, paint: Paint) -> None:
    fit = {True: "the launch satisfies it", None: "the launch may satisfy it", False: "the launch does not satisfy it"}[one.truth]
    print(f"{number}. {paint(one.rule.id, 'bold')}: {one.rule.title}")
    print(f"   {(one.rule.consequence or one.rule.effect).replace('_', ' ')}; {fit}; {one.rule.evidence}; {shown_place(one.rule.place, pack)}")
    for sighting in one.sightings[:3]:
        print(f"   seen   {sighting.file}:{sighting.line}: {sighting.text[:140]}")
    for finding in one.findings[:4]:
        if finding.truth is True:
            print(f"   holds  {finding.fact} {finding.value} ({finding.origin})")
    for name, how in one.confirm[:4]:
        print(f"   learn  {name}" + (f": {how}" if how else ""))
    if one.rule.fix:
        print(f"   fix    {one.rule.fix}")


def _as_json(one: Suspect) -> dict[str, object]:
    return {
        "id": one.rule.id,
        "title": one.rule.title,
        "consequence": one.rule.consequence,
        "launch_satisfies": one.truth,
        "seen": [{"file": sighting.file, "line": sighting.line, "text": sighting.text, "symptom": sighting.symptom} for sighting in one.sightings],
        "findings": [finding.as_json() for finding in one.findings],
        "learn": [{"fact": name, "find_out": how} for name, how in one.confirm],
        "fix": one.rule.fix,
    }
