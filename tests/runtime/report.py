"""The fault matrix as a Markdown table: one row a fault, what each layout ended as, and the longest wait."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.runtime.judge import SLACK, judge
from tests.runtime.matrix import FAULTS, LAYOUTS

HEAD = """# Fault matrix on the CPU

Written by `python -m pytest tests/runtime/test_faults.py --faults {mode} --faults-report bench/results/faults-cpu.md`.

Real processes over gloo on one machine; only the kernel library is a stand-in. A cell gives the outcome of the surviving
ranks (all of them the same unless two are named) and, in brackets, the longest time to an outcome in seconds; `*` marks a
case that broke a rule. A rank that was stopped and came back is not counted in times. Layouts are WORLD sizes or groups x
size (`2x2-strided`: groups 0, 2 and 1, 3). Deadlines: 3 s up to four ranks, 5 s for eight. A WORLD of three is refused
by the static check, so later phases never begin there.

"""


def table(cases: list[dict[str, Any]], reports: dict[str, dict[str, Any]], mode: str) -> str:
    """The page. Rows in the order of the matrix."""
    by_place = {(case["fault"], case["id"].split("@")[1].rsplit("-", 3)[0]): case for case in cases}
    defective = [case for case in cases if judge(case, reports[case["id"]])]
    words = Counter(outcome["outcome"] for report in reports.values() for outcome in report["outcomes"].values())
    latest = max((over(case, reports[case["id"]]) for case in cases), default=0.0)
    lines = [HEAD.format(mode=mode)]
    counted = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
    lines.append(f"{len(cases)} cases, {len(defective)} of them broke a rule. Outcomes of ranks: {counted}. ")
    lines.append(f"Latest outcome of a surviving rank: {latest:+.1f} s against its deadline (allowed {SLACK:+.0f} s). ")
    lines.append(f"Processes left behind: {sum(len(report['leaked']) for report in reports.values())}.\n\n")
    lines.append("| fault | must lead to | " + " | ".join(LAYOUTS) + " |\n|" + "---|" * (len(LAYOUTS) + 2) + "\n")
    for fault in FAULTS:
        cells = []
        for layout in LAYOUTS:
            case = by_place.get((fault.name, layout))
            cells.append("" if case is None else cell(case, reports[case["id"]]))
        if any(cells):
            lines.append(f"| {fault.name} | {fault.expect} | " + " | ".join(cells) + " |\n")
    return "".join(lines)


def cell(case: dict[str, Any], report: dict[str, Any]) -> str:
    """`unfused (1.2)`; several words only where ranks of one launch ended differently."""
    words = sorted({outcome["outcome"] for outcome in report["outcomes"].values()})
    times = [outcome["elapsed"] for name, outcome in report["outcomes"].items() if name not in report["stopped"]]
    text = f"{' and '.join(words) or 'no survivor'} ({max(times):.1f})" if times else "no survivor"
    return text + (" *" if judge(case, report) else "")


def over(case: dict[str, Any], report: dict[str, Any]) -> float:
    """Seconds of the latest surviving rank past the deadline (negative: before it)."""
    times = [outcome["elapsed"] for name, outcome in report["outcomes"].items() if name not in report["stopped"]]
    return max(times, default=0.0) - float(case["deadline"][0])
