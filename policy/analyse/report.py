"""Everything that can be asked of a pack as a whole, in one run: what `policy check` adds to loading it."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time
from typing import Any

from policy.analyse.coverage import Idle, idle
from policy.analyse.gaps import Gap, gaps
from policy.analyse.invariants import Invariant, read_invariants
from policy.analyse.mutation import Score, mutation_score
from policy.analyse.mutation import render as score_lines
from policy.analyse.prove import PROVED, Proof, conditions_asked, prove
from policy.analyse.prove import render as proof_text
from policy.analyse.whole import Whole
from policy.pack import Pack
from policy.problems import Problem, Span
from policy.records import dataclass

#: Noticed mistakes of 100 below which a pack's cases count as too few.
ENOUGH = 95.0


@dataclass(frozen=True, slots=True)
class PackReport:
    """What was found about a pack; `seconds` is CPU time by part."""

    idle: tuple[Idle, ...]
    gaps: tuple[Gap, ...]
    score: Score
    proofs: tuple[Proof, ...]
    seconds: dict[str, float]

    def problems(self, pack: Pack) -> list[Problem]:
        """What has to be mended: things that make no difference, refuted invariants, cases that tell too little. Gaps are
        knowledge that is missing, no defect."""
        found = [Problem(f"{one.kind} `{one.id}`: {one.message}", _span(pack, one), "drop it, or narrow what covers it") for one in self.idle]
        for proof in self.proofs:
            if proof.status != PROVED:
                found.append(Problem(f"the invariant `{proof.invariant.id}` is {proof.status}", Span(proof.invariant.file), proof_text([proof])))
        if self.score.percent < ENOUGH:
            message = f"the cases notice {self.score.percent:.1f} % of the mistakes made, less than {ENOUGH:g} %"
            found.append(Problem(message, None, "add cases for those listed"))
        return found

    def as_json(self) -> dict[str, Any]:
        """The stable keys of a report."""
        score = self.score
        return {
            "idle": [{"kind": one.kind, "id": one.id, "message": one.message, "by": list(one.by)} for one in self.idle],
            "gaps": [gap.as_json() for gap in self.gaps],
            "mutation": {
                "made": score.made,
                "equivalent": score.equivalent,
                "by_written": score.by_written,
                "by_generated": score.by_generated,
                "generated_cases": score.cases,
                "percent": round(score.percent, 1),
                "percent_written": round(score.percent_written, 1),
                "survivors": [{"rule": one.rule, "condition": one.name, "mistake": one.words} for one in score.survivors],
                "unseen": [{"rule": one.rule, "condition": one.name, "mistake": one.words} for one in score.unseen],
            },
            "invariants": [proof.as_json() for proof in self.proofs],
        }


def report(pack: Pack, invariants: list[Invariant] | None = None) -> PackReport:
    """Ask everything of a pack. Raises `PackError` where an invariant of it cannot be read."""
    asked = read_invariants(pack) if invariants is None else invariants
    marks = [process_time()]
    whole = Whole(pack, further=conditions_asked(asked))
    marks.append(process_time())
    proofs = tuple(prove(pack, asked, whole=whole))
    marks.append(process_time())
    useless = tuple(idle(whole))
    marks.append(process_time())
    unread = tuple(gaps(pack))
    score = mutation_score(pack)
    marks.append(process_time())
    names = ("space", "invariants", "idle", "mutation and gaps")
    return PackReport(useless, unread, score, proofs, {name: marks[number + 1] - marks[number] for number, name in enumerate(names)})


def render(found: PackReport, gaps_shown: int = 20) -> str:
    """The report as text."""
    lines = [proof_text(found.proofs)]
    lines.extend(f"{one.kind} {one.id}: {one.message}" for one in found.idle)
    lines.extend(_gap_lines(found, gaps_shown))
    lines.extend(score_lines(found.score))
    lines.append(f"{sum(found.seconds.values()):.2f} s of CPU time: " + ", ".join(f"{name} {seconds:.2f}" for name, seconds in found.seconds.items()))
    return "\n".join(lines)


def _gap_lines(found: PackReport, most: int) -> Iterator[str]:
    for gap in found.gaps[:most]:
        yield f"not known: {gap.subject}: {gap.message}"
    if len(found.gaps) > most:
        yield f"and {len(found.gaps) - most} more gaps"


def _span(pack: Pack, one: Idle) -> Span | None:
    rule = pack.rules.get(one.id)
    place = rule.place if rule is not None else pack.fusions[one.id.split(" ")[0]].place if one.kind == "plan" else None
    return None if place is None else Span(f"{pack.folder}/{place.file}", place.line, place.column)
