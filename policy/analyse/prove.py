"""Invariants proved for all launches, or refuted by the smallest launch that breaks one.

What is forbidden is written as boxes, with the part of the decision that is plain conditions: a chosen plan is formed by
the call, has what it needs, and no rule about it may hold. Where boxes leave a part, the evaluation itself decides it,
and a launch is named only after it has been decided again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import process_time
from typing import Any

from policy.analyse.boxes import Box, TooWideError, meet, outside
from policy.analyse.concrete import launch_of
from policy.analyse.explore import Explorer, Node
from policy.analyse.invariants import ANSWERS, Answer, Clause, Invariant
from policy.analyse.lowering import PROBED, TABULATED
from policy.analyse.outcomes import requested
from policy.analyse.tree import conjuncts
from policy.analyse.whole import Whole
from policy.conditions import All, AnyOf, Condition, Not
from policy.decision import Decision
from policy.evaluate import evaluate
from policy.launch import Facts
from policy.pack import Fusion, Pack, Plan
from policy.records import dataclass, replace

#: CPU seconds for one invariant where the caller names no budget.
SECONDS = 20.0
#: Parts that are set aside, because one launch of them breaks nothing, before whole parts are decided.
DOUBTS = 30
PROVED, REFUTED, UNDECIDED = "proved", "refuted", "undecided"


class UnconfirmedError(Exception):
    """Boxes leave a part, and no launch of it could be made concrete and decided."""


@dataclass(frozen=True, slots=True)
class Refutation:
    """A launch that breaks an invariant, as facts one can write, with the decision about it."""

    facts: Mapping[str, Any]
    fusion: str
    posture: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found about one invariant. `status` is proved, refuted or undecided; `open` says what was not decided."""

    invariant: Invariant
    status: str
    traits: str
    refutation: Refutation | None = None
    seconds: float = 0.0
    open: str = ""

    def as_json(self) -> dict[str, Any]:
        """The stable keys of a proof."""
        found = self.refutation
        launch = None if found is None else {"facts": dict(found.facts), "fusion": found.fusion, "posture": found.posture, "decision": found.decision.as_json()}
        head = {"invariant": self.invariant.id, "title": self.invariant.title, "status": self.status, "traits": self.traits}
        return {**head, "refutation": launch, "open": self.open}


