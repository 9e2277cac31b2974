"""For commands that think for more than a moment: how far they are, on a terminal, and fewer searches for garbage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

#: Seconds before a command says how far it is.
SILENT = 1.0
#: Objects made between two searches for cycles: analyses make millions of small ones and hardly a cycle.
OBJECTS = 200_000


class Progress:
    """One line on the terminal behind the standard error, rewritten as work is done; nothing where that is no terminal."""

    def __init__(self) -> None:
        self.started, self.width = monotonic(), 0
        self.wanted = sys.stderr.isatty()

    def __call__(self, done: int, steps: int, what: str) -> None:
        """So many steps of so many are done; the next is about this."""
        if self.wanted and monotonic() - self.started > SILENT:
            self._write(f"{done} of {steps}: {what}")

    def clear(self) -> None:
        """Take the line away."""
        if self.width:
            self._write("")
            sys.stderr.write("\r")
            self.width = 0

    def _write(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)


@contextmanager
def long_work() -> Iterator[Progress]:
    """Work that makes many objects; the progress that is shown meanwhile is taken away at the end."""
    before, progress = gc.get_threshold(), Progress()
    gc.set_threshold(OBJECTS, *before[1:])
    try:
        yield progress
    finally:
        progress.clear()
        gc.set_threshold(*before)
