"""A difference as text for a terminal and as Markdown for a pull request. Formats, never decides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policy.analyse.diff import Change, Difference

KINDS = {
    "lost": "no longer on",
    "gained": "newly on",
    "plan": "another plan",
    "reason": "another reason",
    "other": "decided otherwise",
}


def text(found: Difference, most: int = 20) -> str:
    """Headline, the launches that are hit, then the regions."""
    lines = [_headline(found)]
    for hit in found.hits:
        lines.append(f"{hit.launch}: {hit.fusion}")
        lines.append(f"  before  {hit.before}; engine {hit.alone_before}")
        lines.append(f"  after   {hit.after}; engine {hit.alone_after}")
    for change in found.changes[:most]:
        lines.append(f"{change.fusion}: {KINDS[change.kind]}")
        lines.append(f"  before  {change.before}; engine {change.alone_before}")
        lines.append(f"  after   {change.after}; engine {change.alone_after}")
        lines.append(f"  where   {_where(change)}")
        lines.append(f"  by      {'; '.join(change.parts[:3])}{f' and {len(change.parts) - 3} more' if len(change.parts) > 3 else ''}")
        lines.append(f"  such as {_facts(change.witness or {})}")
    if len(found.changes) > most:
        lines.append(f"and {len(found.changes) - most} more regions")
    lines.extend(_limits(found))
    return "\n".join(lines)


def markdown(found: Difference, most: int = 40) -> str:
    """The same for a pull request: a table of the launches that are hit, one of the regions, and what was not looked at."""
    lines = [f"### {_headline(found)}", ""]
    if found.hits:
        lines += ["| launch | fusion | before | after | engine left alone |", "|---|---|---|---|---|"]
        lines += [f"| {hit.launch} | {hit.fusion} | {hit.before} | {hit.after} | {_arrow(hit.alone_before, hit.alone_after)} |" for hit in found.hits]
        lines.append("")
    if found.changes:
        lines += ["| fusion | change | before | after | engine left alone | where | such as |", "|---|---|---|---|---|---|---|"]
        for change in found.changes[:most]:
            cells = [change.fusion, KINDS[change.kind], str(change.before), str(change.after), _arrow(change.alone_before, change.alone_after)]
            lines.append(f"| {' | '.join([*cells, _where(change), f'`{_facts(change.witness or {})}`'])} |")
        if len(found.changes) > most:
            lines.append(f"\nand {len(found.changes) - most} more regions")
        lines.append("")
    lines.extend(_limits(found))
    return "\n".join(lines).rstrip() + "\n"


def _headline(found: Difference) -> str:
    if not found.changes and not found.hits:
        return f"{found.old} to {found.new}: nothing changes" if found.complete else f"{found.old} to {found.new}: no change was found"
    counts = {kind: sum(1 for change in found.changes if change.kind == kind) for kind in KINDS}
    regions = ", ".join(f"{count} {KINDS[kind]}" for kind, count in counts.items() if count)
    hit = len({one.launch for one in found.hits})
    launches = f"; {hit} launch{'es' if hit != 1 else ''} hit" if found.hits else ""
    return f"{found.old} to {found.new}: {len(found.changes)} region{'s' if len(found.changes) != 1 else ''} ({regions}){launches}"


def _limits(found: Difference) -> Iterator[str]:
    if found.unexamined:
        listed = ", ".join(f"{fusion} {count}" for fusion, count in found.unexamined.items())
        yield f"not looked at within the budget (parts that differ, by fusion): {listed}"


def _where(change: Change) -> str:
    return ", ".join(f"{name} {words}" for name, words in sorted(change.texts.items())) or "every launch"


def _facts(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in sorted(facts.items()))


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"
