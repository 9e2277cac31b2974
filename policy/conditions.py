"""Conditions: one fact against constants, combined by all, any and not; three-valued because facts are sets.

`parse` reads a condition from YAML data; `Condition.truth` answers true, false or None (unknown); `Condition.findings`
lists the comparisons that decided, each with the value it met. Conditions are evaluated whole, so what decided does
not depend on the order they are written in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from policy.facts import Fact, ValueProblem, plain
from policy.records import dataclass
from policy.values import ABSENT, Discrete, Ordered, Values
from policy.versions import is_placeholder

Truth = bool | None
Path = tuple[str | int, ...]


class Lookup(Protocol):
    """What a condition asks of a launch."""

    def values(self, fact: str) -> Values:
        """The possible values of a fact."""
        ...


@dataclass(frozen=True, slots=True)
class SetTest:
    """A question about a set-typed fact: `contains` one name, `within` the names, `overlaps` the names."""

    operator: str
    names: frozenset[str]

    def accepts(self, value: Any) -> bool:
        """Whether one value satisfies the test."""
        if value is ABSENT:
            return False
        if self.operator == "within":
            return bool(value <= self.names)
        return bool(value >= self.names) if self.operator == "contains" else bool(value & self.names)


@dataclass(frozen=True, slots=True)
class Atom:
    """One fact against a set of accepted values (or a `SetTest`); `text` is the condition as its author wrote it."""

    fact: str
    accepted: Values | SetTest
    text: str

    def of(self, values: Values) -> Truth:
        """True inside, false outside, None across."""
        if isinstance(self.accepted, SetTest):
            points = values.points()
            answers = {self.accepted.accepts(point) for point in points} if points is not None else {True, False}
            return answers.pop() if len(answers) == 1 else None
        if values.within(self.accepted):  # type: ignore[arg-type]
            return True
        return False if values.outside(self.accepted) else None  # type: ignore[arg-type]

    def truth(self, lookup: Lookup) -> Truth:
        """The answer for a launch."""
        return self.of(lookup.values(self.fact))

    def atoms(self) -> Iterator[Atom]:
        """Itself."""
        yield self


@dataclass(frozen=True, slots=True)
class All:
    """True where every part is; an empty one is always true."""

    parts: tuple[Condition, ...]

    def truth(self, lookup: Lookup) -> Truth:
        """False if one part is false, else unknown if one is unknown."""
        combined: Truth = True
        for part in self.parts:
            answer = part.truth(lookup)
            if answer is False:
                return False
            combined = combined and answer
        return combined

    def atoms(self) -> Iterator[Atom]:
        """The atoms of every part."""
        for part in self.parts:
            yield from part.atoms()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True where one part is; an empty one is always false."""

    parts: tuple[Condition, ...]

    def truth(self, lookup: Lookup) -> Truth:
        """True if one part is true, else unknown if one is unknown."""
        combined: Truth = False
        for part in self.parts:
            answer = part.truth(lookup)
            if answer is True:
                return True
            combined = None if answer is None else combined
        return combined

    def atoms(self) -> Iterator[Atom]:
        """The atoms of every part."""
        for part in self.parts:
            yield from part.atoms()


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; unknown stays unknown."""

    part: Condition

    def truth(self, lookup: Lookup) -> Truth:
        """The opposite of the part's answer."""
        answer = self.part.truth(lookup)
        return None if answer is None else not answer

    def atoms(self) -> Iterator[Atom]:
        """The atoms of the part."""
        yield from self.part.atoms()


@dataclass(frozen=True, slots=True)
class Named:
    """A condition of the pack by its name; a boolean derived fact."""

    name: str
    body: Condition

    def truth(self, lookup: Lookup) -> Truth:
        """The answer of its body."""
        return self.body.truth(lookup)

    def atoms(self) -> Iterator[Atom]:
        """The atoms of the body."""
        yield from self.body.atoms()


Condition = Atom | All | AnyOf | Not | Named

ALWAYS = All(())
NEVER = AnyOf(())


@dataclass(frozen=True, slots=True)
class Met:
    """One atom that took part in an answer: the answer in the sense it was asked (`negated` where under a `not`), and
    the names of the named conditions it came through."""

    atom: Atom
    truth: Truth
    negated: bool
    through: tuple[str, ...]

    @property
    def text(self) -> str:
        """The condition as it was asked."""
        return f"not {self.atom.text}" if self.negated else self.atom.text


def decisive(condition: Condition, lookup: Lookup, negated: bool = False, through: tuple[str, ...] = ()) -> tuple[Truth, tuple[Met, ...]]:
    """The answer and what decided it: for a true conjunction all parts, for a false one its false parts, for an unknown
    one its unknown parts; the mirror image for a disjunction. `negated` asks for the opposite."""
    if isinstance(condition, Atom):
        answer = condition.truth(lookup)
        asked = answer if not negated or answer is None else not answer
        return asked, (Met(condition, asked, negated, through),)
    if isinstance(condition, Not):
        return decisive(condition.part, lookup, not negated, through)
    if isinstance(condition, Named):
        return decisive(condition.body, lookup, negated, (*through, condition.name))
    conjunction = isinstance(condition, All) is not negated
    parts = [decisive(part, lookup, negated, through) for part in condition.parts]
    answers = [answer for answer, _ in parts]
    absorbing = not conjunction
    combined: Truth = absorbing if absorbing in answers else None if None in answers else conjunction
    return combined, tuple(met for answer, mets in parts if answer is combined for met in mets)


