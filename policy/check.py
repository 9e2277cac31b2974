"""A pack against itself and its own cases: what loads, but is a mistake all the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from policy.conditions import Condition, Named, Not, decisive
from policy.facts import PACKAGE_PREFIX
from policy.launch import Facts, Launch
from policy.load import YamlSource
from policy.origin import Origin
from policy.pack import ENGINE_TRAITS, TRAIT_PREFIX, Pack, Rule
from policy.problems import Problem
from policy.records import dataclass, field

EXPECTED = {True: "fires", False: "silent", None: "unknown"}


@dataclass(slots=True)
class Report:
    """What a check found, and how many cases it ran."""

    problems: list[Problem] = field(default_factory=list)
    cases: int = 0


def check(pack: Pack, sources: Sequence[YamlSource]) -> Report:
    """Every mistake of a pack that loads."""
    report = Report()
    by_file = {source.place(()).file: source for source in sources}
    for rule in pack.rules.values():
        source = by_file[rule.place.file]
        report.problems.extend(_rule_problems(rule, source))
        for problem in _case_problems(pack, rule, source):
            report.problems.append(problem)
        report.cases += len(rule.cases)
    report.problems.extend(_lonely_facts(pack, by_file))
    report.problems.extend(_engine_traits(pack, sources))
    report.problems.extend(_unused(pack, sources))
    return report


def _path(rule: Rule, source: YamlSource) -> tuple[str | int, ...]:
    """Where the rule stands in its file: at its top, or in a row of a table."""
    if not rule.table:
        return ()
    for number, row in enumerate(source.value["rows"]):
        if f"{rule.table}/{row.get('id', number)}" == rule.id:
            return ("rows", number)
    return ()


def _rule_problems(rule: Rule, source: YamlSource) -> Iterator[Problem]:
    here = _path(rule, source)
    if rule.retired:
        return
    kinds = {case.expect for case in rule.cases}
    for kind in ("fires", "silent"):
        if kind not in kinds and not (kind == "silent" and not list(rule.when.atoms())):
            yield source.document.problem(
                (*here, "cases"), f"the rule `{rule.id}` has no case where it {'is silent' if kind == 'silent' else 'fires'}", "add one: a launch and `expect`"
            )
    if not rule.references:
        yield source.document.problem(here, f"the rule `{rule.id}` names no reference", "add `references: [OWNER/REPOSITORY#NUMBER]` or the source file")
    if not rule.why:
        yield source.document.problem(here, f"the rule `{rule.id}` does not say why", "add `why`: the mechanism, and what the user sees")
    if rule.title.endswith(".") or (
        rule.title[:1].isupper()
        and not rule.title.split()[0].isupper()
        and rule.title.split()[0].lower() == rule.title.split()[0].lower().strip("`")
        and rule.title.split()[0] in ("The", "A", "An", "This", "It", "There")
    ):
        yield source.document.problem(
            (*here, "title"), f"the title of `{rule.id}` is a sentence", "write a clause that completes `because …`: lower case, no full stop"
        )


def _case_problems(pack: Pack, rule: Rule, source: YamlSource) -> Iterator[Problem]:
    here = _path(rule, source)
    for number, case in enumerate(rule.cases):
        facts = Facts(pack, Launch.of(pack, case.launch, Origin("set")))
        truth, mets = decisive(rule.when, facts)
        got = EXPECTED[truth]
        if got != case.expect:
            met = "; ".join(f"{one.atom.fact} is {facts.shown(one.atom.fact)} against {one.text}" for one in mets[:4])
            path = (*here, "cases", number, "expect") if (*here, "cases", number, "expect") in source.document.values else (*here, "cases", number)
            does = "fires" if got == "fires" else f"is {got}"
            yield source.document.problem(path, f"the case `{case.name}` of `{rule.id}` expects {case.expect}, but the rule {does}", met)


def _lonely_facts(pack: Pack, by_file: dict[str, YamlSource]) -> Iterator[Problem]:
    """Facts that only one rule of the whole pack, and nothing else, asks for: often a misunderstanding."""
    asked: dict[str, set[str]] = {}
    for name, condition in _conditions(pack):
        for atom in condition.atoms():
            asked.setdefault(atom.fact, set()).add(name)
    for rule in pack.rules.values():
        if rule.asks or rule.retired:
            continue
        source = by_file[rule.place.file]
        for fact in sorted({atom.fact for atom in rule.when.atoms()}):
            if asked[fact] == {rule.id} and not fact.startswith(PACKAGE_PREFIX) and not _settable(pack, fact):
                yield source.document.problem(
                    (*_path(rule, source), "when"), f"no other rule and no engine setting speaks of `{fact}`", "state `asks: true` where that is meant"
                )


def _settable(pack: Pack, fact: str) -> bool:
    """Whether a launch can state the fact: an engine's setting or default names it, or the pack derives or assumes it."""
    declared = pack.fact(fact)
    if declared is not None and (declared.derived or declared.assume is not None or fact.startswith(TRAIT_PREFIX)):
        return True
    return any(
        fact in product.defaults or any(one.fact == fact for maps in (*product.settings.values(), *product.environment.values()) for one in maps)
        for product in pack.products.values()
    )


