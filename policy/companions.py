"""Facts about packages that belong together: whether FlashInfer's companions carry its own version, whether a package is
a vendor's build, and which GPU a product name means.

A companion that only the engine's release requires says nothing about an installation whose FlashInfer was replaced, so
it counts only while FlashInfer is the required one too.
"""

from __future__ import annotations

from typing import Protocol

from policy.values import ABSENT, Discrete, Ordered, Values
from policy.versions import is_known_local, parse

FLASHINFER = "packages.flashinfer-python"
COMPANIONS = ("packages.flashinfer-cubin", "packages.flashinfer-jit-cache")
#: Packages whose local version may hide other code.
VENDORED = ("engine.version", FLASHINFER, "packages.torch")
BOTH = Discrete(frozenset((True, False)))
AGREEMENTS = frozenset(("same", "differs", "absent", "no_version"))
#: What FlashInfer calls itself where its build wrote no version, as in a checkout of its sources.
NO_VERSION = "0.0.0+unknown"


class Lookup(Protocol):
    """What these derivations ask of a launch."""

    def values(self, fact: str) -> Values:
        """The possible values of a fact."""
        ...

    def pinned(self, fact: str) -> bool:
        """Whether a fact's value is only what the engine's release requires."""
        ...

    def written(self, fact: str) -> str:
        """A given fact in the words it was given in; empty where it was not given as one text."""
        ...


def agreement(facts: Lookup, companion: str) -> Discrete:
    """`same`, `differs` or `absent`: a companion's version against FlashInfer's, local parts left out; `no_version` where
    FlashInfer has none to compare."""
    own, theirs = facts.values(FLASHINFER), facts.values(companion)
    assert isinstance(own, Ordered)
    assert isinstance(theirs, Ordered)
    replaced = facts.pinned(companion) and not facts.pinned(FLASHINFER)
    if facts.written(FLASHINFER) == NO_VERSION:
        found = {"no_version"} if theirs.intervals else set()
        return Discrete(frozenset(found | {"absent"} if replaced or theirs.absent else found))
    anything = any(low is None and high is None for low, _, high, _ in own.intervals)
    found = {"no_version"} if anything and theirs.intervals else set()
    if replaced:
        return Discrete(frozenset({"same", "differs", "absent"} | found))
    if theirs.absent or own.absent:
        found.add("absent")
    present, companions = Ordered(own.intervals, False, 0), Ordered(theirs.intervals, False, 0)
    if present and companions:
        one, other = present.single(), companions.single()
        if one is not None and other is not None:
            found.add("same" if one == other else "differs")
        else:
            found.update(("differs",) if present.outside(companions) else ("same", "differs"))
    return Discrete(frozenset(found)) if found else Discrete(AGREEMENTS)


def cubin_agreement(facts: Lookup) -> Discrete:
    """The agreement of flashinfer-cubin."""
    return agreement(facts, COMPANIONS[0])


def jit_cache_agreement(facts: Lookup) -> Discrete:
    """The agreement of flashinfer-jit-cache."""
    return agreement(facts, COMPANIONS[1])


def vendor_build(facts: Lookup) -> Discrete:
    """Whether the engine, FlashInfer or torch carries a local version that names no known build (`+cu130` is known)."""
    for fact in VENDORED:
        version = parse(facts.written(fact))
        if version is not None and version.local and not is_known_local(version.local):
            return Discrete.exactly(True)
    return Discrete.exactly(False)


def name_says_h20(facts: Lookup) -> Discrete:
    """Whether the GPU's product name contains H20 and not H200; false for another compute capability than 9.0, since the
    H20 has that one."""
    points = facts.values("device.name").points()
    if points is not None:
        return Discrete(frozenset(name is not ABSENT and "H20" in name and "H200" not in name for name in points))
    capability, hopper = facts.values("device.compute_capability"), parse("9.0")
    return BOTH if hopper in capability else Discrete.exactly(False)
