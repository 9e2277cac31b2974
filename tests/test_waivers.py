"""Waivers silence an audit's exit code until a date; they never touch a decision."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policy.problems import LaunchError
from policy.waivers import find_waivers, read_waivers

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "#!/bin/sh\nvllm serve acme/dense -tp 2 -pp 2\n"
HANG = ["--no-probe", "--device", "h200-sxm8", "--set", "engine.version=0.22.1", "--set", "parallel.nodes=1"]
LATER, EARLIER = "2999-01-31", "2001-01-31"

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="waivers are read with Python 3.11 or later")


def waiver(id: str = "rendezvous-over-world", until: str = LATER, table: str = "[[tool.fusion-policy.ignore]]") -> str:
    return f'{table}\nid = "{id}"\nreason = "replaced soon"\nuntil = {until}\n'


@pytest.fixture
def audit(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Any:
    cache = tmp_path_factory.getbasetemp() / "waivers-cache"

    def run(*words: str, command: str = "audit", folder: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
        full = [sys.executable, "-m", "fusion_policy", command, *words]
        done = subprocess.run(full, capture_output=True, text=True, cwd=folder, env=environment, timeout=60, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "run.sh").write_text(SCRIPT)
    return tmp_path


def test_a_waiver_silences_the_exit_code_and_nothing_else(audit: Any, project: Path) -> None:
    before = audit("deploy", *HANG)
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n\n" + waiver())
    after = audit("deploy", *HANG)
    assert (before.returncode, after.returncode) == (1, 0)
    assert "hazard (waived): allreduce_rms is on" in after.stdout
    assert after.stdout.replace(" (waived)", "").splitlines()[0] == before.stdout.splitlines()[0]
    assert "1 waived" in after.stdout
    assert audit("allreduce_rms", "deploy/run.sh", *HANG, "--require", "allreduce_rms", command="explain").returncode == 1
    assert "-cc.pass_config.fuse_allreduce_rms=false" in audit("allreduce_rms", "deploy/run.sh", *HANG, command="resolve").stdout
    assert audit("deploy", *HANG, "--format", "github").stdout.count("::error") == 0
    (result,) = [
        one for one in json.loads(audit("deploy", *HANG, "--format", "sarif").stdout)["runs"][0]["results"] if one["ruleId"] == "rendezvous-over-world"
    ]
    assert result["suppressions"] == [{"kind": "external"}]


def test_another_id_silences_nothing(audit: Any, project: Path) -> None:
    (project / "policy.toml").write_text(waiver("device-by-rank", table="[[ignore]]"))
    done = audit("deploy", *HANG)
    assert done.returncode == 1
    assert "unknown-waiver" not in done.stdout


def test_an_expired_waiver_is_a_finding(audit: Any, project: Path) -> None:
    (project / "policy.toml").write_text("\n\n" + waiver(until=EARLIER, table="[[ignore]]"))
    done = audit("deploy", *HANG)
    assert done.returncode == 1
    assert f"{project}/policy.toml:3: warning: the waiver of rendezvous-over-world ran out on {EARLIER}: replaced soon" in done.stdout
    assert audit("deploy", *HANG, "--set", "engine.version=0.24.0", "--fail-on", "warning").returncode == 1


def test_a_waiver_that_names_nothing_is_a_finding(audit: Any, project: Path) -> None:
    (project / "policy.toml").write_text(waiver("rendezvous-over-wrld", table="[[ignore]]"))
    done = audit("deploy", *HANG)
    assert "the waiver names `rendezvous-over-wrld`, which was not found and is no rule; did you mean `rendezvous-over-world`?" in done.stdout


def test_the_nearest_file_upwards_counts_for_each_file(audit: Any, project: Path) -> None:
    (project / "other").mkdir()
    (project / "other" / "run.sh").write_text(SCRIPT)
    (project / "pyproject.toml").write_text(waiver("device-by-rank"))
    (project / "deploy" / "policy.toml").write_text(waiver(table="[[ignore]]"))
    done = audit("deploy", "other", *HANG)
    assert done.returncode == 1
    assert "deploy/run.sh:2: hazard (waived): allreduce_rms" in done.stdout
    assert "other/run.sh:2: hazard: allreduce_rms" in done.stdout


def test_finding_the_nearest(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(waiver("one"))
    (inner / "pyproject.toml").write_text("[tool.other]\nx = 1\n")
    assert [one.id for one in find_waivers(inner)] == ["one"]
    (tmp_path / "a" / "policy.toml").write_text(waiver("two", table="[[ignore]]") + waiver("three", table="[[ignore]]"))
    (found, third) = find_waivers(inner)
    assert (found.id, found.reason, found.until, found.line, third.line) == ("two", "replaced soon", datetime.date(2999, 1, 31), 1, 5)
    assert not found.expired(datetime.date(2999, 1, 31))
    assert found.expired(datetime.date(2999, 2, 1))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[ignore]]\nid = 'x'\nuntil = 2999-01-31\n", "policy.toml:1:1: waiver 1: has no `reason`"),
        ("[[ignore]]\nreason = 'x'\nuntil = 2999-01-31\n", "waiver 1: has no `id`"),
        ("[[ignore]]\nid = 'x'\nreason = ' '\nuntil = 2999-01-31\n", "waiver 1: has no `reason`"),
        ("[[ignore]]\nid = 'x'\nreason = 'y'\n", "waiver 1: has no `until` that is a date"),
        ("[[ignore]]\nid = 'x'\nreason = 'y'\nuntil = 'soon'\n", "waiver 1: has no `until` that is a date"),
        (
            waiver(table="[[ignore]]") + "\n[[ignore]]\nid = 'x'\nreason = 'y'\nuntil = 2999-01-31\nuntill = 1\n",
            "policy.toml:6:1: waiver 2: `untill` is no field of a waiver",
        ),
        ("ignore = ['x']\n", "waiver 1: is no table"),
        ("[[ignore]\n", "this is no TOML"),
    ],
)
def test_defects_are_told(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(LaunchError) as error:
        read_waivers(tmp_path / "policy.toml")
    assert told in str(error.value)


def test_a_project_file_of_others_is_no_defect(tmp_path: Path) -> None:
    for text in ("tool = 3\n", "[tool]\nfusion-policy = 3\n", "[tool.fusion-policy]\nx = 1\n"):
        (tmp_path / "pyproject.toml").write_text(text)
        assert read_waivers(tmp_path / "pyproject.toml") is None


def test_the_readme_shows_one(tmp_path: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    (tmp_path / "policy.toml").write_text(readme.split("```toml\n")[1].split("```")[0])
    (found,) = read_waivers(tmp_path / "policy.toml") or []
    assert (found.id, found.until) == ("rendezvous-over-world", datetime.date(2027, 1, 31))


def test_defects_end_the_command(audit: Any, project: Path) -> None:
    (project / "policy.toml").write_text("[[ignore]]\nid = 'x'\n")
    done = audit("deploy", *HANG)
    assert (done.returncode, done.stdout) == (2, "")
    assert "waiver 1: has no `reason`" in done.stderr


def test_a_date_as_text_is_a_date(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[[ignore]]\nid = 'x'\nreason = 'y'\nuntil = '2999-01-31'\n")
    (found,) = read_waivers(tmp_path / "policy.toml") or []
    assert found.until == datetime.date(2999, 1, 31)
