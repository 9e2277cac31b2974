"""What changes, for which launches: between two packs, or from one release to another.

Only where a part of a decision differs can the decision differ: those boxes are exact, and where there is none nothing
changes for any launch. Inside each box launches are tried, first where the plan concerned can be taken on one side; a
change is shown with the smallest launch that was decided on both sides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from time import process_time
from typing import Any

from policy.analyse.boxes import Box, TooWideError, meet, merged, outside
from policy.analyse.cells import words
from policy.analyse.concrete import concrete, written
from policy.analyse.feasible import Feasible, declare
from policy.analyse.outcomes import can_be_on, is_never_on
from policy.analyse.outlook import Dependents, Footing, Fork, Silent
from policy.analyse.sides import Compared, Side
from policy.analyse.whole import taken
from policy.conditions import All
from policy.decision import Decision
from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.pack import Pack
from policy.records import dataclass, field, replace
from policy.values import Values

#: Launches that are tried on each side of a box in which a part differs.
TRIES = 6
#: CPU seconds of a comparison where the caller names no budget.
SECONDS = 30.0
Progress = Callable[[int, int, str], None]


def unseen(done: int, steps: int, what: str) -> None:
    """A progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a comparison looks at: the state, the chosen plan, and the reason of an off."""

    state: str
    plan: str = ""
    reason: str = ""

    @staticmethod
    def of(decision: Decision | None) -> Outcome:
        """The outcome of a decision; `no such fusion` where there is none."""
        if decision is None:
            return Outcome("no such fusion")
        plan = decision.chosen.id if decision.state == "on" and decision.chosen is not None else ""
        return Outcome(decision.state, plan, "" if decision.state == "on" else decision.reason.id or decision.reason.kind)

    def __str__(self) -> str:
        return f"{self.state}{f' with {self.plan}' if self.plan else ''}{f' because of {self.reason}' if self.reason else ''}"


@dataclass(frozen=True, slots=True)
class Change:
    """One region in which a fusion is decided otherwise, the parts that differ there, and a launch of it."""

    fusion: str
    facts: Mapping[str, Values]
    before: Outcome
    after: Outcome
    parts: tuple[str, ...]
    witness: Mapping[str, Any] | None
    alone_before: str = ""
    alone_after: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """What sort of change it is: lost, gained, plan, reason, or other."""
        if self.before.state == "on" != self.after.state:
            return "lost"
        if self.after.state == "on" != self.before.state:
            return "gained"
        return "plan" if self.before.plan != self.after.plan else "reason" if self.before.state == self.after.state else "other"


@dataclass(frozen=True, slots=True)
class Hit:
    """A given launch that is decided otherwise."""

    launch: str
    fusion: str
    before: Outcome
    after: Outcome
    alone_before: str
    alone_after: str


@dataclass(frozen=True, slots=True)
class Difference:
    """Every change found. `unexamined` counts the boxes, by fusion, that the budget left undecided."""

    old: str
    new: str
    posture: str
    changes: tuple[Change, ...]
    hits: tuple[Hit, ...] = ()
    unexamined: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether everything was looked at."""
        return not self.unexamined


def diff(
    old: Pack,
    new: Pack,
    launches: Sequence[tuple[str, Launch]] = (),
    fusions: Sequence[str] | None = None,
    posture: str = "safe",
    seconds: float = SECONDS,
    progress: Progress = unseen,
) -> Difference:
    """What another pack changes. Launches are stated by name, and decided by both packs."""
    sides = [Side(f"{pack.name} {pack.version} ({pack.digest})", pack) for pack in (old, new)]
    return compare(sides[0], sides[1], launches, fusions, posture, seconds, None, progress)


def upgrade(
    pack: Pack,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    launches: Sequence[tuple[str, Launch]] = (),
    fusions: Sequence[str] | None = None,
    posture: str = "safe",
    seconds: float = SECONDS,
    progress: Progress = unseen,
) -> Difference:
    """What other values of some facts change, such as `engine.version` (with `engine.name`) or a package's version. For
    given launches only the facts that differ are set. Raises `ValueProblem`, KeyError for an unknown fact."""
    changed = [fact for fact in after if before.get(fact) != after[fact]]
    sides = [Side.of(pack, ", ".join(f"{fact} {one[fact]}" for fact in changed if fact in one), one) for one in (before, after)]
    return compare(sides[0], sides[1], launches, fusions, posture, seconds, tuple(changed), progress)


