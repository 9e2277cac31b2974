"""A short evaluator that is obviously right: conditions by trying candidate values, outcomes as sets of what may come.

It shares the nouns of a pack and the resolution of facts with the product, and nothing of `policy/evaluate.py` or
`policy/engine_outcome.py`. `decide` answers what a property test compares: states, plans and what the engine does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from policy.conditions import All, AnyOf, Atom, Condition, Named, Not, SetTest
from policy.launch import Facts, Launch
from policy.pack import Arm, Fusion, Pack, Plan, Selector, Take
from policy.values import ABSENT, Discrete, Interval, Ordered, Values
from policy.versions import Version

Truth = bool | None
SEVERITIES = {"hang": 6, "wrong_numbers": 5, "crash": 4, "partly_fused": 3, "unfused": 2, "slower": 1}


# --- values and conditions ---


def candidates(values: Values, *others: Values | SetTest) -> list[Any]:
    """Enough members of a set that any question about the others has the answer that it has for all members."""
    tried: list[Any] = [ABSENT]
    if isinstance(values, Ordered):
        ends = {
            end
            for one in (values, *others)
            if isinstance(one, Ordered)
            for interval in one.intervals
            for end in (interval.low, interval.high)
            if end is not None
        }
        for end in ends:
            tried.extend(_around(end))
        if not ends:
            tried.extend([Version("1"), 1] if values.step == 0 else [1])
    else:
        named = {item for one in (values, *others) if isinstance(one, Discrete) for item in one.items}
        tests = {name for one in others if isinstance(one, SetTest) for name in one.names}
        subsets = [frozenset(chosen) for size in range(len(tests) + 1) for chosen in combinations(sorted(tests), size)]
        of_sets = bool(tests) or any(isinstance(item, frozenset) for item in named)
        tried.extend([*named, *(subsets if of_sets else ["a text that nobody names"])])
    return [one for one in tried if _member(one, values)]


def _around(end: Any) -> list[Any]:
    if not isinstance(end, Version):
        return [end - 1, end - 0.001, end, end + 0.001, end + 1]
    if end.dev is not None:
        return [Version(f"{end.base_version}.dev{end.dev + 1}"), end, Version("0.dev0"), Version("99")]
    return [
        Version(f"{end}.dev0"),
        end,
        Version(f"{end}.post9") if end.post is None else Version(f"{end.base_version}.post{end.post + 1}"),
        Version("0.dev0"),
        Version("99"),
    ]


def _member(one: Any, values: Values) -> bool:
    if isinstance(values, Ordered) and one is not ABSENT:
        if isinstance(one, float) and values.step:
            return False
        return any(_inside(one, interval) for interval in values.intervals)
    if one is ABSENT:
        return values.absent
    assert isinstance(values, Discrete)
    return (one in values.items) != values.cofinite


def _inside(one: Any, interval: Interval) -> bool:
    try:
        above = interval.low is None or one > interval.low or (one == interval.low and interval.low_closed)
        below = interval.high is None or one < interval.high or (one == interval.high and interval.high_closed)
    except TypeError:
        return False
    return above and below


def truth(condition: Condition, facts: Facts) -> Truth:
    """True, false, or None where it is not known."""
    if isinstance(condition, Atom):
        values, accepted = facts.values(condition.fact), condition.accepted
        answers = {accepted.accepts(one) if isinstance(accepted, SetTest) else _member(one, accepted) for one in candidates(values, accepted)}
        return answers.pop() if len(answers) == 1 else None
    if isinstance(condition, Named):
        return truth(condition.body, facts)
    if isinstance(condition, Not):
        inner = truth(condition.part, facts)
        return None if inner is None else not inner
    answers_of_parts = [truth(part, facts) for part in condition.parts]
    decisive = isinstance(condition, AnyOf)
    assert isinstance(condition, All | AnyOf)
    return decisive if decisive in answers_of_parts else None if None in answers_of_parts else not decisive


# --- plans ---


@dataclass
class PlanAnswer:
    """`sure` and `possible` consequences of taking the plan; `formed` says whether the call takes its form."""

    plan: Plan
    formed: Truth
    sure: list[str]
    possible: list[str]

    @property
    def state(self) -> str:
        return "excluded" if self.formed is False or self.sure else "undetermined" if self.formed is None or self.possible else "admitted"

    @property
    def clean(self) -> bool:
        """Whether nothing worse than not being created may come of it."""
        return self.formed is False or all(SEVERITIES[one] <= 2 for one in self.sure + self.possible)

    @property
    def outcomes(self) -> set[str]:
        """What may come of it."""
        if self.formed is False:
            return {"unfused"}
        worst = max(self.sure, key=lambda one: SEVERITIES[one], default="fused")
        found = {worst} | {one for one in self.possible if SEVERITIES[one] > SEVERITIES.get(worst, 0)} | ({"unfused"} if self.formed is None else set())
        return {"fused" if one == "slower" else one for one in found}


def plan_answer(pack: Pack, facts: Facts, plan: Plan, required: list[str]) -> PlanAnswer:
    """What is said about one plan; `required` holds the states of the fusions that it needs."""
    answer = PlanAnswer(plan, truth(plan.call, facts), [], [])

    def reason(holds: Truth, consequence: str) -> None:
        if holds is not False:
            (answer.sure if holds else answer.possible).append(consequence)

    for state in required:
        reason({"on": False, "off": True}.get(state), "unfused")
    for need in plan.needs:
        met = truth(need, facts)
        reason(None if met is None else not met, "unfused")
    pins = candidates(facts.values(f"request.{plan.fusion}_plan"), Discrete(frozenset((plan.id, plan.backend))))
    elsewhere = {pin not in (ABSENT, plan.id, plan.backend) for pin in pins}
    reason(elsewhere.pop() if len(elsewhere) == 1 else None, "unfused")
    about = [rule for rule in pack.rules.values() if rule.plans is not None and not rule.retired and _selects(rule.plans, plan)]
    for rule in about:
        if rule.effect == "exclude":
            reason(truth(rule.when, facts), rule.consequence or "unfused")
    if not answer.sure and answer.formed is not False:
        reason(_no_size_left(facts, plan, [(truth(rule.when, facts), rule.limits) for rule in about if rule.effect == "limit"]), "unfused")
    return answer


def _selects(selector: Selector, plan: Plan) -> bool:
    return all(plan.attributes.get(name) in wanted for name, wanted in selector.wanted.items())


def _no_size_left(facts: Facts, plan: Plan, limits: list[tuple[Truth, Any]]) -> Truth:
    """Whether the limits leave nothing: for the best and for the worst that the unknown may turn out to be."""
    listed = [(holds, quantity, raw) for holds, each in limits for quantity, raw in each.items()]
    listed.append((True, "max_bytes", f"request.{plan.fusion}_max_bytes"))

    def empty(worst: bool) -> bool:
        most, least, names = float("inf"), float("-inf"), None
        for holds, quantity, raw in listed:
            if holds is False or (holds is None and not worst):
                continue
            if isinstance(raw, list):
                names = set(raw) if names is None else names & set(raw)
                continue
            found = bounds(facts, quantity, raw)
            if quantity == "max_bytes":
                most = min(most, min(found) if worst else max(found))
            else:
                least = max(least, max(found) if worst else min(found))
        return most <= 0 or least > most or names == set() or least == float("inf")

    return True if empty(False) else None if empty(True) else False


def bounds(facts: Facts, quantity: str, raw: Any) -> list[float]:
    """The smallest and the largest possible bound."""
    if not isinstance(raw, str):
        return [raw]
    values, unbounded = facts.values(raw), float("inf") if quantity.startswith("max_") else float("-inf")
    assert isinstance(values, Ordered)
    found = [unbounded] if values.absent else []
    if values.intervals:
        low, high = values.intervals[0].low, values.intervals[-1].high
        found += [float("-inf") if low is None else low, float("inf") if high is None else high]
    return found


# --- the engine ---


@dataclass
class EngineAnswer:
    """What the engine does left alone. `chains` are the chains of plans that it may follow, None where nobody knows."""

    states: set[str]
    chains: list[tuple[list[list[PlanAnswer]], bool]] | None
    may_die: bool

    @property
    def state(self) -> str:
        return next(iter(self.states)) if len(self.states) == 1 else "unknown"

    @property
    def built(self) -> str:
        """What comes of it."""
        if self.state in ("off", "dies"):
            return {"off": "unfused", "dies": "crash"}[self.state]
        if self.state == "unknown" or not self.chains:
            return "unknown"
        ends = {end if len(ends_of_chain) == 1 else "unknown" for chain in self.chains for ends_of_chain in [_built(*chain)] for end in ends_of_chain}
        return ends.pop() if len(ends) == 1 else "unknown"

    def reachable(self) -> list[PlanAnswer] | None:
        """The plans it may end up with."""
        if self.chains is None:
            return None
        found = []
        for links, falls_back in self.chains:
            for link in links:
                found += link
                stuck = any(SEVERITIES[one] > 2 for answer in link for one in (answer.sure if answer.formed is not False else []))
                if not falls_back or stuck:
                    break
        return found

    def taken(self) -> PlanAnswer | None:
        """The admitted plan that every chain is sure to end with."""
        ends = [_end(*chain) for chain in self.chains or []]
        return ends[0] if ends and all(end is not None and end is ends[0] for end in ends) else None


def _built(links: list[list[PlanAnswer]], falls_back: bool) -> set[str]:
    here = {outcome for answer in links[0] for outcome in answer.outcomes}
    if falls_back and "unfused" in here and links[1:]:
        return (here - {"unfused"}) | _built(links[1:], falls_back)
    return here


def _end(links: list[list[PlanAnswer]], falls_back: bool) -> PlanAnswer | None:
    if not links:
        return None
    formed = [answer for answer in links[0] if answer.formed is not False]
    if len(formed) == 1 and formed[0].state == "admitted":
        return formed[0]
    return _end(links[1:], falls_back) if falls_back and all(answer.clean for answer in formed) else None


def engine_answer(facts: Facts, pack: Pack, fusion: Fusion, answers: list[PlanAnswer]) -> EngineAnswer:
    """The gate's answers over every release, request and chain that are possible."""
    name = facts.values("engine.name").single()
    product = pack.products.get(name) if isinstance(name, str) else None
    if product is None or product.role != "engine":
        return EngineAnswer({"unknown"}, None, name is None)
    gate = product.gates.get(fusion.id)
    if gate is None:
        return EngineAnswer({"off"}, [], False)
    states: set[str] = set()
    chains: list[tuple[list[list[PlanAnswer]], bool]] | None = []
    may_die = False
    for arm in _arms(facts, gate.arms.rows):
        if arm is None or not arm.known:
            states.add("unknown")
            chains = None
            continue
        dies = truth(arm.dies, facts)
        may_die = may_die or dies is not False
        states |= {"dies"} if dies else _gate_states(facts, fusion, arm) | ({"unknown"} if dies is None else set())
        chains = None if chains is None else chains + [_chain(take, answers) for take in arm.takes if truth(take.when, facts) is not False]
    return EngineAnswer(states, chains, may_die)


