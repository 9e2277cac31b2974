"""Run a command in this process's place: terminal, signals and exit code pass through, and the plug-in's report is awaited.

The child shares the process group, so that the terminal's signals reach it by themselves; signals sent to this process
are passed on. If the child dies of a signal, this process dies of the same one; if this process is killed, the child is too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: Signals that are sent on to the child; those of the terminal reach it without help, but may also come from elsewhere.
PASSED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGINT", "SIGCONT")
REPORT_VARIABLE = "FUSION_POLICY_REPORT"


def run_command(
    words: Sequence[str], environment: Mapping[str, str], expects_report: bool, warn: Callable[[str], None], patience: float = 300.0
) -> int:
    """Run the command to its end. Returns its exit code; does not return where the child died of a signal.

    `expects_report`: the engine should load the plug-in, which then writes to the file that `FUSION_POLICY_REPORT` names;
    `warn` is called once where nothing was written within `patience` seconds while the command runs."""
    with tempfile.TemporaryDirectory(prefix="fusion-policy-") as folder:
        report = Path(folder) / "report"
        variables = {**os.environ, **environment}
        if expects_report:
            variables[REPORT_VARIABLE] = str(report)
        received: list[int] = []
        child: subprocess.Popen[bytes] | None = None
        handlers = {}

        def passed(number: int, frame: object) -> None:
            received.append(number)
            # a signal of the terminal has already reached the child, which shares its process group
            if child is not None and child.poll() is None and not (number in (signal.SIGINT, signal.SIGQUIT) and sys.stdin.isatty()):
                child.send_signal(number)

        for name in PASSED:
            number = getattr(signal, name, None)
            if number is not None:
                handlers[number] = signal.signal(number, passed)
        try:
            child = subprocess.Popen(list(words), env=variables, preexec_fn=_die_with_parent if sys.platform == "linux" else None)
            watcher = threading.Thread(target=_await_report, args=(child, report, patience, warn), daemon=True)
            if expects_report:
                watcher.start()
            code = child.wait()
            if expects_report:
                watcher.join(2)
        except FileNotFoundError:
            warn(f"`{words[0]}` is not found")
            return 127
        except PermissionError:
            warn(f"`{words[0]}` cannot be run")
            return 126
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    if code < 0:
        _die_of(-code)
    return code


def _die_with_parent() -> None:
    """In the child: be killed when the parent is, and take signals as they come."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    for name in PASSED:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)


def _die_of(number: int) -> None:
    """Die of the signal that the child died of, so that whoever waits for this process sees the same."""
    sys.stdout.flush()
    sys.stderr.flush()
    if number == signal.SIGKILL:
        os.kill(os.getpid(), signal.SIGKILL)
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    time.sleep(1)
    os._exit(128 + number)


def _await_report(child: subprocess.Popen[bytes], report: Path, patience: float, warn: Callable[[str], None]) -> None:
    """Warn where the plug-in did not report in time: engines swallow errors of plug-ins."""
    end = time.monotonic() + patience
    while child.poll() is None and time.monotonic() < end:
        if report.exists():
            return
        time.sleep(0.2)
    if not report.exists() and (child.poll() is None or child.returncode == 0):
        warn("the plug-in did not report: the engine may not have loaded it; `policy doctor` says why")
