"""A report's labels against what the pack decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from policy.decision import Because, Decision, Verdict
from policy.evaluate import Evaluation, evaluate
from policy.facts import ValueProblem
from policy.launch import Facts, Launch
from policy.origin import Origin
from policy.pack import Pack
from tests.reports.complete import Completion
from tests.reports.read import MAPPING, fusion_of, read_launch

REASONS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "reasons.yaml").read_text(encoding="utf-8"))
#: How an answer is looked at: the launch as it is; what it is able to; the same if the adapter builds; and what library and
#: machine are able to, whatever the engine's own code keeps out.
VIEWS: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("safe", "safe", {}),
    ("able", "fast", {}),
    ("adapter", "fast", {"runtime.builder": "adapter"}),
    ("library", "fast", {"runtime.builder": "adapter", "engine.name": "trainer"}),
)


@dataclass(slots=True)
class Judgement:
    """One answer of one report."""

    report: str
    kind: str
    fusion: str
    label: str
    code: str
    verdict: str = "undetermined"
    got: str = ""
    reason: str = ""
    view: str = "safe"
    missing: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    filled: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The stable keys of one judgement."""
        return {name: getattr(self, name) for name in self.__slots__}


def judge_report(pack: Pack, report: Mapping[str, Any], complete: bool) -> tuple[list[Judgement], list[str]]:
    """Every labelled answer of a report, and its keys that were not read."""
    answers = report.get("resolved_for_facts") or []
    fusions = [name for name in dict.fromkeys(fusion_of(answer["fusion"]) for answer in answers) if name in pack.fusions]
    facts, unmapped = read_launch(pack, report, fusions)
    for meant in (MAPPING["fusions"].get(answer["fusion"]) for answer in answers):
        facts = {**facts, **(meant["facts"] if isinstance(meant, dict) else {})}
    launch = Launch()
    for name, value in facts.items():
        try:
            launch.state(pack, name, value, Origin("facts", "the report"))
        except ValueProblem:
            unmapped.append(f"{name}={value}")
    return [_judge(pack, report, launch, answer, fusions, complete) for answer in answers], unmapped


def _kind(report: Mapping[str, Any]) -> str:
    return str(report["kind"]).split("_")[0]


def _judge(pack: Pack, report: Mapping[str, Any], launch: Launch, answer: Mapping[str, Any], fusions: list[str], complete: bool) -> Judgement:
    judgement = Judgement(report["id"], _kind(report), answer["fusion"], answer["decision"], str(answer.get("code") or ""))
    fusion = fusion_of(answer["fusion"])
    if fusion != "*" and fusion not in pack.fusions:
        judgement.verdict, judgement.got = "wrong", f"the pack has no fusion `{fusion}`"
        return judgement
    views = VIEWS if answer["decision"] in ("on", "warn") and fusion != "*" else VIEWS[:1]
    for view, posture, changes in views:
        completion = Completion(pack, report, fusions) if complete else None
        attempt = _settled(pack, launch.with_facts(pack, changes) if changes else launch, fusion, posture, answer, completion)
        attempt.report, attempt.kind, attempt.view = judgement.report, judgement.kind, view
        attempt.filled = dict(completion.taken) if completion else {}
        if judgement.got == "" or attempt.verdict == "right" or (judgement.verdict == "wrong" and attempt.verdict != "wrong"):
            judgement = attempt
        if judgement.verdict == "right":
            break
    argued = {(one["report"], one["fusion"]) for one in REASONS["disagreements"]}
    if judgement.verdict in ("wrong", "undetermined") and (judgement.report, fusion) in argued:
        judgement.verdict = "argued"
    return judgement


