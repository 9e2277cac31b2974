"""The completion scripts work in the shells that are there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

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
    assert complete("policy", "resolve", "--format", "k") == ["kustomize"]
    assert complete("policy", "audit", "--format", "s") == ["sarif"]
    assert complete("policy", "rule", "rendezvous-over") == ["rendezvous-over-world"]
    assert complete("policy", "completion", "z") == ["zsh"]
    assert complete("policy", "diff", "--fusion", "norm_q") == ["norm_quant"]
    assert complete("policy", "explain", "--facts", "tests/") == []  # the shell's own, files


def test_fish_completes_the_same_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shell = shutil.which("fish")
    if shell is None:
        pytest.skip("no fish here; the script is looked at below")
    assert main(["completion", "fish"]) == 0
    script = tmp_path / "policy.fish"
    script.write_text(capsys.readouterr().out)
    (tmp_path / "deploy.yaml").touch()

    def complete(line: str) -> list[str]:
        test = f"source policy.fish; complete -C {shlex.quote(line)}"
        environment = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
        done = subprocess.run([shell, "-c", test], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
        return [one.partition("\t")[0] for one in done.stdout.splitlines()]

    assert complete("policy exp") == ["explain"]
    assert complete("policy audit dep") == ["deploy.yaml"]
    assert complete("policy explain --facts dep") == ["deploy.yaml"]
    assert complete("policy resolve --format k") == ["kustomize"]
    assert complete("policy explain --set engine.ver") == ["engine.version="]
    assert complete("policy explain --device gb200") == ["gb200-nvl72"]
    assert complete("policy explain -- vllm --mo") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert "explain" in out
    assert "kustomize" in out


def test_zsh_completes_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shell = shutil.which("zsh")
    if shell is None:
        pytest.skip("no zsh here; its script is that of bash")
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "policy.zsh").write_text(capsys.readouterr().out)
    test = (
        "autoload -Uz compinit; compinit -u -D; source policy.zsh\n"
        # as zsh runs functions that were written for bash
        'complete_it() { emulate -L sh; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _policy; echo "${COMPREPLY[@]}"; }\n'
        "complete_it policy ex; complete_it policy resolve --format k; complete_it policy explain -- vllm se"
    )
    done = subprocess.run([shell, "-f", "-c", test], capture_output=True, text=True, cwd=tmp_path, check=False)
    commands, formats, launch = (line.split() for line in done.stdout.splitlines())  # zsh itself leaves out what does not begin so
    assert ("explain" in commands, "kustomize" in formats, launch, done.stderr) == (True, True, [], "")