def compare(
    old: Side,
    new: Side,
    launches: Sequence[tuple[str, Launch]] = (),
    fusions: Sequence[str] | None = None,
    posture: str = "safe",
    seconds: float = SECONDS,
    changed: Sequence[str] | None = None,
    progress: Progress = unseen,
) -> Difference:
    """Every change from one side to another. `progress` is told how many steps of how many are done, and at which fusion."""
    started = process_time()
    names = [name for name in dict.fromkeys((*old.pack.fusions, *new.pack.fusions)) if fusions is None or name in fusions]
    searches = {name: _Search(Compared(old, new, (name,)), name, posture) for name in names}
    sizes = {}
    for number, (name, search) in enumerate(searches.items()):
        progress(number, 2 * len(names), name)
        sizes[name] = search.prepare()
    changes: dict[str, list[Change]] = {}
    # the smallest first: what they leave of their shares is there for the others
    for number, name in enumerate(sorted(names, key=lambda name: sizes[name])):
        progress(len(names) + number, 2 * len(names), name)
        left = max(0.0, seconds - (process_time() - started))
        changes[name] = searches[name].run(left / (len(names) - number))
    unexamined = {name: searches[name].unexamined for name in names if searches[name].unexamined}
    hits = [hit for name, launch in launches for hit in _hits(old, new, name, launch, names, posture, changed)]
    found = tuple(change for name in names for change in changes[name])
    return Difference(old.name, new.name, posture, found, tuple(hits), unexamined, process_time() - started)


def _hits(old: Side, new: Side, name: str, launch: Launch, fusions: Sequence[str], posture: str, changed: Sequence[str] | None) -> Iterator[Hit]:
    verdicts = []
    for side in (old, new):
        pinned = {fact: values for fact, values in side.pinned.items() if changed is None or fact in changed}
        wanted = [fusion for fusion in fusions if fusion in side.pack.fusions]
        verdict = evaluate(side.pack, launch.with_facts(side.pack, pinned) if pinned else launch, posture, wanted)
        verdicts.append({decision.fusion: decision for decision in verdict.decisions})
    for fusion in fusions:
        before, after = (verdict.get(fusion) for verdict in verdicts)
        if Outcome.of(before) != Outcome.of(after) or alone(before) != alone(after):
            yield Hit(name, fusion, Outcome.of(before), Outcome.of(after), alone(before), alone(after))


def alone(decision: Decision | None) -> str:
    """What the engine does by itself, in words."""
    if decision is None:
        return ""
    state, built = decision.left_alone.state, decision.left_alone.built.replace("_", " ")
    return f"on, {built}" if state == "on" else state


