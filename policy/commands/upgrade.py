"""`policy upgrade PRODUCT=NEW`: what another release of the engine or of a library changes for your launches."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from policy.analyse.diff import SECONDS, Difference, as_json, upgrade
from policy.analyse.diff_text import markdown, text
from policy.commands import common
from policy.commands.long_work import long_work
from policy.decision import Decision
from policy.evaluate import evaluate
from policy.facts import ValueProblem
from policy.launch import Facts, Launch
from policy.origin import Origin
from policy.pack import Pack, did_you_mean
from policy.problems import UsageError
from policy.values import ABSENT

EXAMPLE = "policy upgrade vllm=0.24.0 --set engine.version=0.23.0 --device h200-sxm8 -- vllm serve MODEL -tp 2 -dp 2"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy upgrade`."""
    parser.add_argument(
        "words",
        nargs="+",
        metavar="PRODUCT=VERSION|FILE",
        help="releases to change to (PRODUCT is an engine or a library of the pack), and files that hold launches",
    )
    common.add_inputs(parser)
    common.add_pack(parser)
    parser.add_argument("--posture", choices=("safe", "fast", "audit"), default="safe")
    parser.add_argument("--strict", action="store_true", help="assume nothing")
    parser.add_argument("--everything", action="store_true", help="also every region of launches, given or not, that is decided otherwise")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds for --everything (default: %(default)s)")
    parser.add_argument("--fail-on-change", action="store_true", help="exit 1 where a launch is decided otherwise")
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")


def run(options: argparse.Namespace) -> int:
    """Decide every launch under both releases and print what differs."""
    pack = common.load(options, compiled=not options.everything)
    releases = [word for word in options.words if "=" in word]
    if not releases:
        raise UsageError("no release to change to", f"write PRODUCT=VERSION; products: {', '.join(sorted(pack.products))}")
    changes = dict(_change(pack, word) for word in releases)
    _, files = common.split_words(pack, [word for word in options.words if "=" not in word])
    rows: list[dict[str, Any]] = []
    names = []
    read = common.read_inputs(pack, options, files)
    for number, one in enumerate(read, 1):
        name = (one.found.name if one.found and one.found.name else "") or f"launch {number}"
        names.append(name)
        # what the present release required comes anew with the next one
        new = one.launch.with_facts(pack, changes, Origin("set", "the upgrade"))
        before, after = (evaluate(pack, launch, options.posture, None, options.strict) for launch in (one.launch, new))
        words = {fact: Facts(pack, one.launch, options.strict).shown(fact) for fact in changes}
        rows.extend(
            {"launch": name, "from": words, **row} for row in (_row(old, now) for old, now in zip(before.decisions, after.decisions, strict=True)) if row
        )
        if before.launch.state != after.launch.state:
            rows.append(
                {
                    "launch": name,
                    "from": words,
                    "fusion": "*",
                    "before": before.launch.state,
                    "after": after.launch.state,
                    "why": "; ".join(one.title for one in after.launch.findings[:2]),
                }
            )
    found = _everything(pack, options, [one.launch for one in read], changes) if options.everything else []
    _print(options.format, rows, names, changes, found)
    return common.FINDING if options.fail_on_change and (rows or any(one.changes for one in found)) else common.OK


def _everything(pack: Pack, options: argparse.Namespace, launches: list[Launch], changes: dict[str, str]) -> list[Difference]:
    """What changes for any launch, from each of the releases that the given ones have."""
    starts: dict[tuple[tuple[str, str], ...], None] = {}
    for launch in launches:
        facts = Facts(pack, launch, options.strict)
        engine = facts.engine()
        before = {"engine.name": engine.name} if engine is not None and engine.version_fact in changes else {}
        for fact in changes:
            held = facts.values(fact).single()
            if held is None:
                raise UsageError(f"the present value of `{fact}` is not known", f"state it with `--set {fact}=VERSION`", "--everything")
            before[fact] = "absent" if held is ABSENT else str(held)
        starts[tuple(before.items())] = None
    posture = "safe" if options.posture == "audit" else options.posture
    with long_work() as progress:
        return [upgrade(pack, dict(start), {**dict(start), **changes}, (), None, posture, options.seconds, progress) for start in starts]


def _change(pack: Pack, word: str) -> tuple[str, str]:
    name, _, version = word.partition("=")
    product = pack.products.get(name) or next((one for one in pack.products.values() if one.package == name), None)
    fact_name = product.version_fact if product is not None else name if pack.fact(name) is not None else None
    if fact_name is None:
        raise UsageError(f"no product is named `{name}`", did_you_mean(name, pack.products) or f"products: {', '.join(sorted(pack.products))}")
    fact = pack.fact(fact_name)
    assert fact is not None
    try:
        fact.values(version, pack.releases_of(fact_name))
    except ValueProblem as problem:
        raise UsageError(str(problem), problem.help) from None
    return fact_name, version


def _row(old: Decision, new: Decision) -> dict[str, Any] | None:
    """What differs between two decisions; None where nothing does."""
    before, after = _state(old), _state(new)
    if before == after:
        return None
    return {"fusion": old.fusion, "before": before, "after": after, "why": new.reason.id or new.reason.title}


def _state(decision: Decision) -> str:
    alone = decision.left_alone
    engine = f"engine {alone.state}" + (f", {alone.built.replace('_', ' ')}" if alone.state == "on" and alone.built != "fused" else "")
    plan = f" ({decision.chosen.id})" if decision.chosen else ""
    reason = f" because of {decision.reason.id}" if decision.state == "off" and decision.reason.kind == "rule" else ""
    return f"{decision.state}{plan}{reason}; {engine}"


def _print(kind: str, rows: list[dict[str, Any]], names: list[str], changes: dict[str, str], found: list[Difference]) -> None:
    words = ", ".join(f"{fact} {version}" for fact, version in changes.items())
    if kind == "json":
        regions = {"regions": [as_json(one) for one in found]} if found else {}
        json.dump({"schema_version": 1, "to": changes, "launches": len(names), "changes": rows, **regions}, sys.stdout, indent=1, default=str)
        print()
        return
    if kind == "markdown":
        print(f"### With {words}: {len(rows)} change{'s' if len(rows) != 1 else ''} in {len(names)} launch{'es' if len(names) != 1 else ''}\n")
        if rows:
            print("| launch | fusion | before | after |\n|---|---|---|---|")
        for row in rows:
            print(f"| {row['launch']} | {row['fusion']} | {row['before']} | {row['after']} |")
        for one in found:
            print("\n" + markdown(one).rstrip())
        return
    for row in rows:
        print(f"{row['launch']}: {row['fusion']}\n  before  {row['before']}\n  after   {row['after']}")
    print(f"with {words}: {len(rows)} change{'s' if len(rows) != 1 else ''} in {len(names)} launch{'es' if len(names) != 1 else ''}")
    for one in found:
        print("\n" + text(one).rstrip())