def _settled(pack: Pack, launch: Launch, fusion: str, posture: str, answer: Mapping[str, Any], completion: Completion | None) -> Judgement:
    """The judgement under one view, the launch completed step by step while it is undetermined."""
    for last in (False, True):
        while True:
            verdict = evaluate(pack, launch, posture, None if fusion == "*" else [fusion])
            judgement = _compare(pack, launch, verdict, fusion, answer)
            if completion is None or judgement.verdict != "undetermined":
                return judgement
            changed = completion.next(launch, judgement.missing, last)
            if changed is None:
                break
            launch = changed
    return judgement


def _compare(pack: Pack, launch: Launch, verdict: Verdict, fusion: str, answer: Mapping[str, Any]) -> Judgement:
    label = answer["decision"]
    judgement = Judgement("", "", answer["fusion"], label, str(answer.get("code") or ""))
    wanted = _accepted(judgement.code)
    found = list(verdict.launch.findings)
    refused = verdict.launch.state == "refused"
    if fusion == "*":
        judgement.got = verdict.launch.state
        open_ = [finding.fact for one in verdict.launch.unknown for finding in one.findings if finding.truth is None and _matches(one, wanted)]
        right = refused if label == "error" else verdict.launch.state != "ok" if label == "warn" else not refused
        matching = [one for one in found if _matches(one, wanted)]
        judgement.reason = ", ".join(one.id for one in found)
        judgement.missing = tuple(dict.fromkeys(open_))
        judgement.verdict = "right" if right and (matching or not wanted) else "undetermined" if open_ else "wrong"
        return judgement
    decision = verdict[fusion]
    judgement.got = "refused" if refused else decision.state + (" (conflict)" if decision.conflict else "")
    judgement.missing = decision.unknown_facts
    evaluation = Evaluation(Facts(pack, launch), decision.posture)
    headline, also = _reasons(evaluation, decision)
    judgement.reason = headline
    warnings = [*decision.warnings, *(one for one in found if one.effect == "warn")]
    if label == "warn":
        named = [one.id for one in warnings if _matches(one, wanted)]
        judgement.reason = ", ".join(named) or headline
        if named and decision.state != "undetermined":
            judgement.verdict = "right"
        else:
            hidden = decision.state == "undetermined" or (bool(decision.better) and bool(decision.unknown_facts))
            judgement.verdict = "undetermined" if hidden else "wrong"
        return judgement
    if decision.state == "undetermined" and not refused:
        return judgement
    if label == "on":
        right = decision.state == "on" and not refused
    elif label == "error":
        right = refused or (decision.state == "off" and decision.conflict)
    else:
        right = decision.state == "off" or refused
    right = right or _also(answer, decision)
    judgement.differs = _differences(evaluation, decision, answer, warnings) if right else ()
    reasons = (headline, *also, *(one.id for one in found if one.effect == "refuse"))
    if right and label == "off" and wanted and not _named(reasons, wanted):
        reasons = (*reasons, *_adapter_reasons(pack, launch, fusion))
    if right and wanted and label != "on" and not _named(reasons, wanted):
        judgement.differs = (*judgement.differs, f"reason {headline}")
    judgement.verdict = "right" if right and not judgement.differs else "wrong"
    return judgement


def _named(reasons: Iterable[str], wanted: list[str]) -> bool:
    return any(fnmatchcase(one, pattern) for one in reasons for pattern in wanted)


def _adapter_reasons(pack: Pack, launch: Launch, fusion: str) -> list[str]:
    """Why the adapter could not build it either, where the engine leaves it off before the mechanism is met."""
    there = launch.with_facts(pack, {"runtime.builder": "adapter"})
    decision = evaluate(pack, there, "safe", [fusion])[fusion]
    return _reasons(Evaluation(Facts(pack, there), "safe"), decision)[1] if decision.state == "off" else []


def unknown_codes(report: Mapping[str, Any]) -> list[str]:
    """The codes of answers other than `on` for which no mechanism is known."""
    answers = [answer for answer in report.get("resolved_for_facts") or [] if answer["decision"] != "on" and answer.get("code")]
    return [str(answer["code"]) for answer in answers if not _accepted(str(answer["code"]))]


