"""Log excerpts speak for the hazard that `tests/logs/expected.yaml` names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from policy.cli import main

LOGS = Path(__file__).parent / "logs"
EXPECTED = yaml.safe_load((LOGS / "expected.yaml").read_text())


def diagnosed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["diagnose", *words, "--format", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_the_likeliest_hazard_comes_first(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = diagnosed(capsys, str(LOGS / name), *EXPECTED[name]["options"])
    suspects = found["suspects"]
    assert isinstance(suspects, list)
    assert [one["id"] for one in suspects][:1] == [EXPECTED[name]["first"]]
    assert suspects[0]["seen"], "a symptom was seen"
    assert found["launch"] is True


def test_every_log_is_expected() -> None:
    assert sorted(EXPECTED) == sorted(path.name for path in LOGS.glob("*.log"))


def test_a_log_without_a_hazard_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "quiet.log"
    log.write_text("all is well\n")
    assert main(["diagnose", str(log)]) == 0
    output = capsys.readouterr()
    assert "no hazard that is known fits this log" in output.out
    assert "no launch was found in the log" in output.err


def test_what_is_not_known_is_named_with_the_way_to_learn_it(capsys: pytest.CaptureFixture[str]) -> None:
    found = diagnosed(capsys, str(LOGS / "replicas_of_experts_block.log"), "--device", "h100-sxm8")
    first = found["suspects"][0]  # type: ignore[index]
    assert first["id"] == "rendezvous-over-world"
    assert first["launch_satisfies"] is None
    assert "model.is_moe" in [one["fact"] for one in first["learn"]]
