"""The shapes of a pack's files, as pydantic models: what `policy check` demands and what the JSON Schemas say.

Only the loader of YAML and the writer of schemas import this module; a compiled pack needs neither.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

ConditionField = Annotated[Any, WithJsonSchema({"refers_to": "condition"})]
FactMapping = Annotated[dict[str, Any], WithJsonSchema({"refers_to": "factValues"})]
VersionText = Annotated[str, Field(min_length=1, description="a PEP 440 version, in quotes", json_schema_extra={"pattern": "^[0-9]"})]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$")]
Scalar = str | bool | int | float | None


class Document(BaseModel):
    """The base of all shapes: unknown fields are refused, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Manifest(Document):
    """`pack.yaml`: what the pack is called and how far its knowledge reaches."""

    name: Name
    title: str = Field("", description="one line: what the pack is for")
    version: VersionText
    format: Literal[1] = Field(description="the format of the pack's files")
    known_through: dict[str, VersionText] = Field(default_factory=dict, description="product -> the newest release that was read")


class FactDocument(Document):
    """One fact of a launch."""

    type: Literal["integer", "number", "version", "boolean", "text", "set"]
    description: str = Field(min_length=1)
    choices: list[str] = Field(default_factory=list, description="the closed domain of a text, or the names a set may hold")
    minimum: float | int | None = None
    maximum: float | int | None = None
    unit: str = Field("", description="bytes, tokens, ranks, …")
    optional: bool = Field(False, description="whether `absent` is a value")
    assume: Scalar = Field(None, description="used where nothing is known; always printed")
    presume: Scalar = Field(None, description="used only where a provisional answer is accepted")
    presume_when: ConditionField = Field(None, description="the condition under which the presumption is made")
    fold: Literal["all", "any", "min", "max", "same"] = Field("same", description="how the values of several ranks are joined")
    change: Literal["flag", "package", "machine"] | None = Field(None, description="what it costs to change; left out: it cannot be changed")
    find_out: str = Field("", description="the command or the place that tells it")
    source: str = Field("", description="where the engines read it")
    derived: bool = Field(False, description="computed from other facts; may also be given")


class FactsDocument(Document):
    """`facts/GROUP.yaml`: the facts of one group."""

    group: Name
    description: str = ""
    facts: dict[str, FactDocument]


class NamedConditionDocument(Document):
    """A condition that rules and plans name."""

    title: str = Field(min_length=1, description="a clause that completes `because …`")
    when: ConditionField
    source: str = ""


class ConditionsDocument(Document):
    """`conditions.yaml`: named conditions."""

    conditions: dict[Name, NamedConditionDocument]


class CaseDocument(Document):
    """One test of a rule alone."""

    name: str = Field(min_length=1)
    launch: FactMapping
    expect: Literal["fires", "silent", "unknown"]


SelectorField = Annotated[dict[str, str | list[str]], Field(description="chooses plans by attribute: fusion, id, library, backend, scope, passes, …")]


class VerifiedDocument(Document):
    """What was measured."""

    hardware: str
    saw: str = Field(min_length=1)
    flashinfer: str | list[str] | None = None
    engine: str | None = None
    not_varied: list[str] = Field(default_factory=list)
    on: str | None = Field(None, description="the date, as text")


class RuleDocument(Document):
    """One rule: a situation and what it does."""

    id: Name
    title: str = Field(min_length=1, description="a clause that completes `because …`; lower case, no full stop")
    plans: SelectorField | None = None
    when: ConditionField = Field(None, description="left out: always")
    effect: Literal["exclude", "limit", "warn", "refuse"]
    limit: dict[str, int | float | str | list[str]] | None = Field(None, description="`max_*`, `min_*` or a set; a text names a fact")
    consequence: Literal["hang", "wrong_numbers", "crash", "partly_fused", "unfused", "slower"] | None = None
    why: str = Field("", description="the mechanism, and what the user sees")
    fix: str = Field("", description="one sentence")
    symptoms: list[str] = Field(default_factory=list, description="lines of a log or stack that show it")
    references: list[str] = Field(default_factory=list)
    verified: VerifiedDocument | None = None
    confidence: Literal["read in source", "stated in public", "inferred"] = "read in source"
    settles: bool = Field(False, description="the engine gives the plan up before it creates anything, so that no other consequence of the plan follows")
    asks: bool = Field(False, description="the rule may ask for facts that no other rule of its fusion asks for")
    retired: str = Field("", description="why the rule no longer applies; its id is never used again")
    cases: list[CaseDocument] = Field(default_factory=list)


