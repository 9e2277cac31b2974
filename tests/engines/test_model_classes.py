"""The table of model classes against the classes themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.engines.prepare import ENVIRONMENT, ROOT


def test_the_table_of_classes_is_what_transformers_says(tmp_path: Path) -> None:
    if not (ENVIRONMENT / "ready").is_file():
        pytest.skip("not prepared: run `python tests/engines/prepare.py`")
    made = tmp_path / "model_classes.py"
    command = [ENVIRONMENT / "bin" / "python", ROOT / "tests" / "make_model_classes.py", made]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert made.read_text() == (ROOT / "policy" / "launchers" / "model_classes.py").read_text()
