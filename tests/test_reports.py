"""Public reports against the pack, and plain launches that no exotic fact may leave open."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.evaluate import evaluate
from policy.launch import Launch
from policy.load import read_pack
from policy.pack import Pack
from tests.reports.judge import REASONS
from tests.reports.read import MAPPING, fusion_of, read_report
from tests.reports.readings import READINGS
from tests.score_reports import score
from tests.shared import shared_path

HERE = Path(__file__).parent
SAMPLE = [json.loads(line) for line in (HERE / "reports" / "sample.jsonl").read_text(encoding="utf-8").splitlines()]
FILES = sorted((HERE / "reports").glob("*.jsonl"))
FORMS: dict[str, Any] = yaml.safe_load((HERE / "reports" / "forms.yaml").read_text(encoding="utf-8"))
PLAIN: dict[str, Any] = yaml.safe_load((HERE / "reports" / "plain_launches.yaml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def pack() -> Pack:
    """The pack of this checkout."""
    return read_pack(compiled=False)


@pytest.mark.parametrize("report", SAMPLE, ids=[report["id"] for report in SAMPLE])
def test_sample_is_right(report: dict[str, Any]) -> None:
    """Every rewritten report: none wrong as stated, all right once completed."""
    found = score(pack(), [report])
    assert not [one for one in found["as_stated"] if one.verdict == "wrong"]
    assert [one.verdict for one in found["completed"]] == ["right"] * len(report["resolved_for_facts"])
    assert not found["unmapped"]


def test_scorer_sees_wrong_answers() -> None:
    """Every label of the sample turned round is wrong, so that a right verdict says something."""
    for report in SAMPLE:
        turned = [{**answer, "decision": "off" if answer["decision"] == "on" else "on"} for answer in report["resolved_for_facts"]]
        flat = [{"fusion": answer["fusion"], "decision": answer["decision"], "code": ""} for answer in turned if answer["decision"] == "off"]
        if flat:
            found = score(pack(), [{**report, "resolved_for_facts": flat}])
            assert {one.verdict for one in found["completed"]} == {"wrong"}, report["id"]


def test_reason_must_match() -> None:
    """A right state for another mechanism is wrong."""
    report = {**SAMPLE[0], "resolved_for_facts": [{"fusion": "fuse_allreduce_rms", "decision": "off", "code": "expandable_segments"}]}
    assert {one.verdict for one in score(pack(), [report])["completed"]} == {"wrong"}


def test_public_reports() -> None:
    """The public reports, where they are at hand."""
    path = shared_path("cases/public_reports.jsonl")
    if path is None:
        pytest.skip("the public reports are not at hand: 82 answers not judged")
    check_file(path)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_file_of_reports(path: Path) -> None:
    """Every file of the folder, however many join it."""
    check_file(path)


def check_file(path: Path) -> None:
    """None wrong, what is open names the fact that is missing, and nine in ten right, each label on its own."""
    reports = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    found = score(pack(), reports)
    judged = [one for name in ("as_stated", "completed") for one in found[name]]
    assert not [f"{one.report} {one.fusion}: {one.got} ({one.reason})" for one in judged if one.verdict == "wrong"]
    assert not [one.report for one in judged if one.verdict == "undetermined" and not one.missing]
    for label in ("on", "off", "warn", "error"):
        of_label = [one.verdict for one in found["completed"] if one.label == label]
        assert of_label.count("right") >= 0.9 * len(of_label), label
    assert not found["unmapped"]
    assert not found["unknown_codes"]


def test_answers_that_are_on_are_a_third_of_the_further_reports() -> None:
    """So that "always off" cannot look good."""
    path = HERE / "reports" / "more_reports.jsonl"
    labels = [answer["decision"] for line in path.read_text(encoding="utf-8").splitlines() for answer in json.loads(line)["resolved_for_facts"]]
    assert 3 * labels.count("on") >= len(labels)


@pytest.mark.parametrize("form", FORMS["forms"], ids=[str(form["keys"]) for form in FORMS["forms"]])
def test_form_is_read(form: dict[str, Any]) -> None:
    """One form of one or several keys, and every fact that it states has a value of its domain."""
    found, unmapped = read_report(pack(), form.get("fusions", []), form["keys"])
    assert (found, unmapped) == (form["facts"], [])
    Launch.of(pack(), found)


@pytest.mark.parametrize("form", FORMS["listed"], ids=[str(form["keys"]) for form in FORMS["listed"]])
def test_what_is_not_understood_is_listed(form: dict[str, Any]) -> None:
    """Never left out silently, and never an exception."""
    found, unmapped = read_report(pack(), [], form["keys"])
    assert (found, unmapped) == ({}, form["unmapped"])


def test_an_unknown_code_is_listed() -> None:
    """A code for which no mechanism is known checks no reason, which must be seen."""
    report = {**SAMPLE[0], "resolved_for_facts": [{"fusion": "fuse_allreduce_rms", "decision": "off", "code": "moon_is_full"}]}
    assert dict(score(pack(), [report])["unknown_codes"]) == {"moon_is_full": 1}


def test_mapping_names_what_exists() -> None:
    """Every fact, fusion and reading that the mapping names exists."""
    for key, entry in MAPPING["keys"].items():
        facts = [entry["fact"]] if "fact" in entry else []
        facts += [name for table in entry.get("facts", {}).values() for name in table] + list(entry.get("also", {}))
        assert not [name for name in facts if pack().fact(name) is None], key
        assert entry.get("read", "version") in READINGS, key
        assert facts or "ignored" in entry or "read" in entry, key
    assert not [name for name in MAPPING["fusions"] if fusion_of(name) not in pack().fusions]
    assert not {key for key in MAPPING["aliases"].values() if key not in MAPPING["keys"]}
    assert not set(MAPPING["aliases"]) & set(MAPPING["keys"])
    known = set(pack().rules) | {"gate", "asked", "unwanted"}
    wanted = {one for accepted in REASONS["codes"].values() for one in accepted}
    assert not [one for one in wanted if ":" not in one and not any(fnmatchcase(name, one) for name in known)]
    assert not [one for one in wanted if one.startswith(("needs:", "gate:")) and pack().fact(one.split(":")[1]) is None]
    assert not [one for one in REASONS["disagreements"] if fusion_of(one["fusion"]) not in pack().fusions or not one["argument"]]


@pytest.mark.parametrize("rule", PLAIN["consumers"])
def test_one_verdict_for_every_consumer(rule: str) -> None:
    """A mechanism's rule reaches every fusion that uses the same kernels or the same memory."""
    selector = pack().rules[rule].plans
    assert selector is not None
    reached = {plan.fusion for fusion in pack().fusions.values() for plan in fusion.plans if selector.matches(plan)}
    assert not set(PLAIN["consumers"][rule]) - reached


@pytest.mark.parametrize("name", PLAIN["launches"])
def test_plain_launch_is_decided(name: str) -> None:
    """What everybody runs stays decided, whatever exotic facts rules ask for."""
    row = PLAIN["launches"][name]
    launch = Launch.of(pack(), {**PLAIN["common"], **row["launch"]})
    verdict = evaluate(pack(), launch, row.get("posture", "safe"), list(row["expect"]))
    assert {fusion: verdict[fusion].state for fusion in row["expect"]} == row["expect"], [verdict[fusion].unknown_facts for fusion in row["expect"]]
    assert verdict.launch.state in row.get("states", ["ok"])
    bound = PLAIN["assumptions"]
    for fusion in row["expect"]:
        assert set(verdict[fusion].assuming) <= set(bound), sorted(set(verdict[fusion].assuming) - set(bound))
