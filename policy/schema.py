"""JSON Schemas (draft-07) of a pack's files and of a facts file, made from the shapes and the facts declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from policy.documents import SHAPES
from policy.facts import Fact
from policy.pack import Pack

#: What invariants ask besides facts: the answer itself.
ANSWERS: dict[str, Any] = {
    "plan": {"type": "object", "minProperties": 1},
    **{name: {"type": ["string", "array"]} for name in ("state", "left_alone", "built", "switch", "asked")},
}
DRAFT = "http://json-schema.org/draft-07/schema#"


def schemas(pack: Pack) -> dict[str, dict[str, Any]]:
    """File name -> schema: one for each kind of pack file, and `facts_file` for `--facts`."""
    made = {f"{kind}.schema.json": _shape(kind, pack) for kind in SHAPES}
    made["facts_file.schema.json"] = {
        "$schema": DRAFT,
        "title": "facts of a launch",
        "description": "what `--facts FILE` takes: fact names (dotted or nested) and values",
        "$ref": "#/definitions/factValues",
        "definitions": _definitions(pack),
    }
    return made


def text(schema: dict[str, Any]) -> str:
    """A schema as it is written to its file."""
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write(pack: Pack, folder: Path) -> list[Path]:
    """Write every schema; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, schema in schemas(pack).items():
        path = folder / name
        path.write_text(text(schema), encoding="utf-8")
        written.append(path)
    return written


def _shape(kind: str, pack: Pack) -> dict[str, Any]:
    schema: dict[str, Any] = _referring(json.loads(json.dumps(SHAPES[kind].model_json_schema()).replace("#/$defs/", "#/definitions/")))
    definitions = {**schema.pop("$defs", {}), **_definitions(pack)}
    if kind == "invariants":
        definitions["condition"]["anyOf"][-1]["properties"].update(ANSWERS)
    schema["definitions"] = _used(schema, definitions)
    schema["$schema"] = DRAFT
    return schema


def _referring(value: Any) -> Any:
    """The marks that the shapes leave for conditions and fact values, as references; what stands beside a reference
    goes around it, because draft-07 ignores it there."""
    if isinstance(value, list):
        return [_referring(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("refers_to"), str):
        rest = {name: inner for name, inner in value.items() if name not in ("refers_to", "default")}
        return {**rest, "allOf": [{"$ref": f"#/definitions/{value['refers_to']}"}]}
    if isinstance(value.get("patternProperties"), dict):
        value = {"additionalProperties": False, **value}
    return {name: _referring(inner) for name, inner in value.items()}


def _used(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that the schema refers to, directly or not."""
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        for name in _references(waiting.pop()):
            if name not in found and name in definitions:
                found[name] = definitions[name]
                waiting.append(definitions[name])
    return dict(sorted(found.items()))


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].rsplit("/", 1)[-1]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(inner) for inner in value.values()))
    return set().union(*(_references(inner) for inner in value)) if isinstance(value, list) else set()


def _definitions(pack: Pack) -> dict[str, Any]:
    names = sorted(pack.facts)
    comparison = {name: {"description": pack.facts[name].description, **_comparison(pack.facts[name])} for name in names}
    package = {"^packages\\.": {"type": ["string", "array"], "description": "a version, a range such as `>=0.6.10,<0.6.15`, `present` or `absent`"}}
    condition: dict[str, Any] = {
        "description": "a named condition, a conjunction of facts, or `all`, `any`, `not`",
        "anyOf": [
            {"type": "string", "anyOf": [{"enum": sorted(pack.conditions)}, {"pattern": "^[a-z0-9-]+$"}]},
            {"type": "boolean"},
            {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "properties": {
                    "all": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/condition"}},
                    "any": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/condition"}},
                    "not": {"$ref": "#/definitions/condition"},
                    **comparison,
                },
                "patternProperties": package,
            },
        ],
    }
    values = {name: {"description": pack.facts[name].description, **_value(pack.facts[name])} for name in names}
    groups = {name.partition(".")[0] for name in names} | {"packages"}
    fact_values = {
        "type": "object",
        "additionalProperties": False,
        "properties": {**values, **{group: {"type": "object"} for group in sorted(groups)}},
        "patternProperties": package,
    }
    return {"condition": condition, "factValues": fact_values}


def _scalar(fact: Fact) -> dict[str, Any]:
    if fact.type == "boolean":
        return {"type": "boolean"}
    if fact.type in ("integer", "number"):
        bounds = {name: value for name, value in (("minimum", fact.minimum), ("maximum", fact.maximum)) if value is not None}
        return {"type": fact.type, **bounds}
    if fact.choices:
        return {"enum": list(fact.choices)}
    return {"type": "string"}


def _value(fact: Fact) -> dict[str, Any]:
    if fact.type == "set":
        items = {"enum": list(fact.choices)} if fact.choices else {"type": "string"}
        return {"anyOf": [{"type": "array", "items": items}, {"const": "absent"}, {"const": "unknown"}, {"type": "object", "required": ["any_of"]}]}
    texts: list[Any] = [{"enum": ["unknown", *(["absent"] if fact.optional else [])]}]
    if fact.ordered:
        texts.append({"type": "string", "pattern": "^[<>=!]"})
    if fact.type == "boolean":
        texts.append({"enum": ["true", "false"]})
    return {"anyOf": [_scalar(fact), *texts, {"type": "array", "minItems": 1}]}


def _comparison(fact: Fact) -> dict[str, Any]:
    if fact.type == "set":
        return {
            "anyOf": [
                {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 1,
                    "properties": {"contains": {}, "within": {}, "overlaps": {}},
                    "additionalProperties": False,
                },
                {"enum": ["absent", "present"]},
            ]
        }
    texts: list[Any] = [{"enum": ["absent", "present"]}] if fact.optional else []
    if fact.ordered:
        texts.append({"type": "string", "pattern": "^[<>=!]"})
    return {"anyOf": [_scalar(fact), *texts, {"type": "array", "minItems": 1}]}
