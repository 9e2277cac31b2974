"""The fault matrix is run once a session, through one fork server; every case is then a test of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime import matrix
from tests.runtime.library import write_library

ROOT = Path(__file__).resolve().parents[2]
RELEASES = ("0.6.12", "0.6.13", "0.7.4")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", choices=("pairwise", "full"), default="pairwise", help="how much of the runtime's fault matrix to run")
    parser.addoption("--faults-report", default=None, metavar="FILE", help="write the table of the fault matrix there (Markdown)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "fault_case" in metafunc.fixturenames:
        cases = selected(metafunc.config)
        metafunc.parametrize("fault_case", cases, ids=[case["id"] for case in cases])


def selected(config: pytest.Config) -> list[dict[str, Any]]:
    return matrix.everything() if config.getoption("--faults", default="pairwise") == "full" else matrix.pairwise()


def run_cases(cases: list[dict[str, Any]], folder: Path, parallel: int = 3) -> dict[str, dict[str, Any]]:
    """Every report by its case's id. `folder` must exist; what a case writes stays below it."""
    for release in RELEASES:
        write_library(folder / "libraries" / release, release)
    lines = "".join(json.dumps({**case, "libraries": str(folder / "libraries")}) + "\n" for case in cases)
    command = [sys.executable, "-m", "tests.runtime.forkserver", str(folder), str(parallel)]
    # torch looks up the name of every address that connects to a store; a name server that drops the question stalls it for 5 s by default
    environment = {**os.environ, "RES_OPTIONS": "timeout:1 attempts:1"}
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60 + 15 * len(cases), check=False)
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(reports) == len(cases), done.stderr[-3000:]
    return {report["id"]: report for report in reports}


@pytest.fixture(scope="session")
def fault_reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    pytest.importorskip("torch", reason="torch is not installed: the runtime's fault tests need it")
    chosen = {
        item.callspec.params["fault_case"]["id"] for item in request.session.items if "fault_case" in getattr(getattr(item, "callspec", None), "params", {})
    }
    cases = [case for case in selected(request.config) if case["id"] in chosen]
    reports = run_cases(cases, tmp_path_factory.mktemp("faults"))
    yield reports
    target = request.config.getoption("--faults-report", default=None)
    if target:
        from tests.runtime.report import table

        Path(target).write_text(table(cases, reports, request.config.getoption("--faults")), encoding="utf-8")