def prove(
    pack: Pack,
    invariants: Iterable[Invariant],
    traits: str = TABULATED,
    seconds: float = SECONDS,
    whole: Whole | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> list[Proof]:
    """Each invariant over all launches. `traits` is `tabulated` (as the tables say) or `probed` (any value). `whole` is a
    space over the pack that `conditions_asked` of the invariants took part in. `progress` is told how many of how many are
    done, and the next one's id."""
    found: list[Proof] = []
    invariants = list(invariants)
    if whole is None:
        whole = Whole(pack, traits, conditions_asked(invariants))
    for number, invariant in enumerate(invariants):
        if progress is not None:
            progress(number, len(invariants), invariant.id)
        started = process_time()
        status, refutation, open_ = PROVED, None, ""
        for fusion in invariant.of(pack):
            try:
                refutation = _refuted(whole, invariant, fusion, started + seconds)
            except TooWideError:
                status, open_ = UNDECIDED, open_ or f"more boxes than {seconds:g} s allow, at {fusion.id}"
            except UnconfirmedError:
                status, open_ = UNDECIDED, open_ or f"a part of the space is left at {fusion.id} in which no launch could be made concrete"
            if refutation is not None:
                status, open_ = REFUTED, ""
                break
        found.append(Proof(invariant, status, traits, refutation, process_time() - started, open_))
    return found


def conditions_asked(invariants: Iterable[Invariant]) -> list[Condition]:
    """The conditions on facts that invariants speak of."""
    return [condition for invariant in invariants for clause in invariant.forbidden for condition in clause.conditions]


def _refuted(whole: Whole, invariant: Invariant, fusion: Fusion, deadline: float) -> Refutation | None:
    for clause in invariant.forbidden:
        if not _concerns(clause, fusion):
            continue
        for posture in invariant.postures:
            search = _Search(whole, fusion, clause, posture, deadline)
            found = search.run()
            if found is not None:
                return found
            if not search.open:
                break  # what is settled by facts alone is the same in every posture
    return None


def _concerns(clause: Clause, fusion: Fusion) -> bool:
    """Whether a clause can hold of a fusion: some plan of it has what the clause wants."""
    selectors = [answer.selector for answer, meant in clause.answers if meant and answer.selector is not None]
    return all(any(selector.matches(plan) for plan in fusion.plans) for selector in selectors)


def _answer_conditions(whole: Whole, clause: Clause, fusion: Fusion) -> Iterator[Condition]:
    """The answers of a clause that are plain conditions on facts."""
    for answer, meant in clause.answers:
        condition = _as_condition(whole, answer, fusion)
        if condition is not None:
            yield condition if meant else Not(condition)


def _as_condition(whole: Whole, answer: Answer, fusion: Fusion) -> Condition | None:
    if answer.kind == "left_alone" and len(answer.values) == 1 and answer.values <= {"on", "dies"}:
        return whole.gate_is(fusion, next(iter(answer.values)))
    if answer.kind == "switch":
        return whole.switch(fusion, answer.values)
    if answer.kind == "asked":
        return AnyOf(tuple(requested(whole.pack, fusion, value) for value in sorted(answer.values)))
    return None


class _Search:
    """One clause, fusion and posture: is there a launch?"""

    def __init__(self, whole: Whole, fusion: Fusion, clause: Clause, posture: str, deadline: float) -> None:
        self.whole, self.pack, self.analysis = whole, whole.pack, whole.analysis
        self.fusion, self.clause, self.posture, self.deadline = fusion, clause, posture, deadline
        self.conditions = tuple(_flat(All((*clause.conditions, *_answer_conditions(whole, clause, fusion)))))
        self.wanted = [condition for condition in self.conditions if not isinstance(condition, Not)]
        # what must not hold is subtracted: spelling its opposite out would multiply the boxes
        self.denied = [box for condition in self.conditions if isinstance(condition, Not) for box in self.analysis.space.boxes(condition.part, may=True)]
        self.answers = [_positive(answer, meant) for answer, meant in clause.answers if answer.kind not in ("switch", "asked")]
        self.open = [answer for answer, _ in self.answers if _as_condition(whole, answer, fusion) is None]

    def run(self) -> Refutation | None:
        on = [answer for answer, meant in self.answers if meant and (answer.kind == "plan" or (answer.kind == "state" and answer.values == {"on"}))]
        if not on:
            return self._probed() or self._among(self.analysis.all_of(self.wanted), self.denied)
        undecided: TooWideError | UnconfirmedError | None = None
        for plan in self.fusion.plans:
            if all(answer.selector is None or answer.selector.matches(plan) is meant for answer, meant in self.answers if answer.kind == "plan"):
                try:
                    found = self._with_plan(plan)
                except (TooWideError, UnconfirmedError) as error:
                    undecided = error
                else:
                    if found is not None:
                        return found
        if undecided is not None:
            raise undecided
        return None

    def _probed(self) -> Refutation | None:
        """Launches at which a rule about a plan holds: a few of them, before everything is looked at."""
        built = [answer.values for answer, meant in self.answers if answer.kind == "built" and meant]
        for plan in self.fusion.plans if self.open else ():
            for rule in self.pack.rules_for(plan):
                if rule.effect == "exclude" and all(rule.consequence in values for values in built):
                    for box in self.analysis.all_of((*self.wanted, plan.call, *plan.needs, rule.when))[:4]:
                        part = self.analysis.feasible.part(box, self.denied)
                        found = self._shown(part) if part is not None else None
                        if found is not None:
                            return found
        return None

    def _with_plan(self, plan: Plan) -> Refutation | None:
        """The launches whose chosen plan can be this one."""
        left, denied = self.whole.left_of(self.clause, plan, lambda: self._left_of(plan))
        if not left:
            return None
        turned_on = self.analysis.space.boxes(self.whole.can_be_on(self.fusion, self.posture))
        return self._among([met for one in left for two in turned_on if (met := meet(one, two)) is not None], denied)

    def _left_of(self, plan: Plan) -> tuple[list[Box], list[Box]]:
        """Where a plan is admitted and everything wanted holds, as far as not all of it is denied; and what is denied."""
        rules = [rule.when for rule in self.pack.rules_for(plan) if rule.effect == "exclude"]
        denied = [box for rule in (*rules, self.whole.never_on(self.fusion)) for box in self.analysis.space.boxes(rule, may=True)]
        denied.extend(self.denied)
        admitted = self.analysis.all_of((*self.wanted, plan.call, *plan.needs))
        return [box for box in admitted if outside(box, denied, self.analysis.space.full) is not None], denied

    def _among(self, boxes: Sequence[Box], denied: Sequence[Box]) -> Refutation | None:
        """A launch in these boxes outside those: first by trying one of every part, then by deciding whole parts."""
        done, doubtful, waiting = list(denied), list[Box](), deque(boxes)
        while waiting and len(doubtful) < DOUBTS:
            if process_time() > self.deadline:
                raise TooWideError
            box = waiting.popleft()
            part = self.analysis.feasible.part(box, done)
            if part is not None:
                refutation = self._shown(part)
                if refutation is not None:
                    return refutation
                done.append(part)
                doubtful.append(part)
                waiting.append(box)  # its other parts after those of the other boxes
        if doubtful and not self.open:
            raise UnconfirmedError
        for part in doubtful:
            refutation = self._settled(part)
            if refutation is not None:
                return refutation
        if len(doubtful) >= DOUBTS:
            raise TooWideError
        return None

    def _settled(self, part: Box) -> Refutation | None:
        """The part decided by the evaluation, box by box."""
        explorer = Explorer(self.analysis, self.fusion, self.posture, self._label, self.conditions, seconds=max(0.0, self.deadline - process_time()))
        for box, broken in explorer.leaves(part):
            if broken:
                found = self._shown(box)
                if found is not None:
                    return found
        return None

    def _label(self, node: Node, last: bool) -> bool | None:
        answers = [node.evaluation.ask(condition)[0] for condition in self.conditions]
        for one, meant in self.answers:
            answer = _truth(one, node.decision, last)
            answers.append(answer if meant or answer is None else not answer)
        if False in answers:
            return False
        return None if None in answers and not last else None not in answers

    def _shown(self, box: Box) -> Refutation | None:
        """A launch of the box that breaks the invariant for sure, with as few facts as possible."""
        facts = self.analysis.witness(box)
        if facts is None or not self._breaks(facts):
            facts = self._full_witness(box)
            if facts is None or not self._breaks(facts):
                return None
        facts = self._smallest(facts)
        return Refutation(facts, self.fusion.id, self.posture, self._decision(facts))

    def _smallest(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The launch without the facts that it breaks the invariant without; what a machine or a model has goes first."""
        left = -1
        while left != len(facts):
            left = len(facts)
            for name in sorted(facts, key=lambda name: (not name.startswith(("device.", "model.", "packages.")), name)):
                fewer = {other: held for other, held in facts.items() if other != name}
                if self._breaks(fewer):
                    facts = fewer
        return facts

    def _full_witness(self, box: Box) -> dict[str, Any] | None:
        """A launch of the box in which every fact is stated, ordinarily where the box leaves a choice."""
        feasible = self.analysis.feasible
        narrowed = feasible.narrowed(box)
        if narrowed is None:
            return None
        return self.analysis.witness(feasible.filled(narrowed))

    def _decision(self, facts: Mapping[str, Any]) -> Decision:
        return evaluate(self.pack, launch_of(self.analysis.space, facts), self.posture, (self.fusion.id,))[self.fusion.id]

    def _breaks(self, facts: Mapping[str, Any]) -> bool:
        held = Facts(self.pack, launch_of(self.analysis.space, facts))
        if any(condition.truth(held) is not True for condition in self.conditions):
            return False
        if not self.answers:
            return True
        decision = self._decision(facts)
        return all(_truth(answer, decision, True) is meant for answer, meant in self.answers)


def _flat(condition: Condition) -> Iterator[Condition]:
    """A conjunction as its parts."""
    for _, part, negated in conjuncts(condition):
        yield Not(part) if negated else part


def _positive(answer: Answer, meant: bool) -> tuple[Answer, bool]:
    """The same answer without a negation, where its values are few and known."""
    if meant or answer.kind not in ANSWERS:
        return answer, meant
    return replace(answer, values=frozenset(ANSWERS[answer.kind]) - answer.values), True


def _truth(answer: Answer, decision: Decision, last: bool) -> bool | None:
    """Whether a decision is what an answer accepts; None where learning more may change it."""
    if answer.kind == "plan":
        if decision.state == "undetermined" and not last:
            return None
        chosen = decision.chosen if decision.state == "on" else None
        held = chosen is not None and answer.selector is not None and answer.selector.matches(chosen)
        return held if last or decision.state == "off" or not decision.better else None
    given = {"state": decision.state, "left_alone": decision.left_alone.state, "built": decision.left_alone.built}[answer.kind]
    if given in ("undetermined", "unknown") and not last:
        return None
    return given in answer.values


def render(proofs: Sequence[Proof]) -> str:
    """One line an invariant, and under a refuted one the launch that breaks it."""
    lines: list[str] = []
    for proof in proofs:
        detail = f"  ({proof.open})" if proof.open else ""
        lines.append(f"{proof.status:9}  {proof.invariant.id}: {proof.invariant.title}{detail}")
        if proof.refutation is not None:
            found = proof.refutation
            lines.append(f"           broken for {found.fusion} in posture {found.posture} by")
            lines.extend(f"             {name}: {_yaml(value)}" for name, value in sorted(found.facts.items()))
            chosen = f" with {found.decision.chosen.id}" if found.decision.chosen else ""
            lines.append(f"           where it is {found.decision.state}{chosen}: {found.decision.reason.title}")
    counts = {status: sum(1 for proof in proofs if proof.status == status) for status in (PROVED, REFUTED, UNDECIDED)}
    traits = {proof.traits for proof in proofs}
    how = "traits as tabulated" if traits <= {TABULATED} else "traits free, as probed" if traits == {PROBED} else "traits tabulated and probed"
    lines.append(f"{', '.join(f'{count} {status}' for status, count in counts.items() if count) or 'no invariants'} ({how})")
    return "\n".join(lines)


def _yaml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) and value[:1].isdigit() else str(value).lower() if isinstance(value, bool) else str(value)


__all__ = ["PROVED", "REFUTED", "UNDECIDED", "Proof", "Refutation", "prove", "render"]
