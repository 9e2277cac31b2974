"""The evaluation itself, asked of whole boxes: facts are sets, so an answer that is settled for a set holds for every
launch in it. Where it is not settled, a fact that keeps it open is split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Generic, TypeVar

from policy.analyse.boxes import Box, TooWideError
from policy.analyse.outlook import Fork, Outlook
from policy.analyse.regions import Analysis
from policy.analyse.relevant import required, silent_conditions
from policy.conditions import Condition, Truth
from policy.decision import Decision, Finding
from policy.derive import DERIVED
from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.pack import Fusion

Label = TypeVar("Label")
#: Boxes that one exploration asks at most.
NODES = 5000


class Inheriting(Evaluation):
    """An evaluation of a box inside another one, which takes over the answers that rest on nothing narrowed."""

    def __init__(self, facts: Facts, posture: str, before: Inheriting | None = None, narrowed: frozenset[str] = frozenset()) -> None:
        super().__init__(facts, posture)
        self._answers: dict[int, tuple[Condition, Truth, tuple[Finding, ...]]] = {}
        self._spoken: dict[int, frozenset[str]] = {} if before is None else before._spoken
        if before is not None:
            self._answers = {key: held for key, held in before._answers.items() if narrowed.isdisjoint(self._spoken[key])}
            self._rules = {key: held for key, held in before._rules.items() if all(atom.fact not in narrowed for atom in self.pack.rules[key].when.atoms())}

    def ask(self, condition: Condition) -> tuple[Truth, tuple[Finding, ...]]:
        """A condition's answer with what decided it, remembered."""
        key = id(condition)
        held = self._answers.get(key)
        if held is None:
            truth, findings = super().ask(condition)
            held = self._answers[key] = (condition, truth, findings)
            if key not in self._spoken:
                self._spoken[key] = frozenset(atom.fact for atom in condition.atoms())
        return held[1], held[2]


@dataclass(frozen=True, slots=True)
class Node:
    """One box with the decision about it."""

    box: Box
    evaluation: Inheriting
    decision: Decision


Settle = Callable[[Node, bool], "Label | None"]


@dataclass(slots=True)
class Explorer(Generic[Label]):
    """Splits boxes of a space until the answer about one fusion is settled. `settle(node, last)` gives the label of a
    box, or None where it is not settled yet; with `last` nothing is left to split. `asked` are further conditions that a
    label depends on."""

    analysis: Analysis
    fusion: Fusion
    posture: str
    settle: Settle[Label]
    asked: Sequence[Condition] = ()
    nodes: int = NODES
    seconds: float = 60.0
    needed: list[Fusion] = field(init=False)
    outlook: Outlook = field(init=False)
    stated: tuple[str, ...] = field(init=False)
    unseen: list[Condition] = field(init=False)

    def __post_init__(self) -> None:
        pack = self.analysis.pack
        self.unseen = list(silent_conditions(pack, self.fusion))
        self.needed = required(pack, self.fusion)
        full = self.analysis.space.full
        self.stated = tuple(name for name in full if name not in DERIVED or not self.analysis.feasible.bases(name))
        launch = Launch()
        launch = launch.with_facts(pack, {name: self.analysis.space.fact(name).domain for name in self.stated})
        self.outlook = Outlook(pack, launch, self.fusion, self.posture, True)

    def leaves(self, box: Mapping[str, int]) -> Iterator[tuple[Box, Label]]:
        """The settled parts of a box, which share nothing. Raises `TooWideError` where there are too many."""
        deadline = process_time() + self.seconds
        full = self.analysis.space.full
        start = {name: mask for name, mask in box.items() if mask != full[name]}
        changes = {name: self.analysis.space.values(name, mask) for name, mask in start.items() if name in self.stated}
        waiting: list[tuple[Box, Inheriting]] = [(start, Inheriting(self.outlook.fork(changes), self.posture))]
        left = self.nodes
        while waiting:
            here, evaluation = waiting.pop()
            if not self._holds(here, evaluation.facts):
                continue
            left -= 1
            if left < 0 or process_time() > deadline:
                raise TooWideError
            node = Node(here, evaluation, self._decide(evaluation))
            label = self.settle(node, False)
            if label is None:
                name = self._to_split(node)
                if name is not None:
                    waiting.extend((part, self._narrower(evaluation, name, part[name])) for part in reversed(self._parts(here, name)))
                    continue
                label = self.settle(node, True)
            if label is not None:
                yield here, label

    def _decide(self, evaluation: Evaluation) -> Decision:
        decisions: dict[str, Decision] = {}
        for fusion in self.needed:
            decisions[fusion.id] = evaluation.decide(fusion, decisions)
        return decisions[self.fusion.id]

    def _holds(self, box: Mapping[str, int], facts: Facts) -> bool:
        """Whether the derived facts leave anything of the box."""
        space = self.analysis.space
        return all(space.touching(name, facts.values(name)) & mask for name, mask in box.items() if name not in self.stated)

    def _narrower(self, evaluation: Inheriting, name: str, mask: int) -> Inheriting:
        facts, dependents = evaluation.facts, self.outlook.dependents(name)
        launch = facts.launch.with_facts(facts.pack, {name: self.analysis.space.values(name, mask)})
        return Inheriting(Fork(facts, launch, dependents), self.posture, evaluation, dependents)

    def _to_split(self, node: Node) -> str | None:
        """The fact that keeps most conditions open, of those that can be split."""
        found: Counter[str] = Counter()
        decision, facts = node.decision, node.evaluation.facts
        findings = [*decision.left_alone.findings, *decision.reason.findings, *(finding for state in decision.able for reason in state.because for finding in reason.findings)]
        for condition in (*self.unseen, *self.asked):
            truth, open_ = node.evaluation.ask(condition)
            findings.extend(open_ if truth is None else ())
        for finding in findings:
            if finding.truth is None and facts.pack.fact(finding.fact) is not None:
                found.update(facts.bases(finding.fact))
        found.update(decision.unknown_facts)
        for name, _ in sorted(found.items(), key=lambda one: (-one[1], one[0])):
            if name in self.stated and self._cells(node.box, name) > 1:
                return name
        return None

    def _cells(self, box: Mapping[str, int], name: str) -> int:
        return box.get(name, self.analysis.space.full[name]).bit_count()

    def _parts(self, box: Box, name: str) -> list[Box]:
        """The box cut along one fact: cell by cell where there are few, else into two halves."""
        mask = box.get(name, self.analysis.space.full[name])
        bits = [1 << number for number in range(mask.bit_length()) if mask >> number & 1]
        if len(bits) <= 4:
            return [{**box, name: bit} for bit in bits]
        half = len(bits) // 2
        return [{**box, name: sum(bits[:half])}, {**box, name: sum(bits[half:])}]