class TableDocument(Document):
    """`tables/NAME.yaml`: rows of one shape; each becomes the rule `NAME/ROW`."""

    table: Name
    description: str = Field(min_length=1)
    rule: dict[str, Any] = Field(description="the fields of a rule that all rows share; `{column}` stands for the row's value in texts")
    keys: dict[str, str] = Field(default_factory=dict, description="column -> the fact that it is a condition on")
    also: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="a further rule of each row that has the columns it names, as `NAME/ROW-SUFFIX`: fields instead of those of `rule`"
    )
    otherwise: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, description="a rule for where no row holds, as `NAME/KEY`: fields instead of those of `rule`"
    )
    rows: list[dict[str, Any]] = Field(min_length=1)


class PlanDocument(Document):
    """One concrete way to run a fusion."""

    id: Name
    title: str = ""
    library: str
    backend: str = ""
    scope: str = ""
    passes: str = Field("", description="what the builder's call passes to scope the workspace: group, comm_backend, nothing")
    attributes: dict[str, str] = Field(default_factory=dict, description="further attributes that selectors may name")
    call: ConditionField = Field(None, description="where the builder's call takes this form; left out: always")
    needs: list[ConditionField] = Field(default_factory=list)
    when: ConditionField = Field(None, description="where the plan is preferred; left out: everywhere")


class FusionDocument(Document):
    """`fusions/NAME.yaml`: a fusion with its plans in order of preference."""

    fusion: Name
    title: str = Field(min_length=1)
    description: str = ""
    plans: list[PlanDocument] = Field(min_length=1)
    wanted: ConditionField = Field(None, description="whether it is worth having; left out: always")
    requires: list[Name] = Field(default_factory=list)
    after: list[Name] = Field(default_factory=list)
    references: list[str] = Field(default_factory=list)


class ProductDocument(Document):
    """`products/NAME/product.yaml`."""

    product: Name
    title: str
    role: Literal["engine", "library"]
    package: str = Field(description="the distribution's name")
    through: VersionText | None = Field(None, description="the newest release whose traits were read")
    releases: list[VersionText] = Field(default_factory=list, description="known releases, ascending")


class RowDocument(Document):
    """A value from a version on; `null` for not known."""

    since: VersionText
    value: Any = None
    note: str = ""


class TraitDocument(Document):
    """A trait by version."""

    rows: list[RowDocument] = Field(min_length=1)
    through: VersionText | None = Field(None, description="left out: the product's")
    references: list[str] = Field(default_factory=list)


class TraitsDocument(Document):
    """`products/NAME/traits.yaml`: trait name -> rows. The fact itself is declared in `facts/traits.yaml`."""

    traits: dict[str, TraitDocument]


class TakeDocument(Document):
    """A chain of plans that an engine tries."""

    chain: list[SelectorField] = Field(min_length=1)
    when: ConditionField = None
    falls_back: bool = Field(False, description="goes on cleanly to the next link where one cannot be created")


class ArmDocument(Document):
    """What the releases from `since` on do."""

    since: VersionText
    known: bool = True
    unset: ConditionField = Field(None, description="on where this holds and nothing is requested; false: never")
    requested_on: ConditionField = Field(None, description="on where this holds and on is requested; left out: always")
    requested_off: ConditionField = Field(None, description="on where this holds although off is requested; left out: never")
    dies: ConditionField = Field(None, description="the launch does not start where this holds; left out: never")
    dies_why: str = ""
    takes: list[TakeDocument] = Field(default_factory=list)
    note: str = ""