def _arms(facts: Facts, rows: Any) -> list[Arm | None]:
    """The arms of the possible releases; None below the first row."""
    found: list[Arm | None] = []
    starts = [Version(f"{since}.dev0") for since, _ in rows]
    cuts = Ordered.of([Interval(start, True, None, False) for start in starts])
    for release in candidates(facts.values("engine.version"), cuts, *(Ordered.exactly(start) for start in starts)):
        arm = next((arm for start, (_, arm) in reversed(list(zip(starts, rows, strict=True))) if release >= start), None)
        if all(arm is not other for other in found):
            found.append(arm)
    return found


def _gate_states(facts: Facts, fusion: Fusion, arm: Arm) -> set[str]:
    asked = candidates(facts.values(f"request.{fusion.id}"))
    conditions = [arm.unset if one is ABSENT else arm.requested_on if one == "on" else arm.requested_off for one in asked]
    return {{True: "on", False: "off", None: "unknown"}[truth(condition, facts)] for condition in conditions}


def _chain(take: Take, answers: list[PlanAnswer]) -> tuple[list[list[PlanAnswer]], bool]:
    links = []
    for link in take.chain:
        selected = [answer for answer in answers if _selects(link, answer.plan)]
        links.append([answer for answer in selected if answer.formed is not False] or selected)
    return links, take.falls_back


