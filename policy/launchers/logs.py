"""A server's log as bytes, so that a log of hundreds of megabytes costs seconds: whole lines are only looked at where a
cheap search for a word of them hits."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from policy.problems import Problem, Span
from policy.source import MAX_BYTES

MAX_LOG = 512_000_000  # bytes
_LAUNCH_WORDS = (b"args", b"llm engine", b"version", b" serve ", b" -m vllm", b" -m sglang", b" -m dynamo", b"trtllm-serve")
_LAUNCH_LINES = 20_000  # lines with such a word that are looked at
_FOLLOWING = 60  # lines that one printed value may go over


class Log:
    """One log. Lines count from 1 and end in a newline only; what is no UTF-8 in a line is replaced."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data, self._lower = name, data, data.lower()

    def launch_text(self) -> str:
        """The text to look for launches in: of a long log only the lines that may speak of one, the others empty."""
        if len(self.data) <= MAX_BYTES:
            return self.data.decode("utf-8", "replace").removeprefix("\ufeff")
        kept = set[int]()
        for word in _LAUNCH_WORDS:
            for count, (start, _) in enumerate(self._lines_with(word)):
                if count >= _LAUNCH_LINES:
                    break
                for _ in range(_FOLLOWING):
                    kept.add(start)
                    start = self.data.find(b"\n", start) + 1
                    if start in kept or not start:
                        break
        parts, position = list[str](), 0
        for start in sorted(kept):
            parts.append("\n" * self.data.count(b"\n", position, start))
            position = self._end(start)
            parts.append(self.data[start:position].decode("utf-8", "replace"))
        return "".join(parts)

    def first(self, pattern: re.Pattern[str], word: str) -> tuple[int, str] | None:
        """The first line that the pattern finds, with its number; `word` is a word of ASCII that every such line has."""
        for start, end in self._lines_with(word.lower().encode()):
            line = self.data[start:end].decode("utf-8", "replace")
            if pattern.search(line):
                return self.data.count(b"\n", 0, start) + 1, line
        return None

    def _lines_with(self, word: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of every line that holds the word (in small letters)."""
        position = self._lower.find(word)
        while position >= 0:
            start, end = self.data.rfind(b"\n", 0, position) + 1, self._end(position)
            yield start, end
            position = self._lower.find(word, end)

    def _end(self, position: int) -> int:
        end = self.data.find(b"\n", position)
        return len(self.data) if end < 0 else end


def read_log(name: str) -> tuple[Log | None, list[Problem]]:
    """The log of that name, `-` for the standard input, or the problem that keeps it from being read."""
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MAX_LOG + 1) if sys.stdin is not None else b""
        else:
            with open(Path(name), "rb") as stream:
                data = stream.read(MAX_LOG + 1)
    except IsADirectoryError:
        return None, [Problem("this is a folder, not a file", Span(name))]
    except OSError as error:
        return None, [Problem(f"cannot be read: {(error.strerror or str(error)).lower()}", Span(name))]
    if len(data) > MAX_LOG:
        help = "give its beginning, which names the launch, and its end, each as a file"
        return None, [Problem(f"the log has more than the {MAX_LOG} bytes that are read", Span(name), help)]
    return Log(name, data.replace(b"\r\n", b"\n") if b"\r\n" in data else data), []
