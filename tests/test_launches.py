"""The stories of `tests/launches`: what the shipped pack says about whole launches."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from policy.analyse.flips import flips
from policy.cli import main
from policy.commands.common import kinds_of
from policy.evaluate import evaluate
from policy.explain import headline
from policy.launch import Launch
from policy.launchers.inputs import state_facts_file
from policy.load import read_pack
from policy.pack import Pack
from policy.source import read_yaml
from tests.test_decisions import findings_of, view

FOLDER = Path(__file__).parent / "launches"
RULES = Path(__file__).parents[1] / "rules"


@lru_cache
def story(name: str) -> Any:
    document, problems = read_yaml((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")
    assert not problems, problems
    return document.value


@lru_cache
def shipped() -> Pack:
    return read_pack(RULES, compiled=False)


VIEWS = [(path.stem, number) for path in sorted(FOLDER.glob("*.yaml")) for number in range(len(story(path.stem)["views"]))]


@pytest.mark.parametrize(("name", "number"), VIEWS, ids=[f"{name}-{number}" for name, number in VIEWS])
def test_launch(name: str, number: int) -> None:
    told = story(name)["views"][number]
    posture = told.get("posture", "safe")
    launch = Launch.of(shipped(), {**story(name)["launch"], **told.get("also", {})})
    verdict = evaluate(shipped(), launch, posture)
    for fusion, expected in told["expect"].items():
        decision = verdict[fusion]
        found = view(decision)
        for key, value in expected.items():
            if key == "findings":
                assert all(one in findings_of(decision) for one in value), findings_of(decision)
            elif key == "because_of":
                own = next(state for state in decision.able if state.plan.id == decision.left_alone.engine_plan)
                assert set(value) <= {one.id for one in own.because}
            elif key == "unknown_includes":
                assert set(value) <= set(decision.unknown_facts)
            elif key in ("flips", "no_flips"):
                changes = [dict(flip.changes) for flip in flips(shipped(), launch, fusion, posture)]
                assert all(any(covers(change, one) for change in changes) is (key == "flips") for one in value), changes
            elif key == "headline":
                assert value in headline(decision)
            elif key == "kinds":
                assert set(value) <= kinds_of(verdict)
            elif key in ("scope", "backend"):
                assert decision.chosen is not None
                assert getattr(decision.chosen, key) == value
            else:
                assert found[key] == value, key


def covers(change: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether a smallest change is of these facts, and the wanted values are among those that it names."""
    if set(change) != set(wanted):
        return False
    for name, value in wanted.items():
        fact = shipped().fact(name)
        assert fact is not None
        named = fact.values([part.strip() for part in change[name].strip("[]").split(", ")])
        if fact.value(value) not in named:
            return False
    return True


def test_every_story_is_strict_about_something() -> None:
    assert len(VIEWS) >= 15
    assert all(told["expect"] and all(told["expect"].values()) for name, number in VIEWS for told in [story(name)["views"][number]])


@pytest.mark.parametrize("name", sorted({name for name, _ in VIEWS}))
def test_the_facts_of_a_launch_replay_to_the_same_decisions(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "told.json"
    told.write_text(json.dumps(story(name)["launch"]))
    assert main(["facts", "--facts", str(told), "--format", "json"]) == 0
    replayed = tmp_path / "replayed.json"
    replayed.write_text(capsys.readouterr().out)
    answers = []
    for file in (told, replayed):
        launch = Launch()
        assert state_facts_file(shipped(), launch, str(file)) == []
        answers.append([placeless(decision.as_json()) for decision in evaluate(shipped(), launch, "fast").decisions])
    assert answers[0] == answers[1]
    assert answers[0]


def placeless(answer: Any) -> Any:
    """An answer without the places that its facts came from."""
    if isinstance(answer, dict):
        return {key: placeless(value) for key, value in answer.items() if key not in ("origin", "digest")}
    return [placeless(one) for one in answer] if isinstance(answer, list) else answer