def _conditions(pack: Pack) -> Iterator[tuple[str, Condition]]:
    """Every condition of the pack with the name of what holds it."""
    for rule in pack.rules.values():
        yield rule.id, rule.when
    for fusion in pack.fusions.values():
        yield f"fusion {fusion.id}", fusion.wanted
        for plan in fusion.plans:
            for condition in (plan.call, plan.when, *plan.needs):
                yield f"plan {fusion.id} {plan.id}", condition
    for product in pack.products.values():
        for switch in product.switches:
            yield f"switch {product.name}", switch.when
        for gate in product.gates.values():
            for _, arm in gate.arms.rows:
                for condition in (arm.unset, arm.requested_on, arm.requested_off, arm.dies, *(take.when for take in arm.takes)):
                    yield f"gate {gate.id}", condition
    for fact in pack.facts.values():
        if fact.presume_when is not None:
            yield f"fact {fact.name}", fact.presume_when


def _engine_traits(pack: Pack, sources: Sequence[YamlSource]) -> Iterator[Problem]:
    """Every engine says something about every engine trait, and every trait of a library has rows."""
    for product in pack.products.values():
        missing = (
            [name for name in pack.facts if name.startswith(ENGINE_TRAITS) and name not in product.traits]
            if product.role == "engine" and product.traits
            else []
        )
        source = next((source for source in sources if source.kind == "traits" and source.file.startswith(f"products/{product.name}/")), None)
        for name in missing:
            if source is not None:
                yield source.document.problem(
                    ("traits",),
                    f"{product.title} says nothing about `{name}`",
                    "add rows for it; `value` may be left out for releases that were not read",
                    key=True,
                )


def _unused(pack: Pack, sources: Sequence[YamlSource]) -> Iterator[Problem]:
    """Traits and named conditions that nothing asks for."""
    asked: set[str] = set()
    names: set[str] = set()
    for _, condition in _conditions(pack):
        asked.update(atom.fact for atom in condition.atoms())
        names.update(_named(condition))
    from policy.derive import INPUTS

    asked.update(one for inputs in INPUTS.values() for one in inputs)
    limits = {value for rule in pack.rules.values() for value in rule.limits.values() if isinstance(value, str)}
    for source in sources:
        if source.kind == "facts" and source.value["group"] == "traits":
            for leaf in source.value["facts"]:
                if f"traits.{leaf}" not in asked | limits and not source.value["facts"][leaf].get("source"):
                    yield source.document.problem(
                        ("facts", leaf), f"nothing asks for the trait `traits.{leaf}`", "drop it, or say in `source` what reads it", key=True
                    )
        if source.kind in ("conditions", "gate"):
            for name in source.value.get("conditions", {}):
                if name not in names:
                    yield source.document.problem(("conditions", name), f"nothing names the condition `{name}`", "drop it", key=True)


def _named(condition: Condition) -> Iterable[str]:
    if isinstance(condition, Named):
        yield condition.name
        yield from _named(condition.body)
    elif isinstance(condition, Not):
        yield from _named(condition.part)
    elif hasattr(condition, "parts"):
        for part in condition.parts:
            yield from _named(part)
