"""Whether cases tell a rule from its neighbours: mistakes are made in its condition one at a time, and each has to
change the answer to a case. Mistakes that change the answer to no launch at all are proved to be none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from policy.analyse.boxes import TooWideError
from policy.analyse.difference import difference
from policy.analyse.generated import Known, Point, generated
from policy.analyse.mutants import Mutant, mutants
from policy.analyse.regions import Analysis
from policy.analyse.tree import Place, node_at, parts_of, replaced
from policy.conditions import All, AnyOf, Atom, Condition, Named, Not
from policy.launch import Facts, Launch
from policy.pack import Pack, Rule
from policy.records import dataclass, field
from policy.values import Values


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mistake that no case notices, though some launch would."""

    rule: str
    words: str
    name: str = ""


@dataclass(slots=True)
class Score:
    """How many mistakes were made, how many of them the written cases notice, how many only generated ones do, how many
    are none; and the rest. `unseen` are those that no written case notices."""

    made: int = 0
    by_written: int = 0
    by_generated: int = 0
    equivalent: int = 0
    cases: int = 0
    survivors: list[Survivor] = field(default_factory=list)
    unseen: list[Survivor] = field(default_factory=list)

    @property
    def percent(self) -> float:
        """Noticed mistakes of 100 that are some, with generated cases."""
        real = self.made - self.equivalent
        return 100.0 * (self.by_written + self.by_generated) / real if real else 100.0

    @property
    def percent_written(self) -> float:
        """Noticed mistakes of 100 that are some, by the cases that stand in the rules."""
        real = self.made - self.equivalent
        return 100.0 * self.by_written / real if real else 100.0


def mutation_score(pack: Pack, rules: Sequence[Rule] | None = None) -> Score:
    """Every rule of a pack (or these) against mistakes. A mistake in a named condition counts once, and any rule that
    uses the condition may notice it."""
    score = Score()
    shared: dict[tuple[str, str], list[_Try]] = {}
    for rule in pack.rules.values() if rules is None else rules:
        if rule.retired:
            continue
        tested = _Tested(pack, rule)
        score.cases += len(tested.made)
        own: list[_Try] = []
        for mutant in mutants(pack, rule.when, tested.known_values):
            tried = _Try(tested, mutant, tested.noticed(mutant))
            if not tried.answer:
                tested.unnoticed.append(mutant)
            (shared.setdefault((mutant.name, mutant.words), []) if mutant.name else own).append(tried)
        for tried in own:
            _count(score, [tried])
    for tries in shared.values():
        _count(score, tries)
    return score


@dataclass(frozen=True, slots=True)
class _Try:
    """One mistake in one rule, and which kind of case notices it."""

    tested: _Tested
    mutant: Mutant
    answer: str


def _count(score: Score, tries: Sequence[_Try]) -> None:
    score.made += 1
    answers = {tried.answer for tried in tries}
    if "written" in answers:
        score.by_written += 1
        return
    if "generated" not in answers and all(tried.tested.equivalent(tried.mutant) for tried in tries):
        score.equivalent += 1
        return
    survivor = Survivor(tries[0].tested.rule.id, tries[0].mutant.words, tries[0].mutant.name)
    score.unseen.append(survivor)
    if "generated" in answers:
        score.by_generated += 1
    else:
        score.survivors.append(survivor)


