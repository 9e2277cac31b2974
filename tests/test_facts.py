"""Facts: reading values, where a value comes from, traits, pins, defaults, folds and derived facts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policy.derive import DERIVED, INPUTS
from policy.facts import Fact, ValueProblem, fold, show
from policy.launch import Facts, Launch, folded
from policy.load import read_pack
from policy.origin import KINDS, Origin
from policy.pack import Pack
from policy.problems import LaunchError
from policy.values import ABSENT, Discrete, Interval, Ordered, Values
from policy.versions import Version
from tests.random_packs import FACTS, OPEN, VALUES, PackData, built

DATA: PackData = {
    **FACTS,
    "products/alpha/product.yaml": (
        "product",
        {"product": "alpha", "title": "Alpha", "role": "engine", "package": "alpha", "through": "3.0", "releases": ["1.0", "2.0", "3.0"]},
    ),
    "products/alpha/traits.yaml": (
        "traits",
        {"traits": {"mode": {"rows": [{"since": "1.0", "value": "m"}, {"since": "2.0"}, {"since": "3.0", "value": "n"}]}}},
    ),
    "products/alpha/defaults.yaml": (
        "defaults",
        {
            "defaults": {
                "site.size": 1,
                "site.flag": [{"since": "1.0", "value": False}, {"since": "2.0", "value": True}],
                "site.kind": [{"since": "2.0", "value": "x"}],
            }
        },
    ),
    "products/alpha/pins.yaml": ("pins", {"pins": {"2.0": {"lib": "==1.1"}, "3.0": {"lib": ">=1.1,<2.0"}}}),
    "products/lib/product.yaml": (
        "product",
        {"product": "lib", "title": "Lib", "role": "library", "package": "lib", "through": "2.0", "releases": ["1.0", "1.1", "2.0"]},
    ),
    "products/lib/traits.yaml": ("traits", {"traits": {"able": {"rows": [{"since": "1.0", "value": False}, {"since": "1.1", "value": True}]}}}),
}
PACK: Pack = built(DATA)


def fact(name: str) -> Fact:
    found = PACK.fact(name)
    assert found is not None
    return found


def resolved(stated: dict[str, Any], strict: bool = False, presuming: bool = False) -> Facts:
    return Facts(PACK, Launch.of(PACK, stated), strict, presuming)


# --- reading values ---


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("site.size", 3, 3),
        ("site.size", "3", 3),
        ("site.level", "1.5", 1.5),
        ("site.level", 2.0, 2),
        ("site.flag", "True", True),
        ("site.flag", False, False),
        ("site.kind", "x", "x"),
        ("site.kind", "absent", ABSENT),
        ("site.tag", "anything at all", "anything at all"),
        ("site.names", ["q", "p"], frozenset({"p", "q"})),
        ("site.names", "p, q", frozenset({"p", "q"})),
        ("site.names", [], frozenset()),
        ("engine.version", "1.0+cu130", Version("1.0")),
        ("packages.anything-else", "3.1", Version("3.1")),
        ("packages.lib", "absent", ABSENT),
    ],
)
def test_one_value(name: str, raw: Any, value: Any) -> None:
    assert fact(name).value(raw) == value
    assert fact(name).values(raw).single() == value


@pytest.mark.parametrize(
    ("name", "raw", "members", "others"),
    [
        ("site.size", [1, 3], [1, 3], [2, 4]),
        ("site.size", ">=3", [3, 4], [1, 2]),
        ("site.size", ">1,<4", [2, 3], [1, 4]),
        ("site.size", "!=2", [1, 3, 4], [2]),
        ("site.size", [1, ">=4"], [1, 4], [2, 3]),
        ("site.size", "unknown", [1, 2, 3, 4], [5]),
        ("site.size", None, [1, 2, 3, 4], [0]),
        ("site.kind", ["x", "absent"], ["x", ABSENT], ["y"]),
        ("site.kind", "unknown", ["x", "y", "z", ABSENT], ["w"]),
        ("site.level", "<1.5", [0, 1.4], [1.5]),
        ("site.names", {"any_of": [["p"], []]}, [frozenset({"p"}), frozenset()], [frozenset({"q"})]),
        ("packages.lib", ["1.0", "absent"], [Version("1.0"), ABSENT], [Version("1.1")]),
        ("packages.lib", ">=1.0", [Version("1.0")], [ABSENT, Version("0.9")]),
    ],
)
def test_several_possible_values(name: str, raw: Any, members: list[Any], others: list[Any]) -> None:
    values = fact(name).values(raw)
    assert all(one in values for one in members)
    assert not any(one in values for one in others)


@pytest.mark.parametrize(
    ("name", "raw", "message", "help"),
    [
        ("site.size", 0, "`0` is outside the domain of `site.size`", "from 1 to 4"),
        ("site.size", 2.5, "takes a whole number, not `2.5`", "from 1 to 4"),
        ("site.size", True, "takes a whole number, not `true`", ""),
        ("site.size", "two", "takes a whole number, not `two`", ""),
        ("site.size", [], "an empty list of possible values", ""),
        ("site.size", [1, [9]], "`9` is outside", ""),
        ("site.size", {"any_of": [1]}, "takes a whole number", ""),
        ("site.size", ">=x", "takes a whole number, not `x`", ""),
        ("site.size", ">=2;<3", "takes a whole number", ""),
        ("site.level", "nan", "a finite number", ""),
        ("site.level", float("inf"), "a finite number", ""),
        ("site.level", -1, "outside the domain", "at least 0"),
        ("site.flag", "yes", "takes true or false, not `yes`", ""),
        ("site.flag", 1, "takes true or false, not `1`", ""),
        ("site.kind", "xx", "outside the domain", "`x`, `y`, `z` or `absent`"),
        ("site.kind", True, "takes text, not `true`", ""),
        ("site.names", ["r"], "`r` cannot be in `site.names`", "`p`, `q`"),
        ("site.names", {"any_of": 5}, "`any_of` takes a list", ""),
        ("site.names", {"any_of": []}, "`any_of` takes a list", ""),
        ("site.names", {"one_of": [["p"]]}, "cannot be in `site.names`", ""),
        ("engine.version", 1.1, "a version in quotes, not the number `1.1`", 'write it in quotes, as in `"1.1"`'),
        ("engine.version", "absent", "`engine.version` cannot be `absent`", ""),
        ("engine.version", ">1.0", "post-releases are above this", "`>=1.0.post1`"),
        ("engine.version", ">=1.0,", "is no comparison", "joined by commas"),
        ("engine.version", ">=", "is no version", "PEP 440"),
        ("runtime.builder", "adaptor", "outside the domain", "did you mean `adapter`?"),
    ],
)
def test_values_that_a_fact_cannot_have(name: str, raw: Any, message: str, help: str) -> None:
    with pytest.raises(ValueProblem) as caught:
        fact(name).values(raw)
    assert message in str(caught.value)
    assert help in caught.value.help


def test_on_and_off_as_booleans_are_told_apart() -> None:
    request = Fact("request.f", "text", choices=("on", "off"), optional=True)
    with pytest.raises(ValueProblem, match="not the boolean `true`") as caught:
        request.values(True)
    assert 'write `"on"` or `"off"`' in caught.value.help


@given(st.sampled_from(sorted(VALUES)), st.data())
def test_what_is_shown_can_be_given_back(name: str, data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from([*VALUES[name], *OPEN.get(name, [])]))
    values = fact(name).values(raw)
    text = fact(name).show(values)
    assume("{" not in text)
    again = fact(name).values("unknown" if text == "not known" else text.split(" or ") if " or " in text else text if text != "anything" else "0.0.0+unknown")
    assert again == values


# --- where a value comes from ---


def test_the_order_of_origins() -> None:
    """A stronger origin wins whichever comes first; of equal ones the later."""
    for strong, weak in product(KINDS[:12], repeat=2):
        launch = Launch()
        for kind, value in ((strong, 1), (weak, 2)):
            launch.state(PACK, "site.size", value, Origin(kind))
        expected = 1 if KINDS.index(strong) < KINDS.index(weak) else 2
        assert launch.given["site.size"].values.single() == expected, (strong, weak)


@pytest.mark.parametrize(
    ("stated", "name", "value", "origin"),
    [
        ({"site.size": 3}, "site.size", 3, "facts"),
        ({}, "site.size", None, "unknown"),
        ({"engine.name": "alpha"}, "site.size", 1, "engine_default"),
        ({"engine.name": "beta"}, "site.size", None, "unknown"),
        ({"engine.name": ["alpha", "beta"]}, "site.size", None, "unknown"),
        ({"engine.name": "alpha", "engine.version": "1.5"}, "site.flag", False, "engine_default"),
        ({"engine.name": "alpha", "engine.version": "2.0"}, "site.flag", True, "engine_default"),
        ({"engine.name": "alpha", "engine.version": ["1.0", "2.0"]}, "site.flag", None, "unknown"),
        ({"engine.name": "alpha", "engine.version": "1.0"}, "site.kind", None, "unknown"),
        ({"engine.name": "alpha", "engine.version": "2.0", "site.kind": "unknown"}, "site.kind", None, "facts"),
        ({}, "site.usual", True, "assumed"),
        ({"site.usual": False}, "site.usual", False, "facts"),
        ({"engine.name": "alpha", "engine.version": "2.0"}, "packages.lib", Version("1.1"), "engine_pin"),
        ({"engine.name": "alpha", "engine.version": "2.0", "packages.lib": "1.0"}, "packages.lib", Version("1.0"), "facts"),
        ({"engine.name": "alpha", "engine.version": "1.0"}, "packages.lib", None, "unknown"),
        ({"engine.name": "alpha", "engine.version": "1.5"}, "traits.engine.mode", "m", "derived"),
        ({"engine.name": "alpha", "engine.version": "2.5"}, "traits.engine.mode", None, "derived"),
        ({"engine.name": "alpha", "engine.version": "3.0"}, "traits.engine.mode", "n", "derived"),
        ({"engine.name": "alpha", "engine.version": "3.0.post1"}, "traits.engine.mode", None, "derived"),
        ({"engine.name": "beta", "engine.version": "3.0"}, "traits.engine.mode", None, "unknown"),
        ({"engine.name": "alpha", "engine.version": "3.0", "traits.engine.mode": "m"}, "traits.engine.mode", "m", "facts"),
        ({"packages.lib": "absent"}, "traits.lib.able", ABSENT, "derived"),
        ({"packages.lib": "1.1"}, "traits.lib.able", True, "derived"),
        ({"packages.lib": ["1.1", "2.0"]}, "traits.lib.able", True, "derived"),
        ({"packages.lib": ["1.0", "1.1"]}, "traits.lib.able", None, "derived"),
        ({}, "request.f", ABSENT, "engine_default"),
        ({"site.kind": "x"}, "site.likely", None, "unknown"),
    ],
)
def test_where_a_value_comes_from(stated: dict[str, Any], name: str, value: Any, origin: str) -> None:
    pack = built({**DATA, "fusions/f.yaml": ("fusion", {"fusion": "f", "title": "a fusion", "plans": [{"id": "p", "library": "lib"}]})})
    facts = Facts(pack, Launch.of(pack, stated))
    assert facts.values(name).single() == value
    assert facts.get(name).origin.kind == origin


def test_strict_assumes_nothing_and_presumptions_are_asked_for() -> None:
    assert resolved({}, strict=True).get("site.usual").origin.kind == "unknown"
    assert resolved({"site.kind": "x"}, presuming=True).get("site.likely").origin.kind == "presumed"
    assert resolved({"site.kind": ["x", "y"]}, presuming=True).get("site.likely").origin.kind == "unknown"
    assert resolved({"site.kind": "x", "site.likely": False}, presuming=True).values("site.likely").single() is False


def test_a_pin_may_be_a_range() -> None:
    facts = resolved({"engine.name": "alpha", "engine.version": "3.0"})
    assert facts.shown("packages.lib") == ">=1.1,<2.0"
    assert facts.get("packages.lib").origin.kind == "engine_pin"


# --- launches ---


def test_nested_and_dotted_names_are_one() -> None:
    nested = Launch.of(PACK, {"site": {"size": 2, "names": {"any_of": [["p"], []]}}, "packages": {"lib": "1.0"}, "traits": {"lib": {"able": True}}})
    dotted = Launch.of(PACK, {"site.size": 2, "site.names": {"any_of": [["p"], []]}, "packages.lib": "1.0", "traits.lib.able": True})
    assert nested.given == dotted.given


def test_every_problem_of_a_launch_is_told() -> None:
    with pytest.raises(LaunchError) as caught:
        Launch.of(PACK, {"site.szie": 2, "site": {"flag": "yes", "kind": "q"}, "engine.version": 0.1, "nothing": {"like": {"this": 1}}})
    assert len(caught.value.problems) == 5
    assert "did you mean `site.size`" in str(caught.value)


def test_ranks_are_folded_first() -> None:
    def of(**stated: Any) -> Launch:
        return Launch.of(PACK, {name.replace("__", "."): value for name, value in stated.items()})

    one = folded(PACK, [of(site__size=2, site__kind="x"), of(site__size=2)])
    assert one.given["site.size"].values.single() == 2
    # a rank that does not say leaves it open
    assert one.given["site.kind"].values == fact("site.kind").domain


@pytest.mark.parametrize(
    ("kind", "type", "ranks", "expected"),
    [
        ("all", "boolean", [True, True], {True}),
        ("all", "boolean", [True, False], {False}),
        ("all", "boolean", [True, None], {True, False}),
        ("all", "boolean", [False, None], {False}),
        ("any", "boolean", [False, False], {False}),
        ("any", "boolean", [False, True], {True}),
        ("any", "boolean", [True, None], {True}),
        ("any", "boolean", [False, None], {True, False}),
        ("same", "boolean", [True, True], {True}),
        ("same", "boolean", [True, False], {True, False}),
        ("min", "integer", [3, 1, 2], {1}),
        ("max", "integer", [3, 1, 2], {3}),
        ("same", "integer", [3, 1], {1, 3}),
    ],
)
def test_folds(kind: str, type: str, ranks: list[Any], expected: set[Any]) -> None:
    one = Fact("site.x", type, fold=kind)
    joined = fold(one, [one.values(value) for value in ranks])
    assert set(joined.points() or []) == expected


# --- derived facts ---

SHIPPED = read_pack(compiled=False)


def _pools() -> dict[str, list[Any]]:
    """For each input of a derived fact, a few values to try."""
    pools: dict[str, list[Any]] = {}
    for names in INPUTS.values():
        for name in names:
            declared = SHIPPED.fact(name)
            if declared is None:
                continue
            if declared.type in ("integer", "number"):
                low = int(declared.minimum or 0)
                pools[name] = [value for value in (1, 2, 4, 8) if value >= low]
            elif declared.type == "boolean":
                pools[name] = [True, False]
            elif declared.type == "version":
                pools[name] = [Version("0.6.10"), Version("0.6.12"), Version("9.0")]
            elif declared.choices:
                pools[name] = list(declared.choices)
            else:
                pools[name] = ["some", "other"]
            if declared.optional:
                pools[name].append(ABSENT)
    return pools


POOLS = _pools()


class Given:
    """A lookup of given sets."""

    def __init__(self, sets: dict[str, Values]) -> None:
        self.sets = sets

    def values(self, name: str) -> Values:
        return self.sets[name]

    def pinned(self, name: str) -> bool:
        return False

    def written(self, name: str) -> str:
        return ""


def a_set(declared: Fact, chosen: list[Any]) -> Values:
    joined = declared._exactly(chosen[0])
    for one in chosen[1:]:
        joined = joined | declared._exactly(one)  # type: ignore[operator]
    return joined


@pytest.mark.parametrize("name", sorted(DERIVED))
def test_a_derived_set_holds_every_value_and_shrinks_with_its_inputs(name: str) -> None:
    """The answer for sets contains the answers for all their members, and a smaller input never gives a larger output."""
    inputs = [one for one in INPUTS[name] if SHIPPED.fact(one) is not None]
    if len(inputs) < len(INPUTS[name]):
        pytest.skip("an input is not declared in the pack")

    @settings(max_examples=25)
    @given(st.fixed_dictionaries({one: st.lists(st.sampled_from(POOLS[one]), min_size=1, max_size=2, unique_by=repr) for one in inputs}))
    def holds(chosen: dict[str, list[Any]]) -> None:
        declared = {one: SHIPPED.fact(one) for one in inputs}
        sets = {one: a_set(declared[one], values) for one, values in chosen.items()}  # type: ignore[arg-type]
        whole: Any = DERIVED[name](Given(sets))
        for members in product(*(chosen[one] for one in inputs)):
            single: Any = DERIVED[name](Given({one: a_set(declared[one], [member]) for one, member in zip(inputs, members, strict=True)}))  # type: ignore[arg-type]
            assert single.within(whole), members
        for one in inputs:
            smaller: Any = DERIVED[name](Given({**sets, one: a_set(declared[one], chosen[one][:1])}))  # type: ignore[arg-type]
            assert smaller.within(whole), one
        unknown: Any = DERIVED[name](Given({one: declared[one].domain for one in inputs}))  # type: ignore[union-attr]
        assert whole.within(unknown)

    holds()


PARALLEL = {"engine.name": "vllm", "engine.version": "0.24.0"}


@pytest.mark.parametrize(
    ("stated", "groups"),
    [
        ({"parallel.tensor_parallel_size": 8}, 1),
        ({"parallel.tensor_parallel_size": 2, "parallel.pipeline_parallel_size": 2}, 2),
        ({"parallel.tensor_parallel_size": 2, "parallel.data_parallel_size": 4, "model.is_moe": True}, 4),
        ({"parallel.tensor_parallel_size": 2, "parallel.data_parallel_size": 4, "model.is_moe": False}, 1),
        ({"parallel.tensor_parallel_size": 2, "parallel.data_parallel_size": 4}, None),
        ({"parallel.tensor_parallel_size": 2, "parallel.data_parallel_size": 4, "model.is_moe": True, "parallel.elastic_ep": True}, 1),
        ({"parallel.tensor_parallel_size": 2, "parallel.pipeline_parallel_size": 3, "parallel.prefill_context_parallel_size": 2}, 6),
        ({"parallel.tensor_parallel_size": 4, "parallel.trainer_world_size": 16, "engine.executor": "external_launcher"}, 4),
    ],
)
def test_groups_that_share_a_world(stated: dict[str, Any], groups: int | None) -> None:
    facts = Facts(SHIPPED, Launch.of(SHIPPED, {**PARALLEL, **stated}))
    assert facts.values("parallel.tensor_parallel_groups").single() == groups


def test_a_derived_fact_that_its_inputs_contradict_is_told() -> None:
    stated = {**PARALLEL, "parallel.tensor_parallel_size": 2, "parallel.pipeline_parallel_size": 2, "parallel.tensor_parallel_groups": 1}
    (told,) = Facts(SHIPPED, Launch.of(SHIPPED, stated)).contradictions()
    assert told.startswith("`parallel.tensor_parallel_groups` is given as 1, but")
    assert told.endswith("make it 2")
    assert not Facts(SHIPPED, Launch.of(SHIPPED, {**stated, "parallel.tensor_parallel_groups": 2})).contradictions()


def test_shown_sets() -> None:
    assert show(Ordered.of((Interval(1, True, 2, True), Interval(4, True, None, False)), True, 1)) == ">=1,<=2 or >=4 or absent"
    assert show(Discrete(frozenset(("b", "a")), True)) == "anything but a, b"
    assert show(Discrete(frozenset((True, False)))) == "false or true"
    assert show(Ordered((), False)) == "nothing"
