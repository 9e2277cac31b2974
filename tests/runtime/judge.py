"""What makes the report of a fault case right: the assertions of the matrix, in one place."""

from __future__ import annotations

from typing import Any

SLACK = 5.0  # seconds after the deadline by which every surviving rank has an outcome


def judge(case: dict[str, Any], report: dict[str, Any]) -> list[str]:
    """Everything that is wrong with a report; empty when all is well."""
    defects = []
    outcomes: dict[str, Any] = report["outcomes"]
    words = {outcome["outcome"] for outcome in outcomes.values()}
    if {"fused", "unfused"} <= words:
        defects.append("fused and unfused ranks in one launch")
    for name, outcome in outcomes.items():
        if name in report["stopped"]:
            continue  # its clock ran while it was stopped
        if outcome["outcome"] not in case["allowed"]:
            defects.append(f"rank {name} is {outcome['outcome']}, not {' or '.join(case['allowed'])}")
        if outcome["elapsed"] > case["deadline"][0] + SLACK:
            defects.append(f"rank {name} had its outcome after {outcome['elapsed']:.1f} s")
        if not outcome["reason"]["text"] or not outcome["reason"]["phase"] or not outcome["reason"]["fact"]:
            defects.append(f"rank {name} gives no reason")
        if outcome["outcome"] == "restart" and report["statuses"].get(name) not in ("exit 75", "SIGKILL"):
            defects.append(f"rank {name} ends as restart with {report['statuses'].get(name)} instead of exit 75")
    for rank in range(case["size"]):
        name = str(rank)
        if name in outcomes or case["ranks"].get(name, {}).get("adapter") is False:
            continue
        status = report["statuses"].get(name)
        faulty = name in case["ranks"] or (case["store"] == "rank0" and rank == 0 and "store-" in case["fault"])
        if not faulty or not (status == "SIGKILL" or (status == "exit 1" and "frozen" in case["fault"])):
            defects.append(f"rank {name} has no outcome ({status})")
    if report["leaked"]:
        defects.append(f"left behind: {', '.join(report['leaked'])}")
    if words == {"restart"} and not report["latched"]:
        defects.append("a restart without a latch")
    if words in ({"fused"}, {"unfused"}) and report["latched"] and not report["stopped"] and "exit 1" not in report["statuses"].values():
        defects.append("a latch without a restart")
    return defects
