"""What an audit reports: one flat list of findings over all launches, and its forms for other programs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from policy.decision import Because, Decision, Verdict
from policy.explain import headline
from policy.launchers.found import LOST_KINDS
from policy.pack import Pack
from policy.records import dataclass

KINDS = ("refused", "hazard", "conflict", "lost-setting", "warning", "missed", "undetermined")
LEVELS = {"refused": "error", "hazard": "error", "conflict": "error", "lost-setting": "warning", "warning": "warning", "missed": "note", "undetermined": "note"}


@dataclass(frozen=True, slots=True)
class Reported:
    """One finding about one launch: its kind, the id of what it is about, a sentence, and the place in the user's file."""

    kind: str
    id: str
    message: str
    launch: str
    file: str = ""
    line: int = 0
    fusion: str = ""
    waived: bool = False
    wants: tuple[str, ...] = ()  # of an undetermined launch: the facts that would decide, the most telling first


def reported(verdict: Verdict, launch: str, place: tuple[str, int]) -> list[Reported]:
    """The findings of one verdict, the worst kinds first."""
    file, line = place
    found = [of_launch(one, launch, place) for one in verdict.launch.findings if one.effect != "note"]
    left = undetermined([decision for decision in verdict.decisions if _kind(decision) == "undetermined"])
    if left is not None:
        found.append(Reported("undetermined", "undetermined", left[0], launch, file, line, wants=left[1]))
    for decision in verdict.decisions:
        kind = _kind(decision)
        if kind is not None and kind != "undetermined":
            found.append(Reported(kind, decision.reason.id or decision.reason.kind, headline(decision), launch, file, line, decision.fusion))
        found.extend(Reported("warning", one.id, about(decision, one), launch, file, line, decision.fusion) for one in decision.warnings)
    return sorted(dict.fromkeys(found), key=lambda one: (KINDS.index(one.kind), one.fusion, one.id))


def undetermined(open_: Sequence[Decision]) -> tuple[str, tuple[str, ...]] | None:
    """What is said of the decisions that stay open, and the facts that would decide them, the most telling first."""
    if not open_:
        return None
    facts = Counter(name for decision in open_ for name in decision.unknown_facts)
    names = tuple(name for name, _ in facts.most_common())
    wanting = f", for want of {', '.join(names[:4])}" if names else ""
    which = ", ".join(decision.fusion for decision in open_[:4]) + (", …" if len(open_) > 4 else "")
    return f"{len(open_)} fusion{'s are' if len(open_) > 1 else ' is'} undetermined{wanting}: {which}", names


def about(decision: Decision, one: Because) -> str:
    """A warning about a fusion, which it names."""
    return one.title if one.title.startswith(decision.fusion) else f"{decision.fusion}: {one.title}"


def _kind(decision: Decision) -> str | None:
    """What kind of finding a decision is; None for none. One that comes out unfused does no harm, and one rank has nothing
    to reduce, whatever was asked."""
    if decision.conflict:
        return None if decision.wanted is False else "conflict"
    if decision.audit == "hazard" and decision.left_alone.built in ("unfused", "slower"):
        return "warning"
    return decision.audit if decision.audit in ("hazard", "missed", "undetermined") else None


#: How the title of a finding about the reading names its place: a place with what stands there, or a word of the command.
_PLACES = (
    re.compile(r"(?P<file>[^`]+?):(?P<line>\d+)(?::\d+)?(?: \(`.*?`\))?: (?P<message>.*)", re.DOTALL),
    re.compile(r"(?:`.*?` )?argument \d+ \((?P<file>.+?):(?P<line>\d+)(?::\d+)?\): (?P<message>.*)", re.DOTALL),
)


def of_launch(one: Because, launch: str, place: tuple[str, int]) -> Reported:
    """A finding about the launch as a whole, at the place that it names."""
    kind = "refused" if one.effect == "refuse" else "lost-setting" if one.id in LOST_KINDS else "warning"
    for pattern in _PLACES:
        match = pattern.fullmatch(one.title)
        if match is not None:
            return Reported(kind, one.id, match["message"], launch, match["file"], int(match["line"]))
    return Reported(kind, one.id, one.title, launch, *place)


def as_sarif(findings: Sequence[Reported], pack: Pack, version: str) -> str:
    """SARIF 2.1.0."""
    rules: dict[str, dict[str, Any]] = {}
    results = []
    for one in findings:
        rule = pack.rules.get(one.id)
        rules.setdefault(
            one.id,
            {
                "id": one.id,
                "shortDescription": {"text": rule.title if rule else one.id.replace("-", " ")},
                **({"fullDescription": {"text": rule.why}} if rule and rule.why else {}),
                **({"help": {"text": rule.fix}} if rule and rule.fix else {}),
            },
        )
        result: dict[str, Any] = {
            "ruleId": one.id,
            "level": LEVELS[one.kind],
            "message": {"text": one.message},
            "properties": {"kind": one.kind, "launch": one.launch},
        }
        if one.file:
            place = {"artifactLocation": {"uri": quote(one.file.replace("\\", "/"))}, "region": {"startLine": max(1, one.line)}}
            result["locations"] = [{"physicalLocation": place}]
        if one.waived:
            result["suppressions"] = [{"kind": "external"}]
        results.append(result)
    driver = {"name": "fusion-policy", "version": version, "rules": list(rules.values())}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=1) + "\n"


def as_github(findings: Iterable[Reported]) -> str:
    """Workflow commands that annotate files."""
    words = {"error": "error", "warning": "warning", "note": "notice"}
    lines = []
    for one in findings:
        if one.waived:
            continue
        place = f"file={_property(one.file)},line={max(1, one.line)}," if one.file else ""
        lines.append(f"::{words[LEVELS[one.kind]]} {place}title={_property(f'{one.kind}: {one.id}')}::{_data(one.message)}")
    return "".join(line + "\n" for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_junit(findings: Sequence[Reported], launches: Sequence[str], failing: set[str]) -> str:
    """One test case a launch; findings of the failing kinds are failures, the others are printed."""
    cases = []
    failures = 0
    for launch in launches:
        mine = [one for one in findings if one.launch == launch]
        bad = [one for one in mine if one.kind in failing and not one.waived]
        failures += bool(bad)
        body = "".join(f"<failure type={quoteattr(one.kind)} message={_attribute(one.message)}/>" for one in bad)
        rest = [f"{one.kind}: {one.message}" for one in mine if one not in bad]
        if rest:
            body += f"<system-out>{escape(_printable(chr(10).join(rest)))}</system-out>"
        cases.append(f'<testcase classname="fusion-policy" name={_attribute(launch)}>{body}</testcase>')
    suite = f'<testsuite name="fusion-policy" tests="{len(launches)}" failures="{failures}">{"".join(cases)}</testsuite>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{suite}\n'


def _attribute(text: str) -> str:
    return quoteattr(_printable(text))


def _printable(text: str) -> str:
    """The text without what XML cannot hold."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
