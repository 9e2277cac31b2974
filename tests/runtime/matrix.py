"""The fault matrix: what can go wrong, where it is made to happen, and the one outcome every surviving rank must have."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

PHASES = ("static", "vote", "build", "verify", "commit")
EARLY = ("static", "vote")


@dataclass(frozen=True)
class Fault:
    """A fault of one rank (or of all, `everywhere`): what it puts into that rank's part of the case, and the outcome it
    must lead to. `reaches` is the phase that must begin for it to happen at all."""

    name: str
    rank: dict[str, Any]
    expect: str
    reaches: str = "static"
    everywhere: bool = False


def _phase_faults() -> Iterator[Fault]:
    for phase in PHASES:
        for kind in ("exception", "delay", "SIGKILL", "SIGSTOP"):
            yield Fault(f"{phase}-{kind}", {"fault": {"phase": phase, "kind": kind}}, "unfused" if phase in EARLY else "restart", phase)
        for kind in ("store-SIGKILL", "store-SIGSTOP"):
            yield Fault(f"{phase}-{kind}", {"fault": {"phase": phase, "kind": kind}}, "restart", phase)


def _library_faults() -> Iterator[Fault]:
    for at, kind, expect, everywhere in (
        ("load", "exception", "unfused", False),
        ("load", "never", "unfused", False),
        ("load", "frozen", "unfused", False),
        ("load", "memory", "unfused", False),
        ("create", "exception", "restart", False),
        ("create", "exception", "unfused", True),
        ("create", "never", "restart", False),
        ("create", "frozen", "restart", False),
        ("created", "exception", "restart", False),
        ("created", "exception", "unfused", True),
        ("created", "never", "restart", True),
        ("call", "exception", "restart", False),
        ("call", "exception", "unfused", True),
        ("call", "wrong", "unfused", False),
        ("call", "never", "restart", False),
    ):
        reaches = {"load": "static", "create": "build", "created": "build", "call": "verify"}[at]
        yield Fault(f"library-{at}-{kind}{'-everywhere' if everywhere else ''}", {"library_fault": {"at": at, "kind": kind}}, expect, reaches, everywhere)


def _differences() -> Iterator[Fault]:
    yield Fault("no-adapter", {"adapter": False}, "unfused", "vote")
    for name, rank in (
        ("version", {"library": "0.6.13"}),
        ("environment", {"environment": {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}}),
        ("digest", {"digest": "d2"}),
        ("state", {"state": "off"}),
        ("max-tokens", {"consumer": {"max_tokens": 8}}),
        ("hidden-size", {"consumer": {"hidden_size": 64}}),
        ("pdl", {"consumer": {"launch_with_pdl": True}}),
        ("accumulation", {"consumer": {"fp32_accumulation": False}}),
        ("one-shot", {"consumer": {"one_shot": False}}),
        ("capability", {"machine": {"capability": (8, 0)}}),
        ("multiprocessors", {"machine": {"multiprocessors": 114}}),
        ("no-device", {"machine": {"platform": "cpu"}}),
        ("node", {"machine": {"node": "another"}}),
        ("weight-dtype", {"consumer": {"norm_weight_dtype": "bfloat16"}}),
        ("memory", {"machine": {"memory_free": 64}}),
    ):
        yield Fault(f"differs-{name}", rank, "unfused", "static")


NONE = Fault("none", {}, "fused", "commit")
LEAVES = (  # processes that end right after their outcome, the store's host among them
    Fault("leaves-fused", {"leaves": True}, "fused", "commit", everywhere=True),
    Fault("leaves-unfused", {"leaves": True, "machine": {"platform": "cpu"}}, "unfused", "vote", everywhere=True),
)
FAULTS = (NONE, *LEAVES, *_phase_faults(), *_library_faults(), *_differences())
LAYOUTS: dict[str, tuple[int, list[list[int]]]] = {
    "2": (2, []),
    "3": (3, []),
    "4": (4, []),
    "2x2": (4, [[0, 1], [2, 3]]),
    "2x2-strided": (4, [[0, 2], [1, 3]]),
    "8": (8, []),
    "4x2": (8, [[0, 1, 2, 3], [4, 5, 6, 7]]),
}
FACTORS: dict[str, tuple[Any, ...]] = {
    "fault": FAULTS,
    "layout": tuple(LAYOUTS),
    "where": ("first", "last"),
    "store": ("host", "rank0"),
    "library": ("0.6.12", "0.7.4"),
}


def case(fault: Fault, layout: str, where: str, store: str, library: str) -> dict[str, Any]:
    """The case as the fork server reads it, with its expectation."""
    size, groups = LAYOUTS[layout]
    faulty = range(size) if fault.everywhere else [0 if where == "first" else size - 1]
    deadline = [3.0, 2.0] if size <= 4 else [5.0, 3.5]
    return {
        "id": f"{fault.name}@{layout}-{where}-{store}-{library}",
        "size": size,
        "groups": groups,
        "store": store,
        "library": library,
        "deadline": deadline,
        "ranks": {str(rank): fault.rank for rank in faulty},
        "fault": fault.name,
        "expect": expected(fault, layout),
        "allowed": sorted(allowed(fault, layout, store, where)),
    }


def expected(fault: Fault, layout: str) -> str:
    """A WORLD of three is refused by the static check, so later phases never begin there."""
    if layout == "3" and fault.reaches not in EARLY:
        return "unfused"
    return fault.expect


def allowed(fault: Fault, layout: str, store: str, where: str) -> set[str]:
    """Outcomes that a surviving rank may have. Only where the faulty rank hosts the store do two words fit: its peers
    lose the store and end as `restart`, whatever the fault would have led to otherwise."""
    words = {expected(fault, layout)}
    hosts = store == "rank0" and (where == "first" or fault.everywhere)
    if hosts and ("SIG" in fault.name or "frozen" in fault.name):
        words.add("restart")
    return words


def everything() -> list[dict[str, Any]]:
    """Every fault on several layouts, the other factors rotating: the full matrix."""
    cases = []
    rotation = itertools.cycle(itertools.product(FACTORS["where"], FACTORS["store"], FACTORS["library"]))
    for fault in FAULTS:
        for layout in LAYOUTS:
            where, store, library = next(rotation)
            cases.append(case(fault, layout, where, store, library))
    return [each for each in cases if runnable(each)]


def runnable(each: dict[str, Any]) -> bool:
    """A store host that is to be stopped or killed by somebody else must be a process of its own."""
    return not ("store-" in each["fault"] and each["store"] == "rank0" and "0" not in each["ranks"])


def _kind(fault: Fault) -> str:
    """The coarse kind: what happens, whichever phase it happens in."""
    parts = fault.name.split("-")
    if parts[0] in PHASES:
        return "-".join(parts[1:])
    return parts[0] if parts[0] in ("differs", "none", "no", "leaves") else "-".join(["library", *parts[2:]])


#: Pairs of factors of which every pair of values occurs in the small set. `kind` with `layout` would alone take 70 cases.
PAIRS = (
    ("phase", "kind"),
    ("phase", "layout"),
    ("phase", "where"),
    ("kind", "where"),
    ("phase", "store"),
    ("layout", "store"),
    ("layout", "library"),
    ("phase", "library"),
)
SMALL_DIFFERENCES = ("differs-version", "differs-environment", "differs-digest", "differs-max-tokens", "differs-state")


def pairwise() -> list[dict[str, Any]]:
    """A small set, chosen greedily and always the same, in which every pair of values of `PAIRS` occurs."""

    def possible(fault: Fault, layout: str, where: str, store: str, library: str) -> bool:
        if fault.name.startswith("differs") and (fault.name not in SMALL_DIFFERENCES or layout == "8"):
            return False
        return (
            layout not in ("2x2-strided", "4x2") and not (layout == "3" and fault.reaches not in EARLY) and runnable(case(fault, layout, where, store, library))
        )

    def pairs(fault: Fault, layout: str, where: str, store: str, library: str) -> set[tuple[str, ...]]:
        values = {"phase": fault.reaches, "kind": _kind(fault), "layout": layout, "where": where, "store": store, "library": library}
        return {(a, values[a], b, values[b]) for a, b in PAIRS} | ({("difference", fault.name)} if fault.name in SMALL_DIFFERENCES else set())

    covers = [(five, pairs(*five)) for five in itertools.product(FAULTS, LAYOUTS, FACTORS["where"], FACTORS["store"], FACTORS["library"]) if possible(*five)]
    random.Random(2).shuffle(covers)  # always the same order; equally good cases then vary in the factors that no pair asks for
    left = set().union(*(cover for _, cover in covers))
    chosen: list[dict[str, Any]] = []
    while left:
        five, cover = max(covers, key=lambda item: len(item[1] & left))
        left -= cover
        chosen.append(case(*five))
    return chosen
