"""Records behave as the standard library's data classes do: the same classes are made by both."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from policy import records


def make(module: Any, frozen: bool) -> tuple[type, type]:
    """A class, and one that inherits from it, made by a module's decorator."""

    @module.dataclass(frozen=frozen, slots=True)
    class Sized:
        name: str
        size: int = 1
        tags: list[str] = module.field(default_factory=list, repr=False)
        seen: int = module.field(default=0, compare=False)

        def doubled(self) -> int:
            return 2 * self.size

    @module.dataclass(frozen=frozen, slots=True)
    class Placed(Sized):
        place: str = "here"
        total: int = module.field(default=7, init=False)

    return Sized, Placed


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("a",), {}),
        (("a", 2), {}),
        (("a", 2, ["t"], 3), {}),
        (("a",), {"seen": 4}),
        ((), {"name": "a", "tags": ["x"]}),
        ((), {}),
        (("a",), {"name": "b"}),
        (("a", 1, [], 0, "there"), {}),
        (("a", 1, [], 0, "there", 9), {}),
        (("a",), {"colour": "red"}),
    ],
)
def test_objects_are_made_alike(frozen: bool, values: tuple[Any, ...], named: dict[str, Any]) -> None:
    for ours, theirs in zip(make(records, frozen), make(dataclasses, frozen), strict=True):
        made: list[Any] = []
        for cls in (ours, theirs):
            try:
                made.append(cls(*values, **named))
            except TypeError:
                made.append(TypeError)
        if made[1] is TypeError:
            assert made[0] is TypeError
            continue
        assert [getattr(made[0], one.name) for one in dataclasses.fields(theirs)] == [getattr(made[1], one.name) for one in dataclasses.fields(theirs)]
        assert repr(made[0]) == repr(made[1])
        assert made[0].doubled() == made[1].doubled()
        assert not hasattr(made[0], "__dict__")


@pytest.mark.parametrize("module", [records, dataclasses])
@pytest.mark.parametrize("frozen", [False, True])
def test_comparing_hashing_replacing(module: Any, frozen: bool) -> None:
    cls, inherited = make(module, frozen)
    one = cls("a", 2, ["t"])
    assert one == cls("a", 2, ["t"], 9)
    assert one != cls("a", 3, ["t"])
    assert one != inherited("a", 2, ["t"])
    assert one != ("a", 2, ["t"])
    changed = module.replace(one, size=5)
    assert (changed.name, changed.size, changed.tags) == ("a", 5, ["t"])
    with pytest.raises(TypeError):
        module.replace(one, colour="red")
    assert copy.copy(one) == one
    if frozen:
        with pytest.raises(AttributeError):
            one.size = 4
        with pytest.raises(AttributeError):
            del one.size
        assert hash(cls("a", 2, ())) == hash(cls("a", 2, (), 9))
    else:
        one.size = 4
        assert one.size == 4
        with pytest.raises(TypeError):
            hash(one)
    lists = [cls("a").tags for _ in range(3)]
    assert len({id(one) for one in lists}) == 3, "every object has a list of its own"
    with pytest.raises((AttributeError, TypeError)):
        cls("a").colour = "red"


@records.dataclass(frozen=True)
class Kept:
    """At the top of a module, so that it can be pickled."""

    name: str
    sizes: tuple[int, ...] = ()


def test_pickling() -> None:
    assert pickle.loads(pickle.dumps(Kept("a", (1, 2)))) == Kept("a", (1, 2))


def test_after_init() -> None:
    for module in (records, dataclasses):

        @module.dataclass(slots=True)
        class Summed:
            parts: list[int]
            total: int = module.field(init=False)

            def __post_init__(self) -> None:
                self.total = sum(self.parts)

        assert Summed([1, 2]).total == 3
        with pytest.raises(TypeError):
            Summed([1], 4)
