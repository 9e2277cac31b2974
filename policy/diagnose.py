"""Which hazards a log speaks for: rules ranked by their symptoms found in it and by whether the launch satisfies them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from policy.conditions import Truth, decisive
from policy.decision import Finding
from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.pack import SEVERITY, Pack, Rule
from policy.records import dataclass


class Searched(Protocol):
    """A log that can be searched: `first` gives the first line that the pattern finds, with its number from 1; `word` is
    a word of ASCII that every such line has."""

    name: str

    def first(self, pattern: re.Pattern[str], word: str) -> tuple[int, str] | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Sighting:
    """One symptom in a log: the file, the line's number from 1, its text and the symptom."""

    file: str
    line: int
    text: str
    symptom: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """One rule that may explain a log: whether the launch satisfies it, what was seen, and what would settle it."""

    rule: Rule
    truth: Truth
    sightings: tuple[Sighting, ...]
    findings: tuple[Finding, ...]
    confirm: tuple[tuple[str, str], ...]

    @property
    def weight(self) -> tuple[int, int, int, int]:
        """Seen and satisfied first, then seen and possible, then satisfied without a symptom."""
        seen = len({sighting.symptom for sighting in self.sightings})
        satisfied = {True: 2, None: 1, False: 0}[self.truth]
        return (min(seen, 1) * 2 + satisfied if self.truth is not False else 0, seen, satisfied, SEVERITY.get(self.rule.consequence or "", 0))


@lru_cache(maxsize=1024)
def pattern(symptom: str) -> re.Pattern[str]:
    """A symptom as a pattern: its words in order, `…` for anything in one line, case left aside."""
    parts = [r"\s+".join(re.escape(word) for word in part.split()) for part in symptom.split("…")]
    return re.compile(".*?".join(parts), re.IGNORECASE)


def word_of(symptom: str) -> str:
    """The longest word of a symptom: a line without it is not the symptom."""
    return max(re.findall(r"[!-~]+", symptom.replace("…", " ")), key=len, default="")


def sightings(rule: Rule, logs: Sequence[Searched]) -> tuple[Sighting, ...]:
    """The first line of each log that shows each symptom of the rule."""
    found = []
    for symptom in rule.symptoms:
        for log in logs:
            seen = log.first(pattern(symptom), word_of(symptom))
            if seen is not None:
                found.append(Sighting(log.name, seen[0], seen[1].strip()[:200], symptom))
    return tuple(found)


def suspects(pack: Pack, launch: Launch, logs: Sequence[Searched]) -> list[Suspect]:
    """The rules that may explain the logs, the likeliest first. A rule is a suspect where a symptom was seen and the
    launch does not contradict it, or where the launch satisfies it and its consequence would show."""
    facts = Facts(pack, launch)
    evaluation = Evaluation(facts, "safe")
    found = []
    for rule in pack.rules.values():
        if rule.retired or rule.effect == "limit":
            continue
        truth, mets = decisive(rule.when, facts)
        if truth is True and rule.plans is not None and not _reachable(pack, evaluation, rule):
            truth = False
        seen = sightings(rule, logs)
        speaks = truth is True and rule.consequence in ("hang", "wrong_numbers", "crash") and facts.engine() is not None
        if truth is False or not (seen or speaks):
            continue
        findings = evaluation.findings(mets)
        found.append(Suspect(rule, truth, seen, findings, tuple(_confirm(pack, facts, findings))))
    return sorted(found, key=lambda one: (tuple(-part for part in one.weight), one.rule.id))


def _reachable(pack: Pack, evaluation: Evaluation, rule: Rule) -> bool:
    """Whether the launch's builder can make the call of a plan that the rule is about."""
    return any(
        evaluation.ask(plan.call)[0] is not False
        for fusion in pack.fusions.values()
        for plan in fusion.plans
        if rule.plans is not None and rule.plans.matches(plan)
    )


def _confirm(pack: Pack, facts: Facts, findings: Iterable[Finding]) -> Iterable[tuple[str, str]]:
    """Facts that are not known and how to find them out."""
    told: set[str] = set()
    for finding in findings:
        for name in sorted(facts.bases(finding.fact)):
            fact = pack.fact(name)
            if fact is not None and name not in told and not fact.known(facts.values(name)):
                told.add(name)
                yield name, fact.find_out