class GateDocument(Document):
    """`products/NAME/gates/FUSION.yaml`."""

    gate: Name
    fusion: Name
    setting: str
    through: VersionText | None = Field(None, description="the newest release that was read; left out: the product's")
    references: list[str] = Field(default_factory=list)
    conditions: dict[Name, NamedConditionDocument] = Field(default_factory=dict, description="conditions that only this gate names")
    arms: list[ArmDocument] = Field(min_length=1)


class SwitchDocument(Document):
    """How some releases are told."""

    fusion: Name
    turn: Literal["on", "off", "plan", "carry"] = Field(description="carry: brings the plug-in's variables to workers that somebody else starts")
    kind: Literal["flag", "env", "config", "none"]
    text: str
    since: VersionText
    until: VersionText | None = None
    reaches: SelectorField | None = None
    when: ConditionField = None
    note: str = ""


class SwitchesDocument(Document):
    """`products/NAME/switches.yaml`."""

    switches: list[SwitchDocument]


class PinsDocument(Document):
    """`products/NAME/pins.yaml`: release -> distribution -> what it requires."""

    pins: dict[str, dict[str, str]]


class DefaultsDocument(Document):
    """`products/NAME/defaults.yaml`: what the engine uses where nothing is given; a value, or rows by version."""

    defaults: dict[str, list[RowDocument] | Scalar]


class SettingDocument(Document):
    """What a setting of the engine says about a fact."""

    fact: str
    values: dict[str, Any] = Field(default_factory=dict, description="the setting's value (as text, lower case) -> the fact's; others are taken as they are")
    given: Any = Field(None, description="the fact's value where the setting is given at all")
    only: list[str] = Field(default_factory=list, description="the setting's values (as text, lower case) that say something; others say nothing")
    contains: str = Field("", description="a part (lower case) that the setting's value must have to say something, as one option among several")


class SettingsDocument(Document):
    """`products/NAME/settings.yaml`: what command lines, configuration files and the environment say about facts."""

    settings: dict[str, list[SettingDocument] | SettingDocument] = Field(
        default_factory=dict, description="the engine's own name of the setting, dotted for leaves"
    )
    environment: dict[str, list[SettingDocument] | SettingDocument] = Field(default_factory=dict, description="environment variable")


class DeviceDocument(Document):
    """`devices/NAME.yaml`: a machine whose facts are known."""

    device: Name
    title: str
    facts: FactMapping
    matches: list[str] = Field(default_factory=list, description="names of instance types, node labels and products that mean this device")
    references: list[str] = Field(default_factory=list)


class InvariantDocument(Document):
    """What no launch, or every launch, must be: one of `never`, `always`, `implies`. Conditions may also ask for `plan`,
    `state`, `left_alone`, `built`, `switch` and `asked`."""

    title: str = Field(min_length=1)
    why: str = Field(min_length=1)
    never: ConditionField = None
    always: ConditionField = None
    implies: dict[Literal["if", "then"], Any] | None = None
    fusion: str | list[str] | None = Field(None, description="left out: every fusion")
    posture: list[Literal["safe", "fast"]] | None = Field(None, description="left out: both")


class InvariantsDocument(Document):
    """`invariants/NAME.yaml`: statements that are proved over all launches."""

    invariants: dict[Name, InvariantDocument]


#: What a file is, by its path below the pack.
SHAPES: dict[str, type[Document]] = {
    "manifest": Manifest,
    "facts": FactsDocument,
    "conditions": ConditionsDocument,
    "rule": RuleDocument,
    "table": TableDocument,
    "fusion": FusionDocument,
    "product": ProductDocument,
    "traits": TraitsDocument,
    "gate": GateDocument,
    "switches": SwitchesDocument,
    "pins": PinsDocument,
    "defaults": DefaultsDocument,
    "settings": SettingsDocument,
    "device": DeviceDocument,
    "invariants": InvariantsDocument,
}
