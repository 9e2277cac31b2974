"""Random small packs and launches for property tests: every kind of knowledge occurs, over domains small enough to fill.

Everything is made from one source of choices, `Choose`: hypothesis, which shrinks what it finds, or a seeded generator,
which is a hundred times faster and goes further (`seeded`)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from policy.build import build
from policy.conditions import Path
from policy.launch import Launch
from policy.pack import Pack, Place

Data = dict[str, Any]


@dataclass
class MemorySource:
    """One file of a pack that is in no file."""

    kind: str
    file: str
    value: Any
    trusted: bool = False

    def place(self, path: Path) -> Place:
        return Place(self.file)

    def complain(self, path: Path, message: str, help: str, key: bool = False) -> None:
        raise AssertionError(f"{self.file} {path}: {message} ({help})")


#: file -> (kind, data)
PackData = dict[str, tuple[str, Data]]


def built(data: PackData) -> Pack:
    """The pack of some data, its files taken in the order of the mapping."""
    return build([MemorySource(kind, file, value) for file, (kind, value) in data.items()], "random", "1", "0" * 16, "random")


FACTS: PackData = {
    "facts/site.yaml": (
        "facts",
        {
            "group": "site",
            "facts": {
                "size": {"type": "integer", "description": "a small number", "minimum": 1, "maximum": 4},
                "flag": {"type": "boolean", "description": "a boolean"},
                "kind": {"type": "text", "description": "one of three", "choices": ["x", "y", "z"], "optional": True},
                "names": {"type": "set", "description": "some of two", "choices": ["p", "q"], "optional": True},
                "tag": {"type": "text", "description": "any text", "optional": True},
                "level": {"type": "number", "description": "a number", "minimum": 0},
                "usual": {"type": "boolean", "description": "assumed", "assume": True},
                "likely": {"type": "boolean", "description": "presumed under a condition", "presume": True, "presume_when": {"site.kind": "x"}},
                "bound": {"type": "integer", "description": "a bound that limits name", "minimum": 0, "optional": True},
            },
        },
    ),
    "facts/engine.yaml": (
        "facts",
        {
            "group": "engine",
            "facts": {
                "name": {"type": "text", "description": "the engine", "choices": ["alpha", "beta"]},
                "version": {"type": "version", "description": "its release"},
            },
        },
    ),
    "facts/runtime.yaml": (
        "facts",
        {"group": "runtime", "facts": {"builder": {"type": "text", "description": "who builds", "choices": ["engine", "adapter"], "assume": "engine"}}},
    ),
    "facts/traits.yaml": (
        "facts",
        {
            "group": "traits",
            "facts": {
                "engine.mode": {"type": "text", "description": "an engine's trait", "choices": ["m", "n"], "derived": True},
                "lib.able": {"type": "boolean", "description": "a library's trait", "optional": True, "derived": True},
            },
        },
    ),
}

#: What a condition may ask of each fact.
ASKED: dict[str, list[Any]] = {
    "site.size": [1, 2, 4, ">=2", "<3", "<=2", ">3", "!=2", [1, 4], [1, ">=3"]],
    "site.flag": [True, False],
    "site.kind": ["x", "y", ["x", "z"], "absent", "present"],
    "site.names": [{"contains": "p"}, {"within": ["p"]}, {"overlaps": ["p", "q"]}, "absent", "present"],
    "site.tag": ["t", ["t", "u"], "absent", "present"],
    "site.level": [">=1.5", "<1.5", ">0", [0, ">2"]],
    "site.usual": [True, False],
    "site.likely": [True, False],
    "engine.name": ["alpha", "beta"],
    "engine.version": [">=2.0", "<2.0", ">=1.5,<2.5", "==2.0", "<=2.0", ["1.0", ">=3.0"], "!=1.5"],
    "packages.lib": [">=1.1", "<1.1", "absent", "present", ">=1.0,<2.0", ["1.0", "absent"]],
    "runtime.builder": ["engine", "adapter"],
    "traits.engine.mode": ["m", "n"],
    "traits.lib.able": [True, False, "absent"],
}
#: The single values a launch may state for each fact.
VALUES: dict[str, list[Any]] = {
    "site.size": [1, 2, 3, 4],
    "site.flag": [True, False],
    "site.kind": ["x", "y", "z", "absent"],
    "site.names": [["p"], ["p", "q"], [], "absent"],
    "site.tag": ["t", "u", "other", "absent"],
    "site.level": [0, 1.5, 2, 3.25],
    "site.usual": [True, False],
    "site.likely": [True, False],
    "site.bound": [0, 1, 5, 100, "absent"],
    "engine.name": ["alpha", "beta"],
    "engine.version": ["0.9", "1.0", "1.5", "2.0rc1", "2.0", "2.0.post1", "2.5", "3.0", "4.0"],
    "packages.lib": ["0.9", "1.0", "1.1.dev5", "1.1", "2.0", "3.0", "absent"],
    "runtime.builder": ["engine", "adapter"],
}
#: What a launch may state besides one value.
OPEN: dict[str, list[Any]] = {
    "site.size": ["unknown", [1, 2], ">=3", [2, 4]],
    "site.kind": ["unknown", ["x", "absent"], ["x", "y"]],
    "site.names": [{"any_of": [["p"], ["q"]]}],
    "site.tag": [["t", "absent"]],
    "site.level": [">=2", "<1.5"],
    "site.bound": [[1, 5], ">=2", "unknown"],
    "engine.version": [">=1.5", "<2.0", ["1.0", "3.0"], "0.0.0+unknown", "2.1.dev3"],
    "packages.lib": [">=1.0", "<1.1", ["1.0", "absent"]],
    "runtime.builder": [["engine", "adapter"]],
}
CONSEQUENCES = ["hang", "wrong_numbers", "crash", "partly_fused", "unfused", "slower"]
RELEASES = ["1.0", "1.5", "2.0", "2.5", "3.0"]

T = TypeVar("T")


@dataclass
class Choose:
    """A source of choices: `below(n)` is a whole number from 0 to n - 1."""

    below: Callable[[int], int]

    def one(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def often(self, tenths: int) -> bool:
        return self.below(10) < tenths

    def some(self, make: Callable[[], T], least: int, most: int) -> list[T]:
        return [make() for _ in range(least + self.below(most - least + 1))]


def atom(choose: Choose) -> Data:
    """One fact against a constant."""
    fact = choose.one(sorted(ASKED))
    return {fact: choose.one(ASKED[fact])}


def condition(choose: Choose, names: Sequence[str] = ()) -> Any:
    """A condition tree; `names` are named conditions that it may use."""

    def leaf() -> Any:
        return choose.one(names) if names and choose.often(3) else atom(choose)

    kind = choose.below(6)
    if kind < 3:
        return leaf()
    if kind == 3:
        return {"not": leaf()}
    parts = choose.some(leaf, 1, 3)
    if choose.often(2):
        parts.append({"any": choose.some(leaf, 1, 2)})
    return {"all" if kind == 4 else "any": parts}


def selector(choose: Choose, plans: Sequence[Data]) -> Data:
    """Attributes that at least one of the plans has."""
    plan = choose.one(plans)
    names = ["library", "backend", "scope", "id"]
    return {name: plan[name] for name in choose.some(lambda: choose.one(names), 1, 2)}


LIMITS: list[Data] = [
    {"max_bytes": 10},
    {"max_bytes": 3},
    {"min_bytes": 5},
    {"max_bytes": "site.bound"},
    {"min_bytes": "site.bound"},
    {"dtypes": ["a", "b"]},
    {"dtypes": ["b", "c"]},
    {"dtypes": ["d"]},
]


def rule(choose: Choose, identifier: str, plans: Sequence[Data], names: Sequence[str]) -> Data:
    """One rule about some of the plans, or about the launch."""
    effect = choose.one(["exclude", "exclude", "exclude", "limit", "limit", "warn", "refuse"])
    made: Data = {"id": identifier, "title": f"{identifier} holds", "effect": effect}
    if choose.often(9):
        made["when"] = condition(choose, names)
    if effect in ("exclude", "limit") or (effect == "warn" and choose.often(5)):
        made["plans"] = selector(choose, plans)
    if effect in ("exclude", "refuse"):
        made["consequence"] = choose.one(CONSEQUENCES)
    if effect == "limit":
        made["limit"] = choose.one(LIMITS)
    return made


def fusion(choose: Choose, name: str, names: Sequence[str], requires: list[str]) -> Data:
    """One fusion with one to three plans."""
    plans = []
    for number in range(1 + choose.below(3)):
        plan: Data = {"id": f"{name}{number}", "library": "lib", "backend": choose.one(["b", "c"]), "scope": choose.one(["group", "world"])}
        if choose.often(2):
            plan["call"] = condition(choose, names)
        plan["needs"] = choose.some(lambda: condition(choose, names), 0, 1) if choose.often(5) else []
        if choose.often(2):
            plan["when"] = condition(choose, names)
        plans.append(plan)
    made: Data = {"fusion": name, "title": f"the fusion {name}", "plans": plans, "requires": requires}
    if choose.often(4):
        made["wanted"] = condition(choose, names)
    return made


def arm(choose: Choose, since: str, plans: Sequence[Data], names: Sequence[str]) -> Data:
    """What some releases do; the takes cover every launch, as they do where somebody read the code."""
    made: Data = {"since": since, "known": choose.often(9)}
    made["unset"] = choose.one([True, True, False, None]) if choose.often(7) else condition(choose, names)
    if made["unset"] is None:
        del made["unset"]
    if choose.often(2):
        made["requested_on"] = condition(choose, names)
    if choose.often(2):
        made["requested_off"] = True if choose.often(5) else condition(choose, names)
    if choose.often(2):
        made["dies"] = condition(choose, names)

    def take() -> Data:
        return {"chain": choose.some(lambda: selector(choose, plans), 1, 2), "falls_back": choose.often(6)}

    if choose.often(5):
        asked = condition(choose, names)
        made["takes"] = [{"when": asked, **take()}, {"when": {"not": asked}, **take()}]
    else:
        made["takes"] = [take()]
    return made


def switch(choose: Choose, of: Data, names: Sequence[str]) -> Data:
    """How some releases are told."""
    turn = choose.one(["on", "off", "plan", "plan"])
    made: Data = {
        "fusion": of["fusion"],
        "turn": turn,
        "kind": choose.one(["flag", "env", "config", "none"]),
        "text": f"--{turn}",
        "since": choose.one(["1.0", "2.0"]),
    }
    if choose.often(4):
        made["until"] = "3.0"
    if turn == "plan":
        made["reaches"] = selector(choose, of["plans"])
    if choose.often(3):
        made["when"] = condition(choose, names)
    return made


def pack(choose: Choose, most_rules: int = 4) -> PackData:
    """The data of a pack."""
    data: PackData = dict(FACTS)
    named = {name: {"title": f"{name} holds", "when": condition(choose)} for name in ["first", "second"][: choose.below(3)]}
    names = list(named)
    if named:
        data["conditions.yaml"] = ("conditions", {"conditions": named})
    fused = [fusion(choose, "f", names, [])]
    if choose.often(5):
        fused.append(fusion(choose, "g", names, ["f"] if choose.often(5) else []))
    for one in fused:
        data[f"fusions/{one['fusion']}.yaml"] = ("fusion", one)
    for engine in ("alpha", "beta"):
        folder = f"products/{engine}"
        product = {
            "product": engine,
            "title": engine.title(),
            "role": "engine",
            "package": engine,
            "through": "3.0",
            "releases": RELEASES if engine == "alpha" else ["9.0"],
        }
        data[f"{folder}/product.yaml"] = ("product", product)
        rows = [{"since": since, "value": choose.one(["m", "n", None])} for since in ("1.0", "2.0")[: 1 + choose.below(2)]]
        data[f"{folder}/traits.yaml"] = ("traits", {"traits": {"mode": {"rows": rows}}})
        told = [switch(choose, one, names) for one in fused for _ in range(choose.below(3))]
        data[f"{folder}/switches.yaml"] = ("switches", {"switches": told})
        if choose.often(5):
            size = choose.one([1, 2, [{"since": "1.0", "value": 1}, {"since": "2.0", "value": 2}]])
            data[f"{folder}/defaults.yaml"] = ("defaults", {"defaults": {"site.size": size, "site.flag": False}})
        if choose.often(5):
            data[f"{folder}/pins.yaml"] = ("pins", {"pins": {"2.0": {"lib": "==1.1"}, "3.0": {"lib": ">=1.1"}}})
        for one in fused:
            if engine == "alpha" or choose.often(5):
                arms = [arm(choose, since, one["plans"], names) for since in choose.one([["0.5"], ["1.0", "2.0"], ["0.5", "3.0"]])]
                data[f"{folder}/gates/{one['fusion']}.yaml"] = (
                    "gate",
                    {"gate": f"{engine}-{one['fusion']}", "fusion": one["fusion"], "setting": "fuse", "through": "3.0", "arms": arms},
                )
    data["products/lib/product.yaml"] = (
        "product",
        {"product": "lib", "title": "Lib", "role": "library", "package": "lib", "through": "2.0", "releases": ["1.0", "1.1", "2.0"]},
    )
    able = [{"since": since, "value": choose.one([True, False, None])} for since in ("1.0", "1.1")]
    data["products/lib/traits.yaml"] = ("traits", {"traits": {"able": {"rows": able}}})
    plans = plans_of(data)
    for number in range(choose.below(most_rules + 1)):
        one = rule(choose, f"rule-{number}", plans, names)
        data[f"theme/{one['id']}.yaml"] = ("rule", one)
    return data


def plans_of(data: PackData) -> list[Data]:
    """The plans of a pack's data."""
    return [plan for kind, value in data.values() if kind == "fusion" for plan in value["plans"]]