# --- reading conditions ---


class Complain(Protocol):
    """Takes the path of a defect, what is wrong, what would be right, and whether the key or the value is meant."""

    def __call__(self, path: Path, message: str, help: str, key: bool = False) -> None:
        """Report one defect."""
        ...


class Vocabulary(Protocol):
    """What a condition may speak of."""

    def fact(self, name: str) -> Fact | None:
        """The fact of that name, or None."""
        ...

    def named(self, name: str) -> Condition | None:
        """The named condition, or None."""
        ...

    def suggest(self, name: str) -> str:
        """A did-you-mean sentence for an unknown fact or condition, or an empty text."""
        ...


def parse(raw: Any, vocabulary: Vocabulary, path: Path, complain: Complain) -> Condition:
    """A condition from YAML data. Every defect is reported through `complain(path, message, help)`; the result is then
    not to be used."""
    if isinstance(raw, str):
        body = vocabulary.named(raw)
        if body is None:
            complain(path, f"no condition is named `{raw}`", vocabulary.suggest(raw))
            return NEVER
        return Named(raw, body)
    if isinstance(raw, bool):
        return ALWAYS if raw else NEVER
    if not isinstance(raw, Mapping):
        complain(path, f"a condition is a name, a mapping of facts, or `all`, `any`, `not`; not `{plain(raw)}`", "")
        return NEVER
    parts: list[Condition] = []
    for key, value in raw.items():
        here = (*path, key)
        if key in ("all", "any"):
            elements = _several(value, vocabulary, here, complain)
            parts.append(All(elements) if key == "all" else AnyOf(elements))
        elif key == "not":
            parts.append(Not(parse(value, vocabulary, here, complain)))
        else:
            parts.append(_atom(str(key), value, vocabulary, here, complain))
    if not parts:
        complain(path, "an empty condition", "leave `when` out where a rule always holds")
    return parts[0] if len(parts) == 1 else All(tuple(parts))


def _several(raw: Any, vocabulary: Vocabulary, path: Path, complain: Complain) -> tuple[Condition, ...]:
    if not isinstance(raw, Sequence) or isinstance(raw, str) or not raw:
        complain(path, "`all` and `any` take a list of conditions", "")
        return ()
    return tuple(parse(element, vocabulary, (*path, number), complain) for number, element in enumerate(raw))


def _atom(name: str, raw: Any, vocabulary: Vocabulary, path: Path, complain: Complain) -> Condition:
    fact = vocabulary.fact(name)
    if fact is None:
        complain(path, f"no fact is named `{name}`", vocabulary.suggest(name), key=True)
        return NEVER
    try:
        return Atom(name, _accepted(fact, raw), written(raw))
    except ValueProblem as problem:
        complain(path, str(problem), problem.help)
        return NEVER


def _accepted(fact: Fact, raw: Any) -> Values | SetTest:
    if raw == "present":
        if not fact.optional:
            raise ValueProblem(f"`{fact.name}` is always present", "drop the condition")
        return fact.domain & ~_only_absent(fact)  # type: ignore[operator]
    if isinstance(raw, Mapping):
        return _set_test(fact, raw)
    if fact.type == "set" and raw != "absent":
        raise ValueProblem(f"`{fact.name}` is a set", "ask `{contains: NAME}`, `{within: [NAME, …]}` or `{overlaps: [NAME, …]}`")
    if raw is None or raw == "unknown":
        raise ValueProblem(
            f"`{fact.name}` cannot be compared with `{plain(raw)}`", "unknown is not a value: conditions on unknown facts are unknown by themselves"
        )
    for element in (raw if isinstance(raw, list) else [raw]) if fact.type == "version" else []:
        if isinstance(element, str) and element != "absent" and element[:1] not in "<>=!" and is_placeholder(element):
            raise ValueProblem(
                f"`{element}` is no version that `{fact.name}` can have", "write it as PEP 440 does: `0.6.10.post1`, or a range such as `>=0.6.10`"
            )
    accepted = fact.values(raw)
    if not accepted:
        raise ValueProblem(f"`{written(raw)}` accepts no value of `{fact.name}`", fact.expected())
    if accepted == fact.domain:
        raise ValueProblem(f"`{written(raw)}` accepts every value of `{fact.name}`", "drop the condition")
    return accepted


def _only_absent(fact: Fact) -> Values:
    return Ordered((), True, fact.step) if fact.ordered else Discrete(frozenset(), False, True)


def _set_test(fact: Fact, raw: Mapping[str, Any]) -> SetTest:
    if fact.type != "set" or len(raw) != 1 or next(iter(raw)) not in ("contains", "within", "overlaps"):
        raise ValueProblem(f"`{fact.name}` cannot be compared with a mapping", "only set-typed facts take `{contains: …}`, `{within: …}` or `{overlaps: …}`")
    operator, names = next(iter(raw.items()))
    value = fact.value(names if isinstance(names, list) else [names])
    return SetTest(operator, value)


def written(raw: Any) -> str:
    """The right-hand side of a comparison as its author wrote it."""
    if isinstance(raw, list | tuple):
        return "[" + ", ".join(written(element) for element in raw) + "]"
    if isinstance(raw, Mapping):
        return ", ".join(f"{key} {written(value)}" for key, value in raw.items())
    return plain(raw)
