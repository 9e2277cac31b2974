"""Conditions for z3, written from their intervals and names, without cells. Only where z3 is installed."""

from __future__ import annotations

from typing import Any

from policy.conditions import All, Atom, Condition, Named, Not, SetTest
from policy.facts import Fact
from policy.values import Discrete, Ordered
from policy.versions import Version


class Encoding:
    """z3 variables for the facts of some conditions. Versions are ranks: an even number for each constant that is
    compared with, odd numbers for everything between."""

    def __init__(self, z3: Any, facts: dict[str, Fact], conditions: list[Condition]) -> None:
        self.z3, self.facts = z3, facts
        ends = {
            end
            for one in conditions
            for atom in one.atoms()
            if isinstance(atom.accepted, Ordered)
            for interval in atom.accepted.intervals
            for end in (interval.low, interval.high)
        }
        versions = sorted({end for end in ends if isinstance(end, Version)})
        self.ranks = {version: 2 * number + 2 for number, version in enumerate(versions)}
        self.variables: dict[str, Any] = {}
        self.absent: dict[str, Any] = {}
        self.domain: list[Any] = []

    def variable(self, name: str) -> Any:
        held = self.variables.get(name)
        if held is None:
            held = self.variables[name] = self._variable(name, self.facts[name])
        return held

    def _variable(self, name: str, fact: Fact) -> Any:
        z3 = self.z3
        self.absent[name] = z3.Bool(f"{name} absent")
        if not fact.optional:
            self.domain.append(z3.Not(self.absent[name]))
        if fact.type == "set":
            return {element: z3.Bool(f"{name} {element}") for element in (*fact.choices, *(() if fact.choices else ("p", "q", "r")))}
        if fact.type == "boolean":
            return z3.Bool(name)
        number = z3.Real(name) if fact.type == "number" else z3.Int(name)
        if fact.minimum is not None:
            self.domain.append(number >= fact.minimum)
        if fact.maximum is not None:
            self.domain.append(number <= fact.maximum)
        if fact.type == "text" and fact.choices:
            self.domain.append(z3.And(number >= 0, number < len(fact.choices)))
        return number

    def of(self, condition: Condition) -> Any:
        z3 = self.z3
        if isinstance(condition, Atom):
            return self._atom(condition)
        if isinstance(condition, Not):
            return z3.Not(self.of(condition.part))
        if isinstance(condition, Named):
            return self.of(condition.body)
        parts = [self.of(part) for part in condition.parts]
        return (z3.And if isinstance(condition, All) else z3.Or)(*parts) if parts else z3.BoolVal(isinstance(condition, All))

    def _atom(self, atom: Atom) -> Any:
        z3, fact, accepted = self.z3, self.facts[atom.fact], atom.accepted
        variable = self.variable(atom.fact)
        there = z3.Not(self.absent[atom.fact])
        if isinstance(accepted, SetTest):
            named = [variable.get(name, z3.BoolVal(False)) for name in sorted(accepted.names)]
            if accepted.operator == "within":
                return z3.And(there, *(z3.Not(held) for name, held in variable.items() if name not in accepted.names))
            return z3.And(there, (z3.And if accepted.operator == "contains" else z3.Or)(*named))
        if isinstance(accepted, Ordered):
            inside = z3.Or(*(self._interval(variable, interval) for interval in accepted.intervals)) if accepted.intervals else z3.BoolVal(False)
        else:
            assert isinstance(accepted, Discrete)
            inside = z3.Or(*(self._item(fact, variable, item) for item in accepted.items)) if accepted.items else z3.BoolVal(False)
            inside = z3.Not(inside) if accepted.cofinite else inside
        return z3.If(self.absent[atom.fact], z3.BoolVal(accepted.absent), inside)

    def _interval(self, variable: Any, interval: Any) -> Any:
        parts = []
        low, high = (self.ranks.get(end, end) if isinstance(end, Version) else end for end in (interval.low, interval.high))
        if low is not None:
            parts.append(variable >= low if interval.low_closed else variable > low)
        if high is not None:
            parts.append(variable <= high if interval.high_closed else variable < high)
        return self.z3.And(*parts) if parts else self.z3.BoolVal(True)

    def _item(self, fact: Fact, variable: Any, item: Any) -> Any:
        if fact.type == "boolean":
            return variable if item else self.z3.Not(variable)
        if fact.type == "set":
            return self.z3.And(*(held if name in item else self.z3.Not(held) for name, held in variable.items()))
        return variable == (fact.choices.index(item) if fact.choices else 1000 + sum(map(ord, str(item))) * 7 + len(str(item)))
