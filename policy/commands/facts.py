"""`policy facts`: every fact of a launch, its value, where it comes from, and what is not known."""

from __future__ import annotations

import argparse
import json
import os
import sys

from policy.commands import common
from policy.launch import Facts
from policy.launchers.machine import allowed_environment
from policy.pack import REQUEST_PREFIX, TRAIT_PREFIX

EXAMPLE = "policy facts -- vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy facts`."""
    parser.add_argument("words", nargs="*", metavar="FILE", help="files that hold launches")
    common.add_inputs(parser)
    common.add_pack(parser)
    parser.add_argument("--strict", action="store_true", help="assume nothing")
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")


def run(options: argparse.Namespace) -> int:
    """Print the facts of every launch of the input (of this machine where there is none)."""
    pack = common.load(options)
    _, files = common.split_words(pack, options.words)
    if not (files or options.launch or options.facts or options.assignments or options.device):
        options.probe = True
    reports = []
    for one in common.read_inputs(pack, options, files):
        facts = Facts(pack, one.launch, options.strict)
        rows = {}
        for name in sorted({*pack.facts, *one.launch.given}):
            fact = pack.fact(name)
            given = facts.get(name)
            if fact is None or (name.startswith(REQUEST_PREFIX) and name not in one.launch.given):
                continue
            rows[name] = {
                "value": facts.shown(name),
                "known": fact.known(given.values),
                "origin": str(given.origin),
                "kind": given.origin.kind,
                "find_out": fact.find_out,
            }
        reports.append(rows)
        for notice in (*one.errors, *one.notices):
            print(f"{notice.origin}: {notice.message}" + (f" ({notice.remedy})" if notice.remedy else ""), file=sys.stderr)
    if options.format == "json":
        data = [
            {
                "schema_version": 1,
                "facts": {
                    name: {"value": _plain(row["value"]), "origin": row["origin"]}
                    for name, row in rows.items()
                    if row["kind"] not in ("unknown", "derived", "assumed", "engine_default", "engine_pin")
                },
            }
            for rows in reports
        ]
        json.dump(data[0] if len(data) == 1 else data, sys.stdout, indent=1)
        print()
        return common.OK
    for rows in reports:
        known = {name: row for name, row in rows.items() if row["value"] != "not known" and not name.startswith(TRAIT_PREFIX)}
        traits = {name: row for name, row in rows.items() if row["value"] != "not known" and name.startswith(TRAIT_PREFIX)}
        unknown = {name: row for name, row in rows.items() if row["value"] == "not known"}
        for title, part, last in (("known", known, "origin"), ("traits", traits, "origin"), ("not known", unknown, "find_out")):
            if not part:
                continue
            if options.format == "markdown":
                print(f"### {title}\n\n| fact | value | {'find out by' if last == 'find_out' else 'origin'} |\n|---|---|---|")
                for name, row in part.items():
                    print(f"| {name} | {row['value']} | {row[last]} |".replace("<", "&lt;"))
                print()
            else:
                print(title)
                width = max(len(name) for name in part)
                middle = min(40, max(len(str(row["value"])) for row in part.values()))
                for name, row in part.items():
                    print(f"  {name.ljust(width)}  {str(row['value']).ljust(middle)}  {row[last]}".rstrip())
    if options.probe:
        _environment(options.format)
    return common.OK


def _environment(kind: str) -> None:
    """The variables of this process that engines read: by allow-list, never a secret."""
    variables = allowed_environment(os.environ)
    if not variables:
        return
    print("### environment\n\n```" if kind == "markdown" else "environment")
    for name, value in variables.items():
        print(f"{'' if kind == 'markdown' else '  '}{name}={value}")
    if kind == "markdown":
        print("```")


def _plain(text: object) -> object:
    """A shown value as a facts file takes it: alternatives become a list."""
    words = str(text)
    if words.startswith("{") and words.endswith("}"):
        return [part for part in words[1:-1].split(", ") if part]
    return words.split(" or ") if " or " in words else words
