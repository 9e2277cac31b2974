"""The examples do what they say: code runs, commands in them run, files are read."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy.launchers.containers import find_launches
from policy.private_packs import installed_packs, read_packs
from tests.test_audit import DEPLOYMENT, check_sarif

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"


@pytest.fixture
def shell(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs lines of an example in a project with one dangerous and one harmless manifest; `policy` is this checkout's."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "policy").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fusion_policy "$@"\n')
    (programs / "policy").chmod(0o755)
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "old.yaml").write_text(DEPLOYMENT)
    (tmp_path / "deploy" / "new.yaml").write_text(DEPLOYMENT.replace("v0.22.1", "v0.24.0"))
    (tmp_path / "deploy" / "notes.yaml").write_text("a: 1\n")
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(tmp_path_factory.getbasetemp() / "examples-cache"),
        "HOME": str(tmp_path),
    }

    def run(line: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(["sh", "-ec", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return run


def test_the_launcher() -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(EXAMPLES / "launcher.py"), *words],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
            check=True,
        )

    hang = run("0.22.1", "2", "2")
    assert hang.stdout == "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 -pp 2 -cc.pass_config.fuse_allreduce_rms=false\n"
    assert "allreduce_rms is off: the workspace would rendezvous over WORLD" in hang.stderr
    assert run("0.24.0", "2", "2").stdout == "vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 -pp 2\n"
    lines = (EXAMPLES / "launcher.py").read_text().splitlines()
    body = lines[next(number for number, line in enumerate(lines) if line.startswith("def command")) + 2 :]
    assert len([line for line in body[: body.index("")] if line.strip()]) <= 10, "the ten lines are ten"


def test_ray_serve(shell: Any) -> None:
    done = shell(f"{shlex.quote(sys.executable)} {EXAMPLES / 'ray_serve' / 'application.py'} 0.22.1")
    made = json.loads(done.stdout)
    assert made["engine_kwargs"]["compilation_config"] == {"pass_config": {"fuse_allreduce_rms": False}}
    assert (
        "compilation_config"
        not in json.loads(shell(f"{shlex.quote(sys.executable)} {EXAMPLES / 'ray_serve' / 'application.py'} 0.24.0").stdout)["engine_kwargs"]
    )
    (launch,) = find_launches((EXAMPLES / "ray_serve" / "serve.yaml").read_text(), "serve.yaml").launches
    assert launch.stated["engine.executor"].value == "ray"
    assert {name: word.text for name, word in launch.environment.items()} == made["runtime_env"]["env_vars"]
    # what `policy resolve` writes for the plug-in is there already
    words = f"policy resolve {EXAMPLES / 'ray_serve' / 'serve.yaml'} --mode enforce --device h200-sxm8 --set parallel.nodes=1 --set engine.version="
    assert (shell(words + "0.24.0").returncode, shell(words + "0.24.0").stdout) == (0, "")
    assert "+          pass_config:" in shell(words + "0.22.1").stdout


def test_the_init_container(shell: Any, tmp_path: Path) -> None:
    text = (EXAMPLES / "kubernetes" / "server.yaml").read_text()
    (launch,) = find_launches(text, "server.yaml").launches
    assert launch.environment["FUSION_POLICY_MODE"].text == "enforce"
    pod = yaml.safe_load(text)["spec"]["template"]["spec"]
    (first,) = pod["initContainers"]
    (script,) = first["args"]
    started = [word.text for word in launch.words]
    assert shlex.split(script.split(" -- ")[1].replace("\\\n", " ")) == started, "both start the same server"
    assert launch.environment["FUSION_POLICY_FACTS"].text == "/facts/node.json"
    script = script.replace("/facts/", f"{tmp_path}/")
    assert shell(script).returncode == 0
    assert json.loads((tmp_path / "node.json").read_text())["facts"]
    dangerous = script.replace("--fail-on", "--set engine.version=0.22.1 --set packages.flashinfer-python=0.6.11.post2 --device h200-sxm8 --fail-on")
    stopped = shell(dangerous)
    assert stopped.returncode == 1
    assert "hazard: allreduce_rms" in stopped.stdout


def lines_of(value: Any) -> list[str]:
    """Every `policy` command line in a workflow."""
    if isinstance(value, dict):
        return [line for inner in value.values() for line in lines_of(inner)]
    if isinstance(value, list):
        return [line for inner in value for line in lines_of(inner)]
    return [value] if isinstance(value, str) and value.startswith("policy ") else []


def test_github(shell: Any, tmp_path: Path) -> None:
    scanning, annotations = lines_of(yaml.safe_load((EXAMPLES / "ci" / "github.yaml").read_text()))
    assert shell(scanning).returncode == 0
    run = check_sarif((tmp_path / "fusion-policy.sarif").read_text())
    assert "deploy/old.yaml" in {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]}
    done = shell(annotations)
    assert done.returncode == 1
    assert [line.split(",line=")[0] for line in done.stdout.splitlines() if line.startswith("::error ")] == ["::error file=deploy/old.yaml"]


def test_gitlab(shell: Any, tmp_path: Path) -> None:
    (line,) = lines_of(yaml.safe_load((EXAMPLES / "ci" / "gitlab.yaml").read_text()))
    assert shell(line).returncode == 1
    suite = ElementTree.fromstring((tmp_path / "fusion-policy.xml").read_text())
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")


def test_the_hook(shell: Any) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["id"] == "fusion-policy-audit"
    line = shlex.join([*shlex.split(hook["entry"]), *hook["args"]])
    assert shell(f"{line} deploy/notes.yaml").returncode == 0
    assert shell(f"{line} deploy/notes.yaml deploy/new.yaml").returncode == 0
    (used,) = yaml.safe_load((EXAMPLES / "pre-commit.yaml").read_text())["repos"]
    (configured,) = used["hooks"]
    assert configured["id"] == hook["id"]
    line = shlex.join([*shlex.split(hook["entry"]), *configured["args"]])
    changed = shell(f"{line} deploy/notes.yaml deploy/old.yaml deploy/new.yaml")
    assert changed.returncode == 1
    assert "deploy/old.yaml:11: hazard: allreduce_rms" in changed.stdout


def test_the_package_of_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is installed: the package, and metadata with the entry point that its project file declares."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((EXAMPLES / "acme_policies" / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLES / "acme_policies" / "acme_policies", tmp_path / "acme_policies")
    metadata = tmp_path / f"acme_policies-{project['version']}.dist-info"
    metadata.mkdir()
    lines = [line for group, points in project["entry-points"].items() for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_packs() == [str(tmp_path / "acme_policies" / "rules")]
    assert "no-experiments-on-b300" in read_packs().rules


def test_every_example_is_named_and_tested() -> None:
    told = (EXAMPLES / "README.md").read_text() + Path(__file__).read_text()
    for file in EXAMPLES.rglob("*"):
        if file.is_file() and "acme_policies" not in file.parts and "__pycache__" not in file.parts:
            assert file.name in told, file
