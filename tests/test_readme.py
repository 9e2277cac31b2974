"""The README shows real output: each `<!-- example: COMMAND -->` is run and compared with the block that follows it."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from policy.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
EXAMPLE = re.compile(r"<!-- example: policy (?P<words>.*?) -->\n```text\n(?P<shown>.*?)```", re.DOTALL)


def output(words: str) -> str:
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        main(shlex.split(words))
    return stream.getvalue()


def test_examples_are_real(monkeypatch: pytest.MonkeyPatch, rewrite: bool) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("NO_COLOR", "1")
    text = README.read_text(encoding="utf-8")
    assert EXAMPLE.search(text)
    made = EXAMPLE.sub(lambda found: f"<!-- example: policy {found['words']} -->\n```text\n{output(found['words'])}```", text)
    if rewrite:
        README.write_text(made, encoding="utf-8")
    assert made == README.read_text(encoding="utf-8"), "run `python -m pytest tests/test_readme.py --rewrite`"


def test_python_block_does_what_it_says() -> None:
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream):
        exec(compile(block[1], "README.md", "exec"), {})
    shown = re.search(r"print\(.*\)\s+# (.*)", block[1])
    assert shown is not None
    assert stream.getvalue().strip() == shown[1].strip()


def test_every_command_is_in_the_readme_and_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    text = README.read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"`policy {command}" in text, command
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"example: policy {command}" in capsys.readouterr().out
