"""`policy exec` behaves as the command would by itself: exit codes, signals, terminal; and nothing is left behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fake_engine import FakeEngine

HANG = [
    "--no-probe",
    "--set",
    "engine.version=0.22.1",
    "--set",
    "parallel.tensor_parallel_size=2",
    "--set",
    "parallel.pipeline_parallel_size=2",
    "--set",
    "parallel.nodes=1",
    "--device",
    "h200-sxm8",
]
FINE = ["--no-probe", "--set", "engine.version=0.24.0", "--set", "parallel.tensor_parallel_size=2", "--device", "h200-sxm8"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeEngine]:
    made = FakeEngine(tmp_path)
    yield made
    left = made.left()
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == {}, "processes were left behind"


def command(model: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "fusion_policy", "exec", *(options or FINE), "--", "vllm", "serve", model]


def run(engine: FakeEngine, model: str, *options: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(model, *options), input=given, capture_output=True, text=True, env=engine.environment(**environment), timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def start(engine: FakeEngine, model: str, *options: str, **environment: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """The process and the first thing that the engine says, which it says when it takes signals."""
    process = subprocess.Popen(
        command(model, *options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=engine.environment(**environment)
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return process, json.loads(line)


# --- what is run ---


def test_enforce_writes_what_is_decided(engine: FakeEngine) -> None:
    done = run(engine, "done", *HANG, A="kept")
    told = json.loads(done.stdout)
    assert told["words"] == ["serve", "done", "-cc.pass_config.fuse_allreduce_rms=false"]
    assert told["environment"] == {"A": "kept", "FUSION_POLICY_MODE": "enforce"}
    records = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [(one["fusion"], one["reason"], one["changes"][0]["value"]) for one in records] == [("allreduce_rms", "rendezvous-over-world", False)]


def test_advise_runs_what_was_given(engine: FakeEngine) -> None:
    done = run(engine, "done", *HANG, "--mode", "advise")
    told = json.loads(done.stdout)
    assert (told["words"], told["environment"]) == (["serve", "done"], {"FUSION_POLICY_MODE": "advise"})
    assert '"mode": "advise"' in done.stderr


def test_fail_runs_only_what_need_not_change(engine: FakeEngine) -> None:
    done = run(engine, "done", *HANG, "--mode", "fail")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the launch would have to change" in done.stderr
    assert json.loads(run(engine, "done", *FINE, "--mode", "fail").stdout)["environment"] == {"FUSION_POLICY_MODE": "fail"}


def test_variables_of_a_decision_and_of_the_command(engine: FakeEngine) -> None:
    options = [
        "--no-probe",
        "--set",
        "engine.version=0.26.0",
        "--set",
        "packages.flashinfer-python=0.6.14",
        "--set",
        "parallel.tensor_parallel_size=8",
        "--device",
        "h200-sxm8",
    ]
    words = [sys.executable, "-m", "fusion_policy", "exec", *options, "--", "A=1", "vllm", "serve", "done"]
    done = subprocess.run(words, capture_output=True, text=True, env=engine.environment(), timeout=60, check=False)
    assert json.loads(done.stdout)["environment"] == {"A": "1", "FUSION_POLICY_MODE": "enforce", "VLLM_FLASHINFER_ALLREDUCE_BACKEND": "trtllm"}


def test_stopped_before_the_start_by_what_was_asked(engine: FakeEngine) -> None:
    assert run(engine, "done", *HANG, "--fail-on", "hazard").returncode == 1
    assert run(engine, "done", *HANG, "--require", "allreduce_rms").returncode == 1


# --- how it ends ---


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_the_exit_code_is_the_commands(engine: FakeEngine, code: int) -> None:
    assert run(engine, f"exit{code}").returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT])
def test_a_command_that_dies_of_a_signal(engine: FakeEngine, number: int) -> None:
    assert run(engine, f"die{int(number)}").returncode == -number


def test_a_missing_program_and_one_that_cannot_be_run(engine: FakeEngine) -> None:
    program = engine.folder / "bin" / "vllm"
    program.chmod(0o644)
    path = {"PATH": str(engine.folder / "bin")}
    done = run(engine, "done", **path)
    assert done.returncode == 126
    assert "`vllm` cannot be run: permission denied" in done.stderr
    program.unlink()
    done = run(engine, "done", **path)
    assert done.returncode == 127
    assert "`vllm` is not found" in done.stderr


# --- signals ---


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on_once(engine: FakeEngine, number: int) -> None:
    process, _ = start(engine, "polite")
    process.send_signal(number)
    out, told = process.communicate(timeout=30)
    assert (process.returncode, out) == (41, f"signal {int(number)}\n"), told


def test_signals_are_passed_on_until_the_end(engine: FakeEngine) -> None:
    process, _ = start(engine, "stubborn")
    assert process.stdout is not None
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "signal 15\n"
    assert process.wait(30) == 43
    process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_command_that_takes_no_notice_dies_of_it(engine: FakeEngine, number: int) -> None:
    process, _ = start(engine, "plain")
    process.send_signal(number)
    process.communicate(timeout=30)
    # Python turns an interrupt into an exception, and ends by the signal itself
    assert process.returncode == -number


def test_killed_takes_the_command_along(engine: FakeEngine) -> None:
    process, _ = start(engine, "polite")
    process.kill()
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert engine.left() == {}


def test_workers_that_outlive_the_command_are_left_as_they_would_be(engine: FakeEngine) -> None:
    """A command that is killed leaves its own workers to themselves; that is not changed, and the end is still seen."""
    process, told = start(engine, "worker")
    time.sleep(0.3)
    os.kill(told["pid"], signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    left = engine.processes()
    assert [line for line in left.values() if "time.sleep(60)" in line]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    process.communicate()


def test_the_mask_and_what_is_ignored_are_the_callers(engine: FakeEngine) -> None:
    done = subprocess.run(
        ["nohup", *command("done")], capture_output=True, text=True, env=engine.environment(), stdin=subprocess.DEVNULL, timeout=60, check=False
    )
    told = json.loads(done.stdout)
    assert told["hangup_ignored"] is True
    assert told["blocked"] == []


def test_streams_and_descriptors_pass_through(engine: FakeEngine) -> None:
    done = run(engine, "echo", given="a line\n")
    assert done.stdout.splitlines()[-1] == "a line"
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    process = subprocess.Popen(
        command("descriptor"), env=engine.environment(A=str(writer)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=[writer]
    )
    os.close(writer)
    process.communicate(timeout=30)
    assert os.read(reader, 100) == b"through"
    os.close(reader)


# --- a terminal ---


class Terminal:
    """A command that leads the foreground group of a terminal of its own."""

    def __init__(self, words: list[str], environment: dict[str, str]) -> None:
        self.master, other = pty.openpty()

        def lead() -> None:
            # a runner that was itself started to outlive its terminal hands down that it is deaf to it
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            os.setsid()
            fcntl.ioctl(other, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(words, stdin=other, stdout=other, stderr=other, env=environment, preexec_fn=lead, close_fds=True)
        os.close(other)
        self.text = ""

    def read_until(self, word: str, seconds: float = 30.0) -> str:
        end = time.monotonic() + seconds
        os.set_blocking(self.master, False)
        while word not in self.text and time.monotonic() < end:
            try:
                self.text += os.read(self.master, 4096).decode(errors="replace")
            except BlockingIOError:
                time.sleep(0.05)
            except OSError:
                break
        return self.text

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        os.close(self.master)


@pytest.fixture
def terminal(engine: FakeEngine) -> Iterator[Any]:
    opened: list[Terminal] = []

    def open_terminal(model: str, under: Sequence[str] = ()) -> Terminal:
        opened.append(Terminal([*under, *command(model)], engine.environment()))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def test_an_interrupt_from_the_terminal_arrives_once(terminal: Any) -> None:
    here = terminal("stubborn")
    assert '"terminal": true' in here.read_until('"terminal"').split("{", 1)[1]
    here.read_until("}")
    for count in (1, 2):
        here.type(b"\x03")
        here.read_until("signal 2")
        time.sleep(0.5)
        here.read_until("never", 0.2)
        assert here.text.count("signal 2") == count
    here.type(b"\x1c")
    here.read_until("signal 3")
    assert here.process.wait(30) == 43


#: What a shell does: the command leads a group of its own in the foreground, and is continued after it stopped.
SHELL = """
import os, signal, sys, time
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        sys.exit(os.waitstatus_to_exitcode(status))
    print("stopped", flush=True)
    time.sleep(0.3)
    os.kill(-pid, signal.SIGCONT)
    time.sleep(0.3)
    os.kill(pid, signal.SIGTERM)
