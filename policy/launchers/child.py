"""Run a command as if it had been started itself: terminal, signals and exit code pass through, and the plug-in's report
is awaited.

The child shares the process group and the terminal, so that the terminal's own signals reach it without help; signals
that another process sends to this one are passed on. If the child dies of a signal, this process dies of the same one;
if this process is killed, the child is too. Orphans that this process inherits as the first of a container are reaped.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from policy.launchers.variables import REPORT_VARIABLE

#: Signals that are passed on to the child.
PASSED = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT") if hasattr(signal, name))
#: What a plug-in reports where it does nothing.
DOES_NOTHING = {"unsupported": "{engine} {version} was not read", "no pack": "the pack cannot be used"}
NOT_FOUND, NOT_RUNNABLE = 127, 126
#: `si_code` of a signal that the kernel sent, as it does for a key of the terminal.
_FROM_KERNEL = 0x80


def run_command(words: Sequence[str], environment: Mapping[str, str], expects_report: bool, warn: Callable[[str], None], patience: float = 300.0) -> int:
    """Run the command to its end. Returns its exit code; does not return where the child died of a signal.

    `expects_report`: the engine should load the plug-in, which then writes to the file that `FUSION_POLICY_REPORT` names;
    `warn` is called once where it said nothing within `patience` seconds, or said that it does nothing, and with every
    outcome that the ranks report there."""
    with contextlib.ExitStack() as stack:
        variables = {**os.environ, **environment}
        ended = threading.Event()
        report = None
        if expects_report:
            report = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fusion-policy-"))) / "report"
            variables[REPORT_VARIABLE] = str(report)
        outer = signal.pthread_sigmask(signal.SIG_BLOCK, {*PASSED, signal.SIGCHLD})
        stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, outer)
        parent = os.getpid()
        try:
            child = subprocess.Popen(list(words), env=variables, close_fds=False, preexec_fn=lambda: _become_child(parent, outer))
        except FileNotFoundError as error:
            warn(f"`{error.filename or words[0]}` is not found")
            return NOT_FOUND
        except OSError as error:
            warn(f"`{words[0]}` cannot be run: {(error.strerror or str(error)).lower()}")
            return NOT_RUNNABLE
        watcher = threading.Thread(target=_await_report, args=(report, ended, patience, warn), daemon=True) if report is not None else None
        if watcher is not None:
            watcher.start()
        code = _wait(child.pid)
        child.returncode = code  # it was reaped here, which `subprocess` cannot know
        if watcher is not None and report is not None:
            ended.set()
            watcher.join(2)
            if code == 0:
                _complain(report, warn)
    if code < 0:
        _die_of(-code)
    return code


def _become_child(parent: int, mask: set[int | signal.Signals]) -> None:
    """In the child: be killed when the parent is, and take signals as the parent was told to take them."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _wait(pid: int) -> int:
    """Pass signals on until the child ends; its exit code, or the negative number of the signal it died of."""
    while True:
        number, terminal = _next_signal()
        if number == signal.SIGCHLD:
            code = _reaped(pid)
            if code is not None:
                return code
        elif not terminal:
            # the child is not reaped yet, so that the number is still its own
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _next_signal() -> tuple[int, bool]:
    """The next signal, and whether the whole process group has it already."""
    waited = {*PASSED, signal.SIGCHLD}
    if hasattr(signal, "sigwaitinfo"):
        information = signal.sigwaitinfo(waited)
        # of a terminal that goes away only the leader of its session is told
        told_alone = information.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()
        return information.si_signo, information.si_code == _FROM_KERNEL and not told_alone
    number = signal.sigwait(waited)
    return number, number in (signal.SIGINT, signal.SIGQUIT) and sys.stdin.isatty()


def _reaped(pid: int) -> int | None:
    """Reap whatever ended; the exit code where the child did."""
    found = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if ended == 0:
            return found
        if ended == pid:
            found = os.waitstatus_to_exitcode(status)


def _die_of(number: int) -> None:
    """Die of the signal that the child died of, so that whoever waits for this process sees the same; the child has left
    the core dump, where there is one."""
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(1)
    os._exit(128 + number)


def _await_report(report: Path, ended: threading.Event, patience: float, warn: Callable[[str], None]) -> None:
    """Warn where the plug-in did not report in time: engines swallow errors of plug-ins. Then tell what the ranks report."""
    end = time.monotonic() + patience
    while not ended.is_set() and time.monotonic() < end:
        if report.exists():
            break
        ended.wait(0.2)
    if not ended.is_set():
        _complain(report, warn)
    told: set[str] = set()
    size, last = 0, False
    while not last:
        last = ended.wait(1.0)
        grown = report.stat().st_size if report.exists() else 0
        if grown != size:
            size = grown
            _tell_outcomes(report, told, warn)


def _tell_outcomes(report: Path, told: set[str], warn: Callable[[str], None]) -> None:
    """Say each outcome of the adapter once; replicas that share no ranks have one each."""
    for line in _lines(report):
        said = line.get("said")
        if said is not None and said not in told:
            told.add(said)
            warn(said)


def _lines(report: Path) -> Iterator[dict[str, Any]]:
    """What was reported; a line that is not whole yet is left for the next time."""
    for line in report.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(ValueError):
            yield json.loads(line)


_said: set[str] = set()


def _complain(report: Path, warn: Callable[[str], None]) -> None:
    """Say, once, that the plug-in was not loaded or does nothing."""
    if str(report) in _said:
        return
    _said.add(str(report))
    if not report.exists():
        warn("the plug-in did not report: the engine may not have loaded it; `policy doctor` says why")
        return
    for told in _lines(report):
        if told.get("state") in DOES_NOTHING:
            warn(f"the plug-in does nothing: {DOES_NOTHING[told['state']].format(**told)}")
            return
