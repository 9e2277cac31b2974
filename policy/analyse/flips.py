"""The smallest changes that turn a fusion on for one launch, each decided again before it is named.

The search starts from what decided: at least one of the facts in the way must change, so only those are moved, over the
cells of their domains. Changes of one fact come first; two facts are tried where no single one below the cost of
another machine is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from time import process_time

from policy.analyse.moves import Move, Moves, cost_rank
from policy.analyse.outlook import Outlook
from policy.analyse.relevant import request_names
from policy.conditions import decisive
from policy.decision import Because, Decision, Finding, Flip
from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.pack import REQUEST_PREFIX, Pack
from policy.records import dataclass, field

#: CPU seconds that a search takes at most where its caller names no budget.
BUDGET = 0.15
MACHINE = cost_rank("machine")
#: Changes that are tried between two looks at the clock, which costs as much as some of them.
TRIES_BETWEEN_LOOKS = 8


@dataclass(frozen=True, slots=True)
class Flips:
    """The flips found; `complete` is False where the budget ended the search; `fixed` are the facts in the way that
    cannot change for this launch, or only with another machine, as `{fact: value in words}`."""

    found: tuple[Flip, ...] = ()
    complete: bool = True
    fixed: Mapping[str, str] = field(default_factory=dict)


def flips(
    pack: Pack, launch: Launch, fusion: str, posture: str = "safe", budget: float = BUDGET, strict: bool = False, decided: Decision | None = None
) -> list[Flip]:
    """Every minimal change of facts that turns `fusion` on without a further switch, fewest facts and cheapest first."""
    return list(search(pack, launch, fusion, posture, budget, strict, decided).found)


def search(
    pack: Pack, launch: Launch, fusion: str, posture: str = "safe", budget: float = BUDGET, strict: bool = False, decided: Decision | None = None
) -> Flips:
    """The same with what is known about the search: whether it was complete, and which fixed facts are in the way.
    `budget` is CPU seconds. In posture audit the answer is that of posture safe. `decided` is the decision about the
    launch, where the caller has it. KeyError where there is no such fusion."""
    return _Search(pack, launch, fusion, "safe" if posture == "audit" else posture, budget, strict).run(decided)


class _OutOfBudgetError(Exception):
    """The search has to end here."""


class _Search:
    def __init__(self, pack: Pack, launch: Launch, fusion: str, posture: str, budget: float, strict: bool) -> None:
        self.pack, self.launch, self.fusion, self.posture, self.strict = pack, launch, pack.fusions[fusion], posture, strict
        self.deadline, self.tried = process_time() + budget, 0
        self.outlook = Outlook(pack, launch, self.fusion, posture, strict)
        self.facts = self.outlook.base
        self.moves = Moves(pack, launch, self.fusion, self.facts)

    def run(self, decided: Decision | None) -> Flips:
        # a provisional decision rests on presumptions, which a search does not make
        known = decided is not None and decided.posture == self.posture and not decided.provisional
        decision = decided if decided is not None and known else self._decide(self.outlook.evaluation)
        if decision.state == "on":
            return Flips()
        in_the_way = self.in_the_way(decision, self.facts)
        complete, singles, pairs = True, dict[str, list[Move]](), list[tuple[Move, Move]]()
        try:
            tried = self._singles(in_the_way, singles)
            if all(cost_rank(self.moves.cost(name)) >= MACHINE for name in singles):
                self._pairs(tried, pairs)
        except _OutOfBudgetError:
            complete = False
        found = [Flip({name: self.moves.shown(name, moves)}, self.moves.cost(name)) for name, moves in singles.items()]
        found.extend(self._joined(pairs))
        found.sort(key=lambda flip: (len(flip.changes), cost_rank(flip.cost), sorted(flip.changes)))
        return Flips(tuple(found), complete, self._fixed(decision, found))

    def _singles(self, names: Iterable[str], into: dict[str, list[Move]]) -> list[Move]:
        """Moves of one fact that are enough; those that are not are returned."""
        failed: list[Move] = []
        for name in self.moves.order(names):
            for move in self.moves.of(name):
                if not self._turns_on((move,)):
                    failed.append(move)
                    continue
                into.setdefault(name, []).append(move)
                if name.startswith(REQUEST_PREFIX):
                    break  # dropping the request is a smaller change than asking for the opposite
        return failed

    def _pairs(self, firsts: list[Move], into: list[tuple[Move, Move]]) -> None:
        seen: set[frozenset[Move]] = set()
        for first in firsts:
            if cost_rank(self.moves.cost(first.fact)) >= MACHINE:
                continue
            facts = self.outlook.fork({first.fact: first.values})
            decision = self._decide(self.outlook.evaluate(facts, (first.fact,)))
            for name in self.moves.order(self.in_the_way(decision, facts) - {first.fact}):
                if cost_rank(self.moves.cost(name)) >= MACHINE:
                    continue
                for second in self.moves.of(name):
                    both = frozenset((first, second))
                    if both not in seen:
                        seen.add(both)
                        if self._turns_on((first, second)):
                            into.append((first, second))

    def _joined(self, pairs: list[tuple[Move, Move]]) -> Iterator[Flip]:
        """Pairs of the same two facts as few flips: equal partners of one fact's moves are merged."""
        by_facts: dict[tuple[str, str], dict[Move, list[Move]]] = {}
        for one, two in pairs:
            first, second = sorted((one, two), key=lambda move: move.fact)
            by_facts.setdefault((first.fact, second.fact), {}).setdefault(first, []).append(second)
        for (one_fact, two_fact), partners in by_facts.items():
            merged: dict[frozenset[Move], list[Move]] = {}
            for first_move, seconds in partners.items():
                merged.setdefault(frozenset(seconds), []).append(first_move)
            dearest = max((self.moves.cost(one_fact), self.moves.cost(two_fact)), key=cost_rank)
            for those, firsts in merged.items():
                yield Flip({one_fact: self.moves.shown(one_fact, firsts), two_fact: self.moves.shown(two_fact, list(those))}, dearest)

    def _turns_on(self, moves: tuple[Move, ...]) -> bool:
        """Whether the fusion is on, without a further switch, once these facts have changed."""
        if self.tried % TRIES_BETWEEN_LOOKS == 0 and process_time() > self.deadline:
            raise _OutOfBudgetError
        self.tried += 1
        changes = {move.fact: move.values for move in moves}
        facts = self.outlook.fork(changes)
        if not self.moves.fits_machine(facts, changes):
            return False
        evaluation = self.outlook.silently(facts, changes)
        return self.outlook.may_be_on(evaluation) and self.outlook.decided(evaluation, self._is_on)

    def _is_on(self, evaluation: Evaluation) -> bool:
        decision = self._decide(evaluation)
        return decision.state == "on" and not decision.switches and evaluation.launch_state().state != "refused"

    def _decide(self, evaluation: Evaluation) -> Decision:
        decisions: dict[str, Decision] = {}
        for fusion in self.outlook.footing.needed:
            decisions[fusion.id] = evaluation.decide(fusion, decisions)
        return decisions[self.fusion.id]

    # --- what is in the way ---

    def in_the_way(self, decision: Decision, facts: Facts) -> set[str]:
        """Base facts of which at least one must change before the fusion can be on."""
        engine = facts.engine()
        names: set[str] = set()
        admitted = [state for state in decision.able if state.state == "admitted"]
        gate_is_off = decision.left_alone.state != "on" or decision.asked == "off"
        if gate_is_off or self.posture == "fast":
            names.update(finding.fact for finding in decision.left_alone.findings)
            names.add(request_names(self.fusion.id)[0])
        if self.posture == "fast":
            names.add("runtime.builder")
            names.update(met.atom.fact for met in decisive(self.fusion.wanted, facts)[1])
        if not admitted and (not gate_is_off or self.posture == "fast"):
            for state in decision.able:
                reasons = [self._facts_of(reason) for reason in state.because]
                names |= min(reasons, key=lambda facts: len(facts)) if reasons else set()
        elif admitted and not gate_is_off:
            for state in decision.able:
                for reason in state.because:
                    names.update(self._facts_of(reason))
            names.update(self.moves.chain_facts)
        bases = set().union(*(facts.bases(name) for name in names if self.pack.fact(name) is not None))
        if engine is not None:
            bases.add(engine.version_fact)
        return bases

    def _facts_of(self, reason: Because) -> set[str]:
        names = {finding.fact for finding in reason.findings}
        if reason.truth is None and reason.id in self.pack.rules:
            # a part that holds is no reason for what is not known, and yet the rule is settled where it changes
            names.update(atom.fact for atom in self.pack.rules[reason.id].when.atoms())
        if reason.id == "request":
            names.add(request_names(self.fusion.id)[1])
        if reason.effect == "limit":
            names.add(request_names(self.fusion.id)[2])
        if reason.effect == "requires":
            names.update(self.moves.facts_of_fusion(reason.id))
        return names

    def _fixed(self, decision: Decision, found: list[Flip]) -> dict[str, str]:
        """The facts that would have to change and cannot, or only with another machine; none where a flag or a package is enough."""
        if any(cost_rank(flip.cost) < MACHINE for flip in found):
            return {}
        names = {name for flip in found for name in flip.changes}
        if not found:
            for state in decision.able:
                stuck = [held for reason in state.because if reason.truth is True and (held := self._stuck(reason.findings))]
                if not stuck and not (state.because and state.because[0].id == "call"):
                    names = set()
                    break
                names.update(*stuck[:1])
            if decision.left_alone.state != "on":
                names.update(name for finding in decision.left_alone.findings for name in self._stuck((finding,)))
        return {name: self.facts.shown(name) for name in sorted(names)}

    def _stuck(self, findings: Iterable[Finding]) -> set[str]:
        """The known facts that findings rest on, where none of them can be changed by a flag or a package."""
        bases = set().union(*(self.facts.bases(finding.fact) for finding in findings)) - {"engine.name"}
        movable = [name for name in bases if self.moves.can_change(name) and cost_rank(self.moves.cost(name)) < MACHINE]
        return set() if movable else {name for name in bases if self.facts.get(name).values.single() is not None}