class _Search:
    """One fusion: the boxes in which a part differs, and launches of them that are decided otherwise."""

    def __init__(self, compared: Compared, fusion: str, posture: str) -> None:
        self.compared, self.fusion, self.posture = compared, fusion, posture
        self.deadline = 0.0
        self.space = compared.space
        self.unexamined = 0
        self.parts: dict[str, list[Box]] = {}
        self.launches: dict[frozenset[tuple[str, int]], tuple[Box, dict[str, Any] | None]] = {}
        self.outcomes: dict[frozenset[tuple[str, str]], tuple[Outcome, Outcome]] = {}

    def prepare(self) -> int:
        """Find the boxes in which a part differs, and say how many there are."""
        declare(self.space)
        self.space.freeze()
        self.feasible = Feasible(self.space)
        found: dict[str, list[Box]] = {}
        try:
            for part, box in self.compared.differing(self.fusion):
                found.setdefault(part, []).append(box)
        except TooWideError:
            self.unexamined += 1
        self.parts = {part: merged(boxes, self.space.full) for part, boxes in found.items()}
        return sum(map(len, self.parts.values()))

    def run(self, seconds: float) -> list[Change]:
        """The changes found in these boxes in so many CPU seconds."""
        self.deadline = process_time() + seconds
        if not self.parts:
            return []
        self.sides = [On(self.compared, side, self.fusion, self.posture) for side in (self.compared.old, self.compared.new)]
        self.pinned = {name for side in self.sides for name in side.side.pinned}
        changes: dict[tuple[str, str, str, str, str], Change] = {}
        for number, (part, boxes) in enumerate(self.parts.items()):
            for box in boxes:
                if process_time() > self.deadline:
                    self.unexamined += len(self.parts) - number
                    return list(changes.values())
                for change in self._inside(part, box):
                    key = (str(change.before), str(change.after), change.alone_before, change.alone_after, str(sorted(box.items())))
                    held = changes.get(key)
                    changes[key] = change if held is None else replace(held, parts=(*held.parts, part))
        return list(changes.values())

    def _inside(self, part: str, box: Box) -> Iterator[Change]:
        """The changes found in one box in which a part differs, each kind once, with the smallest launch."""
        seen: set[tuple[Outcome, Outcome]] = set()
        plan = self.compared.plan_of(part)
        for candidate in self._candidates(box, plan):
            if process_time() > self.deadline:
                self.unexamined += 1
                return
            narrowed, facts = self._launch_in(candidate)
            if facts is None:
                continue
            outcome = self._outcome(facts)
            if outcome[0] != outcome[1] and outcome not in seen:
                seen.add(outcome)
                few = {name: value for name, value in facts.items() if name in narrowed}
                where = self.space.of_box(box)
                enough = self._outcome(few) == outcome and _lies_in(self.sides[1].trial(few), where)
                witness = self._smallest(few if enough else facts, outcome, where)
                alone_now = [alone(side.decision(witness)) for side in self.sides]
                texts = {name: words(self.space.fact(name), values) for name, values in where.items()}
                yield Change(self.fusion, where, *outcome, (part,), witness, alone_now[0], alone_now[1], texts)

    def _launch_in(self, box: Box) -> tuple[Box, dict[str, Any] | None]:
        """The box narrowed, and a launch of it that says everything; remembered, since parts often differ in the same boxes."""
        key = frozenset(box.items())
        held = self.launches.get(key)
        if held is None:
            narrowed = self.feasible.narrowed(box)
            found = concrete(self.feasible, self.feasible.filled(narrowed, self.pinned)) if narrowed is not None else None
            held = self.launches[key] = (narrowed or {}, None if found is None else written(found))
        return held

    def _candidates(self, box: Box, plan: str | None) -> Iterator[Box]:
        """Parts of a box to try: where the plan concerned (any plan) can be taken on one side, then any part of it."""
        for side in self.sides:
            yield from islice(side.regions((box,), plan), TRIES)
        part = self.feasible.part(box, ())
        if part is not None:
            yield part

    def _outcome(self, facts: Mapping[str, Any]) -> tuple[Outcome, Outcome]:
        key = frozenset((name, str(value)) for name, value in facts.items())
        held = self.outcomes.get(key)
        if held is None:
            before, after = (Outcome.of(side.decision(facts)) for side in self.sides)
            held = self.outcomes[key] = (before, after)
        return held

    def _smallest(self, facts: dict[str, Any], outcome: tuple[Outcome, Outcome], where: Mapping[str, Values]) -> dict[str, Any]:
        """The launch without the facts that the outcomes do not need, as far as it may still lie in the region; many are
        dropped at once as long as that works."""
        trials = [side.trial(facts) for side in self.sides]
        size = len(facts)
        while size:
            names = sorted(facts)
            for start in range(0, len(names), size):
                dropped = [name for name in names[start : start + size] if name in facts]
                fewer = [trial.without(dropped) for trial in trials]
                if _lies_in(fewer[1], where) and all(Outcome.of(one.decision) == wanted for one, wanted in zip(fewer, outcome, strict=True)):
                    trials = fewer
                    facts = {name: value for name, value in facts.items() if name not in dropped}
            size //= 2
        return facts


def _lies_in(trial: Trial, where: Mapping[str, Values]) -> bool:
    """Whether a launch may lie in a region; facts that another pack knows alone say nothing."""
    facts = trial.evaluation.facts
    return all(facts.pack.fact(name) is None or not facts.values(name).outside(values) for name, values in where.items())  # type: ignore[arg-type]