# --- the decision ---


@dataclass
class Answer:
    """What the property test compares."""

    state: str
    plan: str | None
    able: dict[str, str]
    engine: str
    built: str


def decide(pack: Pack, launch: Launch, posture: str = "safe", strict: bool = False, presuming: bool = False) -> dict[str, Answer]:
    """The answer for every fusion; presumptions are made only where `presuming`."""
    facts = Facts(pack, launch, strict, presuming)
    found: dict[str, Answer] = {}
    while len(found) < len(pack.fusions):
        for fusion in pack.fusions.values():
            if fusion.id not in found and all(other in found for other in (*fusion.requires, *fusion.after)):
                found[fusion.id] = _decided(pack, facts, fusion, posture, [found[other].state for other in fusion.requires])
    return found


def _decided(pack: Pack, facts: Facts, fusion: Fusion, posture: str, required: list[str]) -> Answer:
    answers = [plan_answer(pack, facts, plan, required) for plan in fusion.plans]
    engine = engine_answer(facts, pack, fusion, answers)
    able = {answer.plan.id: answer.state for answer in answers}
    state, plan = _state(pack, facts, fusion, posture, answers, engine)
    return Answer(state, plan, able, engine.state, engine.built)


def _state(pack: Pack, facts: Facts, fusion: Fusion, posture: str, answers: list[PlanAnswer], engine: EngineAnswer) -> tuple[str, str | None]:
    if posture == "audit":
        return {"on": "on", "off": "off", "dies": "off"}.get(engine.state, "undetermined"), None
    asked = set(candidates(facts.values(f"request.{fusion.id}")))
    builders = set(candidates(facts.values("runtime.builder")))
    if asked == {"off"}:
        return "off", None
    known = pack.engine(str(facts.values("engine.name").single()))
    switches = [] if known is None else [one for one in known.switches if one.fusion == fusion.id and one.kind != "none"]
    versions = facts.values("engine.version")
    assert isinstance(versions, Ordered)
    sure = [one for one in switches if one.covers(versions) and truth(one.when, facts) is True]
    maybe = [one for one in switches if one.overlaps(versions) and truth(one.when, facts) is not False]

    def reached(plan: Plan, by: list[Any]) -> bool:
        return any(one.turn == "plan" and _selects(one.reaches, plan) for one in by)

    reachable = engine.reachable()
    open_menu = "adapter" in builders or known is None or reachable is None
    menu = answers if open_menu else [answer for answer in answers if answer in (reachable or []) or reached(answer.plan, maybe)]
    if all(answer.state == "excluded" for answer in menu):
        return "off", None
    wish = _wish(facts, fusion, posture, asked, builders, engine, [one.turn for one in sure], [one.turn for one in maybe])
    if wish is not True:
        return "off" if wish is False else "undetermined", None
    preferred = sorted(answers, key=lambda answer: truth(answer.plan.when, facts) is not True)
    admitted = [answer for answer in preferred if answer.state == "admitted"]
    taken: PlanAnswer | None = None
    if builders == {"adapter"}:
        taken = next(iter(admitted), None)
    elif builders == {"engine"}:
        taken = engine.taken() or next((answer for answer in admitted if reached(answer.plan, sure)), None)
    return ("on", taken.plan.id) if taken is not None else ("undetermined", None)


def _wish(facts: Facts, fusion: Fusion, posture: str, asked: set[Any], builders: set[Any], engine: EngineAnswer, sure: list[str], maybe: list[str]) -> Truth:
    """Whether the posture wants the fusion on, whatever can be built."""
    if engine.state == "dies":
        return False
    adapter_may_run = builders == {"adapter"} and not engine.may_die
    if posture == "safe":
        if engine.state == "on" or (asked == {"on"} and adapter_may_run):
            wish: Truth = True
        elif len(asked) > 1 or engine.state == "unknown" or (asked == {"on"} and len(builders) > 1):
            wish = None
        else:
            wish = False
    else:
        wish = truth(fusion.wanted, facts)
        if wish is not False and engine.state != "on" and not adapter_may_run:
            if engine.state == "unknown" or len(builders) > 1:
                wish = None
            elif "on" not in sure:
                wish = None if "on" in maybe else False
    return None if wish is True and "off" in asked else wish
