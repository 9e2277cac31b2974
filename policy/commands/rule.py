"""`policy rule ID`: one rule as a page."""

from __future__ import annotations

import argparse

from policy.commands import common
from policy.explain import shown_place
from policy.facts import plain
from policy.pack import Pack, Rule, did_you_mean
from policy.problems import UsageError

EXAMPLE = "policy rule rendezvous-over-world"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy rule`."""
    parser.add_argument("id", nargs="?", help="the rule's id; all ids are listed where it is left out")
    parser.add_argument(
        "--where",
        action="store_true",
        help="the regions of launches in which it holds; then the name may also be a named condition's, a gate's, FUSION (where it is on) or FUSION/PLAN",
    )
    parser.add_argument("--traits", choices=("tabulated", "probed"), default="tabulated", help="with --where: traits as the tables say, or left free")
    common.add_pack(parser)


def run(options: argparse.Namespace) -> int:
    """Print the page of one rule, or the list of all."""
    pack = common.load(options, compiled=not options.where)
    if options.where and options.id is not None:
        return _where(pack, options)
    if options.id is None:
        width = max((len(name) for name in pack.rules), default=0)
        for name, listed in sorted(pack.rules.items()):
            print(f"{name.ljust(width)}  {listed.effect:8}  {listed.title}")
        return common.OK
    rule = pack.rules.get(options.id)
    if rule is None:
        raise UsageError(f"no rule is named `{options.id}`", did_you_mean(options.id, pack.rules) or "`policy rule` lists them all")
    print(page(rule, pack), end="")
    return common.OK


def _where(pack: Pack, options: argparse.Namespace) -> int:
    from policy.analyse.boxes import TooWideError
    from policy.analyse.regions import render
    from policy.analyse.where import where

    try:
        found = where(pack, options.id, options.traits)
    except TooWideError:
        print(f"{options.id}: it takes too many boxes to be listed")
        return common.UNDECIDED
    if found is None:
        names = [*pack.rules, *pack.conditions, *pack.fusions, *(gate.id for product in pack.products.values() for gate in product.gates.values())]
        raise UsageError(f"nothing is named `{options.id}`", did_you_mean(options.id, names) or "`policy rule` lists the rules")
    print(render(pack, found))
    return common.OK


def page(rule: Rule, pack: Pack) -> str:
    """A rule as Markdown."""
    lines = [f"# {rule.id}", "", f"*because {rule.title}*", ""]
    effect = {"exclude": "excludes", "limit": "limits", "warn": "warns about", "refuse": "refuses"}[rule.effect]
    lines.append(f"- {effect} {'the launch' if rule.plans is None else 'plans with ' + str(rule.plans)}")
    if rule.limits:
        lines.append("- limit: " + ", ".join(f"{name} {plain(value)}" for name, value in rule.limits.items()))
    if rule.consequence:
        lines.append(f"- when ignored: {rule.consequence.replace('_', ' ')}")
    lines.append(f"- evidence: {rule.evidence}")
    lines.append(f"- written in {shown_place(rule.place, pack)}")
    if rule.retired:
        lines.append(f"- retired: {rule.retired}")
    lines.extend(("", "## When", "", *condition_lines(rule, pack)))
    for title, text in (("Why", rule.why), ("Fix", rule.fix)):
        if text:
            lines.extend(("", f"## {title}", "", text))
    if rule.verified:
        seen = rule.verified
        releases = seen.get("flashinfer")
        on = f" with FlashInfer {', '.join(releases) if isinstance(releases, list) else releases}" if releases else ""
        lines.extend(("", "## Measured", "", f"{seen['hardware']}{on}: {seen['saw']}"))
        if seen.get("not_varied"):
            lines.append(f"Not varied: {', '.join(seen['not_varied'])}.")
    if rule.symptoms:
        lines.extend(("", "## Symptoms", "", *(f"- `{symptom}`" for symptom in rule.symptoms)))
    if rule.references:
        lines.extend(("", "## References", "", *(f"- {reference}" for reference in rule.references)))
    return "\n".join(lines) + "\n"


def condition_lines(rule: Rule, pack: Pack) -> list[str]:
    """The rule's condition as a nested list."""
    from policy.commands.conditions_text import lines

    return lines(rule.when, pack)