class _Tested:
    """The cases of one rule, ready to be asked of many similar conditions: answers are bits, one a case."""

    def __init__(self, pack: Pack, rule: Rule) -> None:
        self.pack, self.rule = pack, rule
        self.unnoticed: list[Mutant] = []
        self._analysis: Analysis | None = None
        self.made = generated(pack, rule.when)
        self.written = [_Case(Facts(pack, Launch.of(pack, case.launch))) for case in rule.cases]
        lookups: list[_Case | Point] = [*self.written, *(case.point for case in self.made)]
        self.lookups = lookups
        known = Known(pack, rule.when)
        self.known_values: dict[str, Sequence[Any]] = {atom.fact: known(atom.fact) for atom in rule.when.atoms()}
        self._atoms: dict[tuple[str, Any], tuple[int, int]] = {}
        self._cases: dict[str, list[tuple[Values, int]]] = {}
        self._nodes: dict[Place, tuple[int, int]] = {}
        self.whole = self._answer(rule.when, ())

    def noticed(self, mutant: Mutant) -> str:
        """Which kind of case notices a mistake: `written`, `generated`, or neither."""
        held = self._with(self.rule.when, (), mutant)
        changed = (held[0] ^ self.whole[0]) | (held[1] ^ self.whole[1])
        if changed & ((1 << len(self.written)) - 1):
            return "written"
        return "generated" if changed else ""

    def equivalent(self, mutant: Mutant) -> bool:
        """Whether a mistake that no case notices changes the answer to no launch at all."""
        if self._analysis is None:
            self._analysis = Analysis(self.pack, [self.rule.when, *(replaced(self.rule.when, one.place, one.by) for one in self.unnoticed)])
        before, analysis = node_at(self.rule.when, mutant.place), self._analysis
        try:
            for one, two in ((before, mutant.by), (mutant.by, before)):
                if analysis.feasible.holds_launches(*difference(analysis.space, self.rule.when, mutant.place, one, two)):
                    return False
        except TooWideError:
            return False
        return True

    def _with(self, condition: Condition, place: Place, mutant: Mutant) -> tuple[int, int]:
        """The answers of a tree with the mistake in it; what lies beside the way to it is known."""
        if place == mutant.place:
            return self._fresh(mutant.by)
        position, parts = mutant.place[len(place)], parts_of(condition)
        answers = [self._nodes[(*place, number)] for number in range(len(parts))]
        answers[position] = self._with(parts[position], (*place, position), mutant)
        return self._join(condition, answers)

    def _answer(self, condition: Condition, place: Place) -> tuple[int, int]:
        if isinstance(condition, Atom):
            held = self._of_atom(condition)
        else:
            held = self._join(condition, [self._answer(part, (*place, number)) for number, part in enumerate(parts_of(condition))])
        self._nodes[place] = held
        return held

    def _fresh(self, condition: Condition) -> tuple[int, int]:
        if isinstance(condition, Atom):
            return self._of_atom(condition)
        return self._join(condition, [self._fresh(part) for part in parts_of(condition)])

    def _join(self, condition: Condition, answers: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Bits of the cases that are true and of those that are false."""
        if isinstance(condition, Not):
            ((true, false),) = answers
            return false, true
        if isinstance(condition, Named):
            return answers[0]
        every = (1 << len(self.lookups)) - 1
        true, false = (every, 0) if isinstance(condition, All) else (0, every)
        for one_true, one_false in answers:
            if isinstance(condition, AnyOf):
                true, false = true | one_true, false & one_false
            else:
                true, false = true & one_true, false | one_false
        return true, false

    def _by_values(self, fact: str) -> list[tuple[Values, int]]:
        """The sets of values that a fact has in some case, with the bits of those cases."""
        held = self._cases.get(fact)
        if held is None:
            found: dict[int, tuple[Values, int]] = {}  # generated cases share the sets of equal values
            for number, lookup in enumerate(self.lookups):
                values = lookup.values(fact)
                found[id(values)] = (values, found.get(id(values), (values, 0))[1] | 1 << number)
            held = self._cases[fact] = list(found.values())
        return held

    def _of_atom(self, atom: Atom) -> tuple[int, int]:
        key = (atom.fact, atom.accepted)
        held = self._atoms.get(key)
        if held is None:
            true = false = 0
            for values, cases in self._by_values(atom.fact):
                answer = atom.of(values)
                if answer is True:
                    true |= cases
                elif answer is False:
                    false |= cases
            held = self._atoms[key] = (true, false)
        return held


@dataclass(slots=True)
class _Case:
    """A written case with the facts that it resolves to, each looked up once."""

    facts: Facts
    held: dict[str, Values] = field(default_factory=dict)

    def values(self, fact: str) -> Values:
        """What is possible."""
        found = self.held.get(fact)
        if found is None:
            found = self.held[fact] = self.facts.values(fact)
        return found


def render(score: Score, survivors: int = 20) -> Iterator[str]:
    """The score in a line, and the mistakes that nothing notices."""
    yield (
        f"mutation: {score.made} mistakes, {score.equivalent} of them none; written cases notice {score.percent_written:.1f} %, "
        f"with {score.cases} generated cases {score.percent:.1f} %"
    )
    for survivor in score.survivors[:survivors]:
        where = f" in `{survivor.name}`" if survivor.name else ""
        yield f"  not noticed: {survivor.rule}{where}: {survivor.words}"
    if len(score.survivors) > survivors:
        yield f"  and {len(score.survivors) - survivors} more"
