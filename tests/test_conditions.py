"""Conditions: three-valued answers against trying members, what decided, and what a condition may not say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from policy.conditions import All, AnyOf, Atom, Condition, Met, Named, Not, decisive, parse
from policy.launch import Facts
from policy.pack import Pack
from policy.values import Values
from tests import reference
from tests.random_packs import FACTS, Choose, built, choices, condition, facts_of_launch, launched

PACK: Pack = built(
    {
        **FACTS,
        "conditions.yaml": (
            "conditions",
            {"conditions": {"first": {"title": "one", "when": {"site.size": 1}}, "second": {"title": "two", "when": {"not": "first"}}}},
        ),
    }
)


def read(raw: Any) -> tuple[Condition, list[tuple[str, str]]]:
    problems: list[tuple[str, str]] = []

    def complain(path: Any, message: str, help: str, key: bool = False) -> None:
        problems.append((message, help))

    return parse(raw, PACK, (), complain), problems


def valid(choose: Choose) -> Condition:
    made, problems = read(condition(choose, ["first", "second"]))
    assert not problems
    return made


class Only:
    """A lookup that knows nothing of the other facts."""

    def __init__(self, facts: Facts, names: set[str]) -> None:
        self.facts, self.names = facts, names

    def values(self, fact: str) -> Values:
        declared = PACK.fact(fact)
        assert declared is not None
        return self.facts.values(fact) if fact in self.names else declared.domain


@settings(max_examples=150)
@given(choices())
def test_truth_is_that_of_the_members(choose: Choose) -> None:
    made, facts = valid(choose), Facts(PACK, launched(PACK, facts_of_launch(choose, {})))
    assert made.truth(facts) == reference.truth(made, facts)


@settings(max_examples=150)
@given(choices())
def test_what_decided_decides(choose: Choose) -> None:
    """The findings alone give the answer, each is what was asked, and asking for the opposite turns all of it round."""
    made, facts = valid(choose), Facts(PACK, launched(PACK, facts_of_launch(choose, {})))
    truth, mets = decisive(made, facts)
    assert truth == made.truth(facts)
    if truth is not None:
        assert made.truth(Only(facts, {met.atom.fact for met in mets})) == truth
    else:
        assert mets
        assert all(met.truth is None for met in mets)
    for met in mets:
        plain = met.atom.truth(facts)
        assert met.truth == (plain if plain is None or not met.negated else not plain)
    opposite, of_opposite = decisive(Not(made), facts)
    assert opposite == (None if truth is None else not truth)
    assert [(met.atom, met.through) for met in of_opposite] == [(met.atom, met.through) for met in mets]


@settings(max_examples=100)
@given(choices())
def test_knowing_more_keeps_a_known_answer(choose: Choose) -> None:
    made, facts = valid(choose), Facts(PACK, launched(PACK, facts_of_launch(choose, {})))
    before = made.truth(facts)
    atoms = list(made.atoms())
    atom = choose.one(atoms)
    values = facts.values(atom.fact)
    told = choose.one(reference.candidates(values, *(one.accepted for one in atoms if one.fact == atom.fact)))
    fact = PACK.fact(atom.fact)
    assert fact is not None

    class Told:
        def values(self, name: str) -> Values:
            return fact._exactly(told) if name == fact.name else facts.values(name)

    assert before in (None, made.truth(Told()))


def test_shapes() -> None:
    assert isinstance(read({"site.size": 1})[0], Atom)
    assert isinstance(read({"site.size": 1, "site.flag": True})[0], All)
    assert isinstance(read({"any": [{"site.size": 1}]})[0], AnyOf)
    assert isinstance(read({"not": "first"})[0], Not)
    assert isinstance(read("first")[0], Named)
    assert read(True)[0] == All(())
    assert read(False)[0] == AnyOf(())


def test_named_conditions_say_what_they_came_through() -> None:
    facts = Facts(PACK, launched(PACK, {"site.size": 2}))
    made, _ = read({"all": ["second", {"site.flag": True}]})
    truth, mets = decisive(made, facts)
    assert truth is None
    assert [met.atom.fact for met in mets] == ["site.flag"]
    truth, mets = decisive(read("second")[0], facts)
    assert truth is True
    assert mets == (Met(mets[0].atom, True, True, ("second", "first")),)
    assert mets[0].text == "not 1"


@pytest.mark.parametrize(
    ("raw", "message", "help"),
    [
        ("frist", "no condition is named `frist`", "did you mean `first`?"),
        ({"site.szie": 1}, "no fact is named `site.szie`", "did you mean `site.size`"),
        ({"size": 1}, "no fact is named `size`", "did you mean `site.size`?"),
        ({"site.size": "many"}, "`site.size` takes a whole number, not `many`", "from 1 to 4"),
        ({"site.size": True}, "`site.size` takes a whole number, not `true`", "from 1 to 4"),
        ({"site.size": 9}, "`9` is outside the domain of `site.size`", "from 1 to 4"),
        ({"site.size": ">=9"}, "outside the domain", "from 1 to 4"),
        ({"site.size": ">=2,<2"}, "`>=2,<2` accepts no value of `site.size`", ""),
        ({"site.size": ">=1"}, "`>=1` accepts every value of `site.size`", "drop the condition"),
        ({"site.size": "absent"}, "`site.size` cannot be `absent`", ""),
        ({"site.size": "present"}, "`site.size` is always present", "drop the condition"),
        ({"site.size": "unknown"}, "cannot be compared with `unknown`", "unknown is not a value"),
        ({"site.size": None}, "cannot be compared with `null`", "unknown is not a value"),
        ({"site.size": []}, "an empty list", ""),
        ({"site.size": {"contains": "x"}}, "cannot be compared with a mapping", "only set-typed facts"),
        ({"site.flag": "maybe"}, "takes true or false, not `maybe`", ""),
        ({"site.flag": [True, False]}, "accepts every value of `site.flag`", ""),
        ({"site.kind": "w"}, "`w` is outside the domain of `site.kind`", "one of `x`, `y`, `z` or `absent`"),
        ({"site.names": ["p"]}, "`site.names` is a set", "contains"),
        ({"site.names": {"contains": "r"}}, "`r` cannot be in `site.names`", "one of `p`, `q`"),
        ({"site.names": {"has": "p"}}, "cannot be compared with a mapping", "contains"),
        ({"engine.version": 0.1}, "takes a version in quotes, not the number `0.1`", "in quotes"),
        ({"engine.version": ">1.0"}, "post-releases are above this", "write `>=1.0.post1`"),
        ({"engine.version": ">=1.0,2.0"}, "`2.0` is no comparison", "joined by commas"),
        ({"engine.version": "new"}, "`new` is no version", "PEP 440"),
        ({"packages.lib": "o.6.10"}, "`o.6.10` is no version", "PEP 440"),
        ({"packages.lib": ["1.0", "present"]}, "`present` is no version", "PEP 440"),
        ({"all": []}, "`all` and `any` take a list of conditions", ""),
        ({"any": {"site.size": 1}}, "`all` and `any` take a list of conditions", ""),
        ({}, "an empty condition", "leave `when` out"),
        (["first"], "a condition is a name, a mapping of facts", ""),
        (3, "a condition is a name, a mapping of facts", ""),
    ],
)
def test_what_a_condition_may_not_say(raw: Any, message: str, help: str) -> None:
    _, problems = read(raw)
    assert len(problems) == 1, problems
    assert message in problems[0][0]
    assert help in problems[0][1]


def test_every_defect_is_told_at_once() -> None:
    _, problems = read({"all": [{"site.szie": 1}, {"any": ["frist", {"not": {"site.size": "x"}}]}], "site.flag": 3})
    assert len(problems) == 4
