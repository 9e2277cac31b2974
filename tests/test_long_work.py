"""Progress of long commands: a line on a terminal, taken away at the end, and nothing anywhere else."""

from __future__ import annotations

import gc
import sys
from io import StringIO

import pytest

from policy.commands import long_work


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "waited", "shown"), [(Terminal(), 2.0, True), (Terminal(), 0.5, False), (StringIO(), 2.0, False)])
def test_progress(stream: StringIO, waited: float, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(long_work, "monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", stream)
    before = gc.get_threshold()
    with long_work.long_work() as progress:
        assert gc.get_threshold()[0] == long_work.OBJECTS
        now[0] = waited
        progress(3, 32, "allreduce_rms")
        progress(4, 32, "norm")
    assert gc.get_threshold() == before
    assert ("3 of 32: allreduce_rms" in stream.getvalue()) is shown
    if shown:
        assert stream.getvalue().split("\r")[-2:] == [" " * len("4 of 32: norm"), ""]
