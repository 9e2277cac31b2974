"""Data classes with slots, defined at a twentieth of what `dataclasses` takes: a cold command defines seventy of them.

The names and their meaning are those of `dataclasses`, which type checkers see here.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:

    class _Field:
        __slots__ = ("compare", "default", "default_factory", "init", "repr")

        def __init__(self, default: Any, default_factory: Any, init: bool, repr: bool, compare: bool) -> None:
            self.default, self.default_factory = default, default_factory
            self.init, self.repr, self.compare = init, repr, compare

    class _Required:
        """The default of a field that has none."""

    def field(*, default: Any = _Required, default_factory: Any = None, init: bool = True, repr: bool = True, compare: bool = True) -> Any:
        """A field with more than a default."""
        return _Field(default, default_factory, init, repr, compare)

    def dataclass(*, frozen: bool = False, slots: bool = True) -> Any:
        """A class decorator; `slots` are always made."""

        def decorate(cls: type) -> type:
            own = {name: vars(cls).get(name, _Required) for name in vars(cls).get("__annotations__", None) or cls.__annotations__}
            own = {name: value if isinstance(value, _Field) else _Field(value, None, True, True, True) for name, value in own.items()}
            fields = {**getattr(cls, "__record__", {}), **own}
            inherited = getattr(cls, "__record__", {})
            body = {name: value for name, value in vars(cls).items() if name not in own and name not in ("__dict__", "__weakref__")}
            body["__slots__"] = tuple(name for name in own if name not in inherited)
            body["__record__"], body["__qualname__"] = fields, cls.__qualname__
            body["__match_args__"] = tuple(name for name, one in fields.items() if one.init)
            body.setdefault("__repr__", _repr)
            body.setdefault("__reduce__", _reduce)
            if "__eq__" not in body:
                values = _values_of(tuple(name for name, one in fields.items() if one.compare))
                body["__eq__"] = _eq_of(values)
                body["__hash__"] = _hash_of(values) if frozen else None
            if frozen:
                body["__setattr__"] = body["__delattr__"] = _refuse
            made = type(cls)(cls.__name__, cls.__bases__, body)
            if "__init__" not in body:
                made.__init__ = _init_of(made)
            return made

        return decorate

    def replace(held: Any, /, **changes: Any) -> Any:
        """The same object with other values of some fields."""
        return type(held)(**{name: getattr(held, name) for name, one in type(held).__record__.items() if one.init and name not in changes}, **changes)

    def _init_of(cls: type) -> Any:
        """The `__init__` of a class: every field in turn, by the slot's own setter, the one way past a frozen class."""
        fields = cls.__record__
        taken = [name for name, one in fields.items() if one.init]
        setters = [getattr(cls, name).__set__ for name in taken]
        # from `simple` on every field has a default that is no factory
        defaults = tuple([fields[name].default for name in taken])
        count = simple = len(taken)
        while simple and fields[taken[simple - 1]].default_factory is None and defaults[simple - 1] is not _Required:
            simple -= 1

        def __init__(self: Any, *values: Any, **named: Any) -> None:
            if named or len(values) != count:
                if not named and simple <= len(values) < count:
                    values += defaults[len(values) :]
                else:
                    values = (*values, *_others(cls, taken[len(values) :], named))
                    if len(values) > count or named:
                        raise TypeError(f"{cls.__name__}() takes {', '.join(taken)}; not {', '.join(named) or f'{len(values)} values'}")
            for put, value in zip(setters, values):  # noqa: B905 (they are as many)
                put(self, value)

        return _and_then(cls, __init__)

    def _and_then(cls: type, first: Any) -> Any:
        """The same with the fields that no caller gives, and the class's `__post_init__`."""
        made = [(getattr(cls, name).__set__, one) for name, one in cls.__record__.items() if not one.init]
        made = [(put, one) for put, one in made if one.default_factory is not None or one.default is not _Required]
        after = getattr(cls, "__post_init__", None)

        def __init__(self: Any, *values: Any, **named: Any) -> None:
            first(self, *values, **named)
            for put, one in made:
                put(self, one.default if one.default_factory is None else one.default_factory())
            if after is not None:
                after(self)

        return __init__ if made or after is not None else first

    def _others(cls: type, names: list[str], named: dict[str, Any]) -> Iterator[Any]:
        """The values of the fields that are not given by position; what is used is taken out of `named`."""
        for name in names:
            one = cls.__record__[name]
            if name in named:
                yield named.pop(name)
            elif one.default_factory is not None:
                yield one.default_factory()
            elif one.default is not _Required:
                yield one.default
            else:
                raise TypeError(f"{cls.__name__}() is given no `{name}`")

    def _values_of(compared: tuple[str, ...]) -> Any:
        """What makes a tuple of an object's compared fields."""
        return attrgetter(*compared) if len(compared) > 1 else lambda held: tuple([getattr(held, name) for name in compared])

    def _eq_of(values: Any) -> Any:
        def __eq__(self: Any, other: Any) -> Any:
            if self is other:
                return True
            return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

        return __eq__

    def _hash_of(values: Any) -> Any:
        def __hash__(self: Any) -> int:
            return hash(values(self))

        return __hash__

    def _repr(self: Any) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name, one in type(self).__record__.items() if one.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _reduce(self: Any) -> Any:
        return type(self), tuple(getattr(self, name) for name, one in type(self).__record__.items() if one.init)

    def _refuse(self: Any, name: str, value: Any = None) -> None:
        raise AttributeError(f"`{name}` of {type(self).__name__} cannot be set")


__all__ = ["dataclass", "field", "replace"]