def names_of(data: PackData) -> list[str]:
    """The named conditions of a pack's data."""
    return list(data["conditions.yaml"][1]["conditions"]) if "conditions.yaml" in data else []


def facts_of_launch(choose: Choose, data: PackData) -> Data:
    """What a launch states: most facts singly, some as several possible values, some not at all."""
    stated: Data = {}
    likely = {"engine.name": 9, "engine.version": 9, "packages.lib": 8, "runtime.builder": 5}
    for name, values in VALUES.items():
        dice = choose.below(10)
        if dice < likely.get(name, 7):
            stated[name] = choose.one(values[:1] if name == "engine.name" and choose.often(6) else values)
        elif dice < 9 and name in OPEN:
            stated[name] = choose.one(OPEN[name])
    for name in [value["fusion"] for kind, value in data.values() if kind == "fusion"]:
        dice = choose.below(12)
        if dice < 4:
            stated[f"request.{name}"] = choose.one(["on", "on", "off", "unknown", ["on", "absent"]])
        if dice in (0, 5):
            stated[f"request.{name}_plan"] = choose.one([f"{name}0", "b", "c", ["b", "absent"], "unknown"])
        if dice in (1, 6):
            stated[f"request.{name}_max_bytes"] = choose.one([0, 4, 100, [0, 4], "unknown"])
    return stated


def seeded(seed: int) -> Choose:
    """Choices by a seeded generator."""
    return Choose(random.Random(seed).randrange)


@lru_cache(maxsize=64)
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


@st.composite
def choices(draw: st.DrawFn) -> Choose:
    """Choices by hypothesis."""
    return Choose(lambda count: draw(_below(count)))


@st.composite
def packs_and_launches(draw: st.DrawFn, most_rules: int = 4) -> tuple[Choose, PackData, Data]:
    """A pack's data and the facts of a launch, with the choices that made them for more."""
    choose = Choose(lambda count: draw(_below(count)))
    data = pack(choose, most_rules)
    return choose, data, facts_of_launch(choose, data)


def launched(made: Pack, facts: Data) -> Launch:
    """The launch that states these facts."""
    return Launch.of(made, facts)