class On:
    """One side of a comparison: where a plan can be taken, as boxes, and the decision about a launch."""

    def __init__(self, compared: Compared, side: Side, fusion: str, posture: str) -> None:
        self.compared, self.side, self.posture, self.full = compared, side, posture, compared.space.full
        self.fusion = side.pack.fusions.get(fusion)
        self.plans: list[tuple[str, list[Box], list[Box]]] = []
        self.dependents = Dependents(side.pack)
        if self.fusion is None:
            return
        self.footing = Footing(side.pack, self.fusion)
        on, never = can_be_on(side.pack, self.fusion, posture), is_never_on(side.pack, self.fusion)
        off = compared.boxes(side, never, may=True)
        for plan in self.fusion.plans:
            admitted = All((plan.call, *plan.needs, taken(side.pack, self.fusion, plan), on))
            denied = [box for rule in side.pack.rules_for(plan) if rule.effect == "exclude" for box in compared.boxes(side, rule.when, may=True)]
            self.plans.append((plan.id, compared.boxes(side, admitted, may=False), [*denied, *off]))

    def regions(self, within: Sequence[Box], plan: str | None = None) -> Iterator[Box]:
        """Where a plan (the one named) can be taken, inside some boxes: one part of each."""
        for id, boxes, denied in self.plans:
            if plan in (None, id):
                met = [both for box in boxes for other in within if (both := meet(box, other)) is not None]
                random.Random(len(met)).shuffle(met)  # neighbours in the list are much alike: the first few should not be
                for both in met:
                    found = outside(both, denied, self.full)
                    if found is not None:
                        yield found

    def decision(self, facts: Mapping[str, Any]) -> Decision | None:
        """The decision about a launch on this side, as far as nothing is presumed."""
        return self.trial(facts).decision

    def trial(self, facts: Mapping[str, Any]) -> Trial:
        """A launch on this side, to be decided and varied."""
        launch = Launch.of(self.side.pack, {name: value for name, value in facts.items() if self.side.pack.fact(name) is not None})
        return Trial(self, Silent(Facts(self.side.pack, launch.with_facts(self.side.pack, self.side.pinned)), self.posture))


class Trial:
    """One launch on one side. A launch with fewer facts takes over what does not rest on those that were left out, and the
    decision too where no condition that it rests on is answered otherwise. `like` is the launch it was taken over from."""

    def __init__(self, on: On, evaluation: Silent, like: Trial | None = None) -> None:
        self.on, self.evaluation, self.like = on, evaluation, like

    @cached_property
    def decision(self) -> Decision | None:
        """What is decided about it; None where there is no such fusion."""
        if self.like is not None:
            return self.like.decision
        if self.on.fusion is None:
            return None
        decisions: dict[str, Decision] = {}
        for one in self.on.footing.needed:
            decisions[one.id] = self.evaluation.decide(one, decisions)
        return decisions[self.on.fusion.id]

    def without(self, names: Sequence[str]) -> Trial:
        """The launch without some facts; those that the side pins stay."""
        facts, dropped = self.evaluation.facts, [name for name in names if name not in self.on.side.pinned]
        touched = self.on.dependents.of(dropped)
        launch = Launch({name: given for name, given in facts.launch.given.items() if name not in dropped})
        fewer = Silent(Fork(facts, launch, touched), self.on.posture, self.evaluation, touched)
        decided = self.like or self
        same = decided.decision is not None and self._same_footing(facts, fewer.facts, touched)
        return Trial(self.on, fewer, decided if same and fewer.answers_like(decided.evaluation, touched, facts) else None)

    def _same_footing(self, before: Facts, after: Facts, touched: frozenset[str]) -> bool:
        footing = self.on.footing
        return touched.isdisjoint(footing.names) or footing.of(before) == footing.of(after)


def as_json(found: Difference) -> dict[str, Any]:
    """The stable keys of a difference."""
    return {
        "old": found.old,
        "new": found.new,
        "posture": found.posture,
        "complete": found.complete,
        "unexamined": dict(found.unexamined),
        "changes": [
            {
                "fusion": change.fusion,
                "kind": change.kind,
                "before": str(change.before),
                "after": str(change.after),
                "left_alone": {"before": change.alone_before, "after": change.alone_after},
                "where": dict(change.texts),
                "parts": list(change.parts),
                "witness": None if change.witness is None else dict(change.witness),
            }
            for change in found.changes
        ],
        "launches": [
            {
                "launch": hit.launch,
                "fusion": hit.fusion,
                "before": str(hit.before),
                "after": str(hit.after),
                "left_alone": {"before": hit.alone_before, "after": hit.alone_after},
            }
            for hit in found.hits
        ],
    }
