"""The completion scripts work in the shells that are there."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from policy.cli import main


def test_bash_completes_commands_fusions_and_facts(capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out

    def complete(*words: str) -> list[str]:
        listed = " ".join(f'"{word}"' for word in words)
        test = f"{script}\nCOMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _policy; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run([bash, "-c", test], capture_output=True, text=True, check=True).stdout.split()

    assert complete("policy", "ex") == ["explain", "exec"]
    assert "allreduce_rms" in complete("policy", "explain", "allreduce_")
    assert complete("policy", "explain", "--set", "engine.ver") == ["engine.version="]
    assert complete("policy", "explain", "--device", "gb200") == ["gb200-nvl72"]
    assert "--posture" in complete("policy", "explain", "--pos")
    assert complete("policy", "explain", "--", "vllm", "ser") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "explain" in capsys.readouterr().out
