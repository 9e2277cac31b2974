"""Invariants of a domain, written as YAML beside the rules: what no launch, or every launch, must be.

Besides facts and named conditions they speak of the answer: `plan` (the chosen plan has these attributes), `state` (on,
off, undetermined), `left_alone` (the engine's own state), `built` (what comes of it), `switch` (the engine's release can
be told so, or is known to have no way to be told) and `asked` (what the launch asks of the fusion).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path as FilePath
from typing import Any

from policy.conditions import Condition, Not, parse
from policy.pack import Fusion, Pack, Selector
from policy.problems import PackError, Problem
from policy.records import dataclass
from policy.source import Document, read_text, read_yaml

FOLDER = "invariants"
FORMS = ("never", "always", "implies")
ANSWERS = {
    "state": ("on", "off", "undetermined"),
    "left_alone": ("on", "off", "dies", "unknown"),
    "built": ("fused", "unfused", "partly_fused", "hang", "wrong_numbers", "crash", "unknown"),
    "switch": ("on", "off", "plan"),
    "asked": ("on", "off", "absent"),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One question about the decision: its kind and the values that it accepts (for `plan`: the selector)."""

    kind: str
    values: frozenset[str] = frozenset()
    selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class Clause:
    """A conjunction of conditions on facts and of answers, each with whether it is meant or its opposite."""

    conditions: tuple[Condition, ...]
    answers: tuple[tuple[Answer, bool], ...]


@dataclass(frozen=True, slots=True)
class Invariant:
    """One statement about all launches. `forbidden` are the clauses of which none may ever hold; `fusions` is empty for
    every fusion of the pack."""

    id: str
    title: str
    why: str
    forbidden: tuple[Clause, ...]
    fusions: tuple[str, ...] = ()
    postures: tuple[str, ...] = ("safe", "fast")
    file: str = ""

    def of(self, pack: Pack) -> list[Fusion]:
        """The fusions it speaks of."""
        return [fusion for name, fusion in pack.fusions.items() if not self.fusions or name in self.fusions]


def read_invariants(pack: Pack, file: str | None = None) -> list[Invariant]:
    """The invariants of one file, or those that come with a pack. Raises `PackError` with every problem."""
    paths = sorted((FilePath(pack.folder) / FOLDER).glob("*.y*ml")) if file is None else [FilePath(file)]
    found: list[Invariant] = []
    problems: list[Problem] = []
    for path in paths:
        text, unread = read_text(path, str(path))
        problems.extend(unread)
        if text is not None:
            document, defects = read_yaml(text, str(path))
            problems.extend(defects)
            if not defects:
                found.extend(_Reader(pack, document, problems).all())
    if problems:
        raise PackError(problems)
    return found


def parse_invariant(pack: Pack, id: str, raw: Mapping[str, Any]) -> Invariant:
    """One invariant from data, as `never`, `always` or `implies`. Raises `PackError`."""
    problems: list[Problem] = []
    document = Document("", [], {"invariants": {id: dict(raw)}})
    found = list(_Reader(pack, document, problems).all())
    if problems:
        raise PackError(problems)
    return found[0]


class _Reader:
    """The invariants of one file."""

    def __init__(self, pack: Pack, document: Document, problems: list[Problem]) -> None:
        self.pack, self.document, self.problems = pack, document, problems

    def all(self) -> Iterator[Invariant]:
        for id, raw in (self.document.value or {}).get("invariants", {}).items():
            path: tuple[str | int, ...] = ("invariants", id)
            forms = [form for form in FORMS if form in raw]
            if len(forms) != 1:
                self._complain(path, "an invariant is one of `never`, `always`, `implies`", "")
                continue
            body, here = raw[forms[0]], (*path, forms[0])
            if forms[0] == "implies":
                if not isinstance(body, Mapping) or set(body) != {"if", "then"}:
                    self._complain(here, "`implies` takes `if` and `then`", "")
                    continue
                clauses = [
                    Clause((*one.conditions, *other.conditions), (*one.answers, *other.answers))
                    for one, other in product(self._clauses(body["if"], (*here, "if"), True), self._clauses(body["then"], (*here, "then"), False))
                ]
            else:
                clauses = self._clauses(body, here, forms[0] == "never")
            fusions = raw.get("fusion") or ()
            names = (fusions,) if isinstance(fusions, str) else tuple(fusions)
            for name in names:
                if name not in self.pack.fusions:
                    self._complain((*path, "fusion"), f"no fusion is named `{name}`", self.pack.suggest(name))
            postures = tuple(raw.get("posture") or ("safe", "fast"))
            yield Invariant(id, raw.get("title", ""), raw.get("why", ""), tuple(clauses), names, postures, self.document.file)

    def _clauses(self, raw: Any, path: tuple[str | int, ...], positive: bool) -> list[Clause]:
        """The condition (its opposite) as alternatives of conjunctions; what speaks of facts alone stays whole."""
        if not _speaks_of_answers(raw):
            condition = parse(raw, self.pack, path, self._complain)
            return [Clause((condition if positive else Not(condition),), ())]
        if len(raw) > 1:
            return self._clauses({"all": [{key: value} for key, value in raw.items()]}, path, positive)
        ((key, value),) = raw.items()
        if key == "not":
            return self._clauses(value, (*path, key), not positive)
        if key in ("all", "any"):
            parts = [self._clauses(part, (*path, key, number), positive) for number, part in enumerate(value)]
            if (key == "all") is not positive:
                return [clause for part in parts for clause in part]
            return [Clause(tuple(c for one in chosen for c in one.conditions), tuple(a for one in chosen for a in one.answers)) for chosen in product(*parts)]
        return [Clause((), ((self._answer(key, value, (*path, key)), positive),))]

    def _answer(self, kind: str, raw: Any, path: tuple[str | int, ...]) -> Answer:
        if kind == "plan":
            if not isinstance(raw, Mapping) or not raw:
                self._complain(path, "`plan` takes attributes of plans", "such as `{scope: world}`")
                return Answer(kind, frozenset(), Selector({}))
            selector = Selector({name: frozenset([values] if isinstance(values, str) else values) for name, values in raw.items()})
            if not any(selector.matches(plan) for fusion in self.pack.fusions.values() for plan in fusion.plans):
                self._complain(path, f"no plan matches {selector}", "")
            return Answer(kind, frozenset(), selector)
        values = frozenset([raw] if isinstance(raw, str) else raw)
        for value in values - set(ANSWERS[kind]):
            self._complain(path, f"`{value}` is none of {', '.join(f'`{one}`' for one in ANSWERS[kind])}", "")
        return Answer(kind, values)

    def _complain(self, path: Sequence[str | int], message: str, help: str, key: bool = False) -> None:
        self.problems.append(self.document.problem(tuple(path), message, help, key))


def _speaks_of_answers(raw: Any) -> bool:
    if isinstance(raw, Mapping):
        return any(key in ANSWERS or key == "plan" or (key in ("all", "any", "not") and _speaks_of_answers(value)) for key, value in raw.items())
    return isinstance(raw, list) and any(_speaks_of_answers(part) for part in raw)


__all__ = ["FOLDER", "Answer", "Clause", "Invariant", "parse_invariant", "read_invariants"]
