"""Real processes, real stores, one fault each: every surviving rank has one and the same outcome in time."""

from __future__ import annotations

from typing import Any

from tests.runtime.judge import judge


def test_fault(fault_case: dict[str, Any], fault_reports: dict[str, dict[str, Any]]) -> None:
    report = fault_reports[fault_case["id"]]
    defects = judge(fault_case, report)
    assert not defects, f"{defects}\n{report['outcomes']}\n{report['statuses']}\n{report['log']}"


def test_the_judge_sees_defects() -> None:
    """A judge that passes everything would make the matrix worthless."""
    case = {"id": "x", "size": 2, "deadline": [2.0, 1.0], "ranks": {}, "expect": "fused", "allowed": ["fused"], "fault": "none", "store": "host"}
    reason = {"phase": "commit", "fact": "votes", "text": "all 2 ranks agree", "rank": None}
    good = {"outcome": "fused", "elapsed": 1.0, "reason": reason}
    report: dict[str, Any] = {"outcomes": {"0": good, "1": good}, "statuses": {"0": "exit 0", "1": "exit 0"}, "stopped": [], "leaked": [], "latched": 0}
    assert judge(case, report) == []
    assert judge(case, {**report, "outcomes": {"0": good, "1": {**good, "outcome": "unfused"}}}), "a mixture"
    assert judge(case, {**report, "outcomes": {"0": good, "1": {**good, "elapsed": 7.2}}}), "an outcome that came too late"
    assert judge(case, {**report, "outcomes": {"0": good}}), "a rank without an outcome"
    assert judge(case, {**report, "leaked": ["1"]}), "a process left behind"
    assert judge({**case, "allowed": ["restart"]}, report), "another outcome than the fault must lead to"
    assert judge(case, {**report, "outcomes": {"0": good, "1": {**good, "reason": {**reason, "text": ""}}}}), "an outcome without a reason"
