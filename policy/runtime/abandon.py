"""Work in a thread that can be given up: calls that may never return must not take the caller with them."""

from __future__ import annotations

import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class AbandonedError(TimeoutError):
    """The call had not come back by its deadline; its thread was left behind and is not used again."""


class Job(Generic[Result]):
    """One call in a daemon thread. `done` tells whether it came back, `result()` returns or raises what it did."""

    def __init__(self, call: Callable[[], Result], name: str) -> None:
        self._call = call
        self._value: Result | None = None
        self._error: BaseException | None = None
        self.seconds = 0.0
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"fusion-policy {name}", daemon=True)
        self._started = time.monotonic()
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error
        self.seconds = time.monotonic() - self._started
        self._finished.set()

    @property
    def done(self) -> bool:
        """Whether the call came back, with a value or an error."""
        return self._finished.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`; True when the call came back."""
        return self._finished.wait(max(seconds, 0.0))

    def result(self) -> Result:
        """What the call returned; raises what it raised. Only once it is done."""
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def stack(self) -> list[str]:
        """Where the call stands now, innermost last; empty when it came back."""
        frame = sys._current_frames().get(self._thread.ident or -1)
        if self.done or frame is None:
            return []
        return [f"{entry.filename}:{entry.lineno} in {entry.name}" for entry in traceback.extract_stack(frame)]


class Servant:
    """A thread that makes one call after another for whoever made it; after one call past its limit it is left behind."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[tuple[bool, Any]]] | None] = queue.SimpleQueue()
        self.abandoned = False
        threading.Thread(target=self._serve, name=f"fusion-policy {name}", daemon=True).start()

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, answer = job
            try:
                answer.put((True, call()))
            except BaseException as error:
                answer.put((False, error))

    def call(self, work: Callable[[], Result], seconds: float) -> Result:
        """Run `work` there and return what it returns. Raises AbandonedError after `seconds`, and at once ever after."""
        if self.abandoned:
            raise AbandonedError("an earlier call has not come back")
        answer: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._jobs.put((work, answer))
        try:
            good, value = answer.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            self.abandoned = True
            self._jobs.put(None)
            raise AbandonedError(f"no answer within {seconds:.1f} s") from None
        if not good:
            raise value
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Let the thread end once it has nothing left to do."""
        self._jobs.put(None)