def _accepted(code: str) -> list[str]:
    return list(REASONS["codes"].get(code.split(":")[0], []))


def _matches(one: Because, wanted: list[str]) -> bool:
    return not wanted or any(fnmatchcase(one.id, pattern) for pattern in wanted)


def _also(answer: Mapping[str, Any], decision: Decision) -> bool:
    """`accept_also` begins with the other state that is right."""
    words = str(answer.get("accept_also") or "").split()
    return bool(words) and words[0] == decision.state


def _without_size(evaluation: Evaluation, decision: Decision) -> list[str]:
    """The limits that leave no size to plans, also where something else excludes them."""
    found = []
    for state in decision.able:
        limits = evaluation.limits(state.plan)
        for quantity, limit in limits.items():
            least = limits.get("min_" + quantity[4:]) if quantity.startswith("max_") else None
            if least is not None and least.value is not None and limit.value is not None and least.value > limit.value:
                found.append(limit.id)
    return found


def _reasons(evaluation: Evaluation, decision: Decision) -> tuple[str, list[str]]:
    """The headline's reason, and every definite reason beside it, in the words of `reasons.yaml`."""
    reason = decision.reason
    names = {"needs": "needs", "gate": "gate", "asked": "asked", "requires": f"requires:{reason.id}", "unwanted": "unwanted"}
    headline = names.get(reason.kind, reason.id)
    facts = [finding.fact for finding in reason.findings]
    also = [f"{headline}:{fact}" for fact in facts] if headline in ("gate", "needs") else []
    for state in decision.able:
        for one in state.because:
            if one.truth is True:
                also.append(f"requires:{one.id}" if one.effect == "requires" else one.id)
                also.extend(f"needs:{finding.fact}" for finding in one.findings if one.id == "needs")
    also.extend(_without_size(evaluation, decision))
    if decision.left_alone.state in ("off", "dies"):
        also.append("gate")
    also.extend(f"gate:{finding.fact}" for finding in decision.left_alone.findings if decision.left_alone.state in ("off", "dies"))
    return headline, also


def _differences(evaluation: Evaluation, decision: Decision, answer: Mapping[str, Any], warnings: list[Because]) -> tuple[str, ...]:
    """What the answer states beside the state and is not so."""
    found = []
    chosen = decision.chosen
    backend = answer.get("backend") or answer.get("kernel")
    if backend and chosen is not None and backend not in (chosen.backend, chosen.id):
        found.append(f"backend {chosen.backend}")
    if answer.get("backend_rejected") and chosen is not None and chosen.backend == answer["backend_rejected"]:
        found.append(f"backend {chosen.backend}")
    scope = MAPPING["scopes"].get(str(answer.get("scope")))
    if scope and chosen is not None and not any(chosen.attributes.get(name) == value for name, value in scope.items()):
        found.append(f"scope {chosen.scope}")
    bounds = [quantity for quantity in ("max_tokens", "max_bytes") if answer.get(quantity) is not None]
    if bounds or answer.get("phase"):
        plans = [chosen] if chosen is not None else [state.plan for state in decision.able if not state.because or state.because[0].id != "call"]
        limits = [evaluation.limits(plan) for plan in plans]
        for quantity in bounds:
            values = {one[quantity].value for one in limits if quantity in one}
            if answer[quantity] not in values:
                found.append(f"{quantity} {sorted(values)}")
        if answer.get("phase") and not any(answer["phase"] in one["phases"].value for one in limits if "phases" in one):
            found.append("phase")
    if answer.get("no_warn") and any(_matches(one, _accepted(str(answer["no_warn"]))) for one in warnings):
        found.append(f"warning {answer['no_warn']}")
    if answer.get("warn") and not any(_matches(one, _accepted(str(answer["warn"]))) for one in warnings):
        found.append(f"no warning {answer['warn']}")
    return tuple(found)
