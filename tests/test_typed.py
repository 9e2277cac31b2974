"""The typed launch, and the public face of the package."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, ValidationError

import fusion_policy
import policy
from policy.load import read_pack
from policy.typed import launch_model
from tests.test_load import BASE

PACK = read_pack(BASE, compiled=False)
Launch: Any = launch_model(PACK)


def test_leaves_by_dotted_name() -> None:
    launch = Launch(
        site={"size": [1, 2], "kind": "absent", "names": ["p"]},
        engine={"name": "alpha", "version": ">=1.0"},
        packages={"lib": "1.1", "torch": "2.9.0"},
        traits={"lib.able": True},
    )
    assert launch.facts() == {
        "site.size": [1, 2],
        "site.kind": "absent",
        "site.names": ["p"],
        "engine.name": "alpha",
        "engine.version": ">=1.0",
        "packages.lib": "1.1",
        "packages.torch": "2.9.0",
        "traits.lib.able": True,
    }
    assert isinstance(launch, BaseModel)
    assert policy.decide(launch, PACK)["f"].state == "undetermined"


def test_nothing_given_is_nothing_known() -> None:
    assert Launch().facts() == {}
    assert policy.decide(Launch(), PACK)["f"].state == "undetermined"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"site": {"szie": 1}}, "no fact is named `szie` here; did you mean `size`?"),
        ({"site": {"size": "many"}}, "`site.size` takes a whole number, not `many`"),
        ({"site": {"size": True}}, "`site.size` takes a whole number, not `true`"),
        ({"site": {"size": 9}}, "`9` is outside the domain of `site.size`; `site.size` is a whole number from 1 to 8 ranks"),
        ({"site": {"size": [1, 9]}}, "`9` is outside the domain of `site.size`"),
        ({"site": {"size": []}}, "an empty list of possible values"),
        ({"site": {"flag": "yes"}}, "`site.flag` takes true or false, not `yes`"),
        ({"site": {"kind": "plane"}}, "did you mean `plain`?"),
        ({"site": {"kind": 3}}, "`site.kind` takes text, not `3`"),
        ({"site": {"names": ["r"]}}, "`r` cannot be in `site.names`"),
        ({"site": {"size": {"of": 1}}}, "`site.size` takes a whole number"),
        ({"engine": {"version": 0.1}}, "takes a version in quotes, not the number `0.1`"),
        ({"engine": {"version": ">1.0"}}, "post-releases are above this"),
        ({"sight": {}}, "sight"),
        ({"request": {"f": True}}, "takes `on` or `off` in quotes, not the boolean `true`"),
    ],
)
def test_wrong_values_are_validation_errors(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Launch(**given)
    assert told in str(caught.value)


def test_every_wrong_leaf_is_told() -> None:
    with pytest.raises(ValidationError) as caught:
        Launch(site={"size": 0, "flag": "maybe"}, engine={"name": "gamma"})
    assert caught.value.error_count() == 3


def test_the_model_has_a_schema_of_its_own() -> None:
    schema = Launch.model_json_schema()
    assert set(schema["properties"]) >= {"site", "engine", "packages", "request", "runtime"}
    validator = jsonschema.Draft202012Validator(schema)
    assert not list(validator.iter_errors({"site": {"size": 2}, "engine": {"version": ">=1.0"}}))
    assert list(validator.iter_errors({"site": {"szie": 2}}))


@pytest.mark.parametrize("name", sorted(name for name in PACK.facts if name.partition(".")[0] not in ("packages",)))
def test_every_declared_fact_is_a_field(name: str) -> None:
    group, _, leaf = name.partition(".")
    fields = Launch.model_fields[group].annotation.model_fields
    assert leaf in {field.alias or python_name for python_name, field in fields.items()}


# --- the public face ---


def test_the_face_is_small_and_the_front_is_the_same() -> None:
    assert len(policy.__all__) <= 8
    assert set(policy.__all__) == set(fusion_policy._NAMES)
    for name in policy.__all__:
        assert getattr(fusion_policy, name) is getattr(policy, name), name
    with pytest.raises(AttributeError, match="has no attribute 'decode'"):
        policy.decode  # noqa: B018


def test_decide_takes_mappings_and_tells_every_problem() -> None:
    stated = {"engine": {"name": "alpha", "version": "2.0"}, "site.size": 4, "site.kind": "plain", "site.level": 2, "packages.lib": "1.1"}
    verdict = policy.decide(stated, PACK)
    assert verdict["f"].state == "on"
    assert verdict["f"].limits["max_bytes"].value == 1024
    with pytest.raises(KeyError):
        verdict["h"]
    assert [decision.fusion for decision in policy.decide(stated, PACK, fusions=["g"]).decisions] == ["g"]
    with pytest.raises(policy.PolicyError) as caught:
        policy.decide({"site.szie": 1, "site.size": 99}, PACK)
    assert len(caught.value.problems) == 2


def test_digests_tell_decisions_apart() -> None:
    stated = {"engine.name": "alpha", "engine.version": "2.0", "site.size": 4, "site.kind": "plain", "site.level": 2, "packages.lib": "1.1"}
    one = policy.decide(stated, PACK)["f"]
    assert one.digest == policy.decide(dict(reversed(stated.items())), PACK)["f"].digest
    assert one.digest != policy.decide({**stated, "site.size": 5}, PACK)["f"].digest
    assert one.digest != policy.decide(stated, PACK, posture="fast")["f"].digest
    # what the decision does not rest on is not in it
    assert one.digest == policy.decide({**stated, "site.names": ["p"]}, PACK)["f"].digest