"""


def test_a_key_suspends_and_continues(engine: FakeEngine, terminal: Any) -> None:
    here = terminal("polite", [sys.executable, "-c", SHELL])
    here.read_until('"blocked"')
    here.type(b"\x1a")
    assert "stopped" in here.read_until("stopped")
    here.read_until("signal 15")
    assert here.process.wait(30) == 41
    assert here.text.count("signal 15") == 1


def test_a_terminal_that_goes_away_ends_the_command(engine: FakeEngine, terminal: Any) -> None:
    here = terminal("plain")
    here.read_until("}")
    master, here.master = here.master, os.open(os.devnull, os.O_RDONLY)
    os.close(master)
    assert here.process.wait(30) == -signal.SIGHUP
    assert engine.left() == {}


# --- the plug-in's report ---

SILENT = "the plug-in did not report"


def test_the_plugin_reports(engine: FakeEngine) -> None:
    done = run(engine, "done", LOAD_PLUGINS="1")
    assert done.returncode == 0
    assert "plug-in" not in done.stderr + done.stdout


def test_an_outcome_of_the_ranks_is_told_once(engine: FakeEngine) -> None:
    done = run(engine, "done-settled", LOAD_PLUGINS="1")
    assert done.stderr.count("policy: the adapter: allreduce_rms is unfused because rank 1\n") == 1


@pytest.mark.parametrize("environment", [{}, {"LOAD_PLUGINS": "1", "VLLM_PLUGINS": "other"}], ids=["not loaded", "hidden"])
def test_a_plugin_that_was_not_loaded_is_told(engine: FakeEngine, environment: dict[str, str]) -> None:
    done = run(engine, "done", **environment)
    assert done.returncode == 0
    assert done.stderr.count(SILENT) == 1
    assert "`policy doctor` says why" in done.stderr


def test_it_is_told_while_the_command_runs(engine: FakeEngine) -> None:
    process, _ = start(engine, "polite", *FINE, "--patience", "0.3")
    assert process.stderr is not None
    assert SILENT in process.stderr.readline()
    process.terminate()
    _, told = process.communicate(timeout=30)
    assert process.returncode == 41
    assert SILENT not in told


def test_a_release_that_was_not_read_is_told(tmp_path: Path) -> None:
    engine = FakeEngine(tmp_path / "new", "99.0")
    done = run(engine, "done", "--no-probe", "--set", "engine.version=99.0", LOAD_PLUGINS="1")
    assert done.returncode == 0
    assert "the plug-in does nothing: vllm 99.0 was not read" in done.stderr


def test_nothing_is_awaited_where_the_engine_loads_no_plugins(engine: FakeEngine) -> None:
    program = engine.folder / "bin" / "python"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    words = [
        sys.executable,
        "-m",
        "fusion_policy",
        "exec",
        "--no-probe",
        "--set",
        "engine.version=0.5.10",
        "--",
        "python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "m",
    ]
    done = subprocess.run(words, capture_output=True, text=True, env=engine.environment(), timeout=60, check=False)
    assert done.returncode == 0
    assert SILENT not in done.stderr
