"""`Launch` as a pydantic model, one group a field, built from the facts that the pack declares.

Each leaf takes one value, a list of possible values, a range such as `">=0.6.8,<0.7"`, or `"absent"`; wrong types,
values outside a domain and unknown names are validation errors with a did-you-mean.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from policy.facts import Fact, ValueProblem
from policy.load import read_pack
from policy.pack import Pack, did_you_mean

GROUPS = ("parallel", "device", "model", "engine", "runtime", "packages", "load", "request", "traits")


class Group(BaseModel):
    """One group of facts."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, given: Any) -> Any:
        if isinstance(given, dict):
            known = {field.alias or name for name, field in cls.model_fields.items()}
            for name in given:
                if name not in known and cls.model_config.get("extra") == "forbid":
                    raise ValueError(f"no fact is named `{name}` here; {did_you_mean(str(name), known) or 'known: ' + ', '.join(sorted(known))}")
        return given


def _annotation(fact: Fact) -> Any:
    kinds: dict[str, Any] = {"integer": int | str, "number": float | int | str, "version": str, "boolean": bool | str, "text": str, "set": list[str]}
    kind: Any = kinds[fact.type]
    if fact.type == "text" and fact.choices:
        kind = Literal[(*fact.choices, *(("absent",) if fact.optional else ()))]
    several = kind if fact.type == "set" else kind | list[kind]

    def check(value: Any) -> Any:
        if value is None:
            return None
        try:
            fact.values(value)
        except ValueProblem as problem:
            raise ValueError(f"{problem}; {problem.help}" if problem.help else str(problem)) from None
        return value

    return Annotated[several | None, BeforeValidator(check)]


def launch_model(pack: Pack) -> type[BaseModel]:
    """The typed launch of a pack: a field a group, a leaf a fact."""
    groups: dict[str, dict[str, Any]] = {name: {} for name in GROUPS}
    for name, fact in sorted(pack.facts.items()):
        group, _, leaf = name.partition(".")
        python_name = leaf.replace("-", "_").replace(".", "_")
        groups.setdefault(group, {})[python_name] = (_annotation(fact), Field(None, alias=leaf if leaf != python_name else None, description=fact.description))
    fields: dict[str, Any] = {}
    for group, leaves in groups.items():
        config = ConfigDict(extra="allow" if group == "packages" else "forbid", populate_by_name=True)
        model: Any = create_model(group.capitalize(), __base__=type(f"{group.capitalize()}Base", (Group,), {"model_config": config}), **leaves)
        fields[group] = (model, Field(default_factory=model, description=f"facts `{group}.…`"))
    launch: type[BaseModel] = create_model("Launch", __base__=_Launch, **fields)
    launch.__doc__ = "One server start: groups of facts. `facts()` gives them by dotted name."
    return launch


class _Launch(BaseModel):
    """The base of the typed launch."""

    model_config = ConfigDict(extra="forbid")

    def facts(self) -> dict[str, Any]:
        """The given facts by dotted name."""
        return {f"{group}.{leaf}": value for group, leaves in self.model_dump(by_alias=True, exclude_none=True).items() for leaf, value in leaves.items()}


@lru_cache(maxsize=1)
def _default() -> type[BaseModel]:
    return launch_model(read_pack())


def __getattr__(name: str) -> Any:
    if name == "Launch":
        return _default()
    raise AttributeError(f"module 'policy.typed' has no attribute {name!r}")
