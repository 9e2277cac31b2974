"""The JSON Schemas: those in the repository are the generated ones, every shipped file is valid, broken ones are not."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from policy.load import kind_of, pack_files, read_pack
from policy.schema import schemas, text, write
from policy.source import read_json, read_yaml
from tests import modelines
from tests.test_load import BASE, BROKEN, RULES

FOLDER = RULES.parent / "schemas"


@lru_cache
def validators(folder: Path) -> dict[str, jsonschema.Draft7Validator]:
    """Kind -> validator, of the schemas that a pack makes."""
    made = schemas(read_pack(folder, compiled=False))
    for schema in made.values():
        jsonschema.Draft7Validator.check_schema(schema)
    return {name.removesuffix(".schema.json"): jsonschema.Draft7Validator(schema) for name, schema in made.items()}


def plain(value: Any) -> Any:
    """The data as another reader of YAML has it: a number is a number."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return float(value) if isinstance(value, float) else value


def data(path: Path) -> Any:
    read = read_json if path.suffix == ".json" else read_yaml
    return plain(read(path.read_text(encoding="utf-8"), path.name)[0].value)


def first_error(validator: jsonschema.Draft7Validator, value: Any) -> str | None:
    error = next(validator.iter_errors(value), None)
    return None if error is None else f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"


def test_the_schemas_in_the_repository_are_the_generated_ones() -> None:
    made = schemas(read_pack(RULES, compiled=False))
    assert {path.name for path in FOLDER.glob("*.json")} == set(made), "run `policy schema`"
    stale = [name for name, schema in made.items() if (FOLDER / name).read_text(encoding="utf-8") != text(schema)]
    assert not stale, f"run `policy schema`: {stale}"


def test_every_schema_is_one_file_of_draft_07() -> None:
    for path in FOLDER.glob("*.json"):
        schema = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.Draft7Validator.check_schema(schema)
        named = {value.removeprefix("#/definitions/") for value in _references(schema)}
        assert named <= set(schema.get("definitions", {})), path.name


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [one for inner in value.values() for one in _references(inner)]
    return [one for inner in value for one in _references(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("kind", sorted({kind for path in pack_files(RULES) if (kind := kind_of(path.relative_to(RULES)))}))
def test_every_shipped_file_is_valid(kind: str) -> None:
    validator = validators(RULES)[kind]
    wrong = {
        str(path.relative_to(RULES)): error
        for path in pack_files(RULES)
        if kind_of(path.relative_to(RULES)) == kind
        for error in [first_error(validator, data(path))]
        if error
    }
    assert not wrong


def test_the_small_pack_is_valid_by_its_own_schemas() -> None:
    for path in pack_files(BASE):
        kind = kind_of(path.relative_to(BASE))
        assert kind
        assert first_error(validators(BASE)[kind], data(path)) is None, path


@pytest.mark.parametrize(
    "name", ["unknown_field", "unknown_fact", "wrong_types", "unquoted_versions", "outside_the_domain", "keys_that_are_no_text", "names_of_conditions"]
)
def test_an_editor_sees_what_is_broken(name: str) -> None:
    """Mistakes of shape, of fact names and of domains are mistakes by the schema too."""
    found = [
        error
        for path in pack_files(BROKEN / "packs" / name)
        if (kind := kind_of(path.relative_to(BROKEN / "packs" / name)))
        for error in [first_error(validators(BASE)[kind], data(path))]
        if error
    ]
    assert found


@pytest.mark.parametrize("name", ["bad_values.yaml", "unknown_facts.yaml", "bad_values_again.json", "on_as_boolean.json"])
def test_facts_files_have_a_schema(name: str) -> None:
    validator = validators(BASE)["facts_file"]
    assert first_error(validator, data(BROKEN / "facts" / name)) is not None
    good = {
        "site.size": [1, 2],
        "site.names": {"any_of": [["p"], []]},
        "site.kind": "absent",
        "engine.version": ">=1.0",
        "packages.lib": "1.0",
        "packages.other": "absent",
        "site.flag": "unknown",
    }
    assert first_error(validator, good) is None


def test_writing_is_repeatable(tmp_path: Path) -> None:
    pack = read_pack(BASE, compiled=False)
    first = {path.name: path.read_text() for path in write(pack, tmp_path / "one")}
    second = {path.name: path.read_text() for path in write(read_pack(BASE, compiled=False), tmp_path / "two")}
    assert first == second


def test_modelines_point_to_the_right_schema() -> None:
    """Editors find the schema of a file by its first line."""
    lacking = [str(path) for path in modelines.missing()]
    assert not lacking, f"run `python -m tests.modelines --write`: {lacking[:5]}"
