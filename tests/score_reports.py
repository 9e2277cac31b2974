"""Score the pack against public reports: `python tests/score_reports.py FILE.jsonl [--json] [--rules FOLDER] [--verbose]`.

Every labelled answer is judged twice: on what the report states, and completed by a benign profile where it states too
little. Totals are by label and by kind, so that an answer that is always off cannot look good. Exit status 1 if any is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from policy.load import read_pack
from policy.pack import Pack
from policy.problems import PolicyError
from tests.reports.judge import Judgement, judge_report, unknown_codes

VERDICTS = ("right", "undetermined", "argued", "wrong")


def score(pack: Pack, reports: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Judgements as stated and completed, the keys that no fact is known for, and the codes that no mechanism is known for."""
    found: dict[str, Any] = {"as_stated": [], "completed": [], "unmapped": Counter(), "unknown_codes": Counter()}
    for report in reports:
        if not report.get("resolved_for_facts"):
            continue
        for name, complete in (("as_stated", False), ("completed", True)):
            judgements, unmapped = judge_report(pack, report, complete)
            found[name].extend(judgements)
        found["unmapped"].update(unmapped)
        found["unknown_codes"].update(unknown_codes(report))
    return found


def totals(judgements: list[Judgement], of: str) -> dict[str, Counter[str]]:
    """Verdicts counted by an attribute of the judgements."""
    counted: dict[str, Counter[str]] = {}
    for one in judgements:
        counted.setdefault(getattr(one, of), Counter())[one.verdict] += 1
    return dict(sorted(counted.items()))


def _line(one: Judgement) -> str:
    text = f"{one.report} {one.fusion}: expected {one.label} ({one.code}), got {one.got} ({one.reason or 'no reason'}): {one.verdict}"
    if one.view != "safe":
        text += f" [view {one.view}]"
    if one.differs:
        text += f"; differs: {', '.join(one.differs)}"
    if one.verdict == "undetermined":
        text += f"; missing {', '.join(one.missing) or 'nothing that is named'}"
    return text


def _table(title: str, counted: dict[str, Counter[str]]) -> list[str]:
    lines = [f"{title:14}" + "".join(f"{name:>14}" for name in VERDICTS)]
    lines.extend(f"{name:14}" + "".join(f"{row[verdict]:>14}" for verdict in VERDICTS) for name, row in counted.items())
    total: Counter[str] = sum(counted.values(), Counter())
    return [*lines, f"{'all':14}" + "".join(f"{total[verdict]:>14}" for verdict in VERDICTS)]


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--rules", type=Path, help="the pack's folder")
    parser.add_argument("--verbose", action="store_true", help="also what was filled in")
    options = parser.parse_args(arguments)
    try:
        pack = read_pack(options.rules, compiled=False)
        reports = _read(options.file)
    except (PolicyError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = score(pack, reports)
    wrong = any(one.verdict == "wrong" for name in ("as_stated", "completed") for one in found[name])
    if options.json:
        shown = {name: [one.as_json() for one in found[name]] for name in ("as_stated", "completed")}
        sums = {name: {of: {key: dict(row) for key, row in totals(found[name], of).items()} for of in ("label", "kind")} for name in shown}
        print(json.dumps({**shown, "totals": sums, "unmapped": dict(found["unmapped"]), "unknown_codes": dict(found["unknown_codes"])}, indent=1))
        return 1 if wrong else 0
    for name, title in (("as_stated", "as stated"), ("completed", "completed by the profile")):
        print(f"== {title}")
        for one in found[name]:
            print(_line(one))
            if options.verbose and one.filled:
                print("    filled: " + "; ".join(f"{fact} {value}" for fact, value in one.filled.items()))
        print()
        print("\n".join((*_table("label", totals(found[name], "label")), "", *_table("kind", totals(found[name], "kind")), "")))
    if found["unmapped"]:
        print("keys that no fact is known for: " + ", ".join(f"{key} ({count})" for key, count in sorted(found["unmapped"].items())))
    if found["unknown_codes"]:
        print("codes whose mechanism is not known, so that no reason was compared: " + ", ".join(sorted(found["unknown_codes"])))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
