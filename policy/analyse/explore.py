"""The evaluation itself, asked of whole boxes: facts are sets, so an answer that is settled for a set holds for every
launch in it. Where it is not settled, a fact that keeps it open is split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import process_time
from typing import Generic, TypeVar

from policy.analyse.boxes import Box, TooWideError
from policy.analyse.outlook import Fork, Inheriting, Outlook
from policy.analyse.regions import Analysis
from policy.analyse.relevant import required, silent_conditions
from policy.conditions import Condition
from policy.decision import Decision
from policy.derive import DERIVED
from policy.evaluate import Evaluation
from policy.launch import Facts, Launch
from policy.pack import Fusion
from policy.records import dataclass, field

Label = TypeVar("Label")
#: Boxes that one exploration asks at most.
NODES = 5000


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
        facts, dependents = evaluation.facts, self.outlook.dependents.of((name,))
        launch = facts.launch.with_facts(facts.pack, {name: self.analysis.space.values(name, mask)})
        return Inheriting(Fork(facts, launch, dependents), self.posture, evaluation, dependents)

    def _to_split(self, node: Node) -> str | None:
        """The fact that keeps most conditions open, of those that can be split."""
        found: Counter[str] = Counter()
        decision, facts = node.decision, node.evaluation.facts
        findings = [*decision.left_alone.findings, *decision.reason.findings]
        findings.extend(finding for state in decision.able for reason in state.because for finding in reason.findings)
        for condition in (*self.unseen, *self.asked):
            truth, open_ = node.evaluation.ask(condition)
            findings.extend(open_ if truth is None else ())
        for finding in findings:
            if finding.truth is None and facts.pack.fact(finding.fact) is not None:
                found.update(facts.bases(finding.fact))
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
