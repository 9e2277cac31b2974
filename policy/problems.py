"""Problems: defects in a pack or an input, with file, line and column, and the errors that carry them.

PolicyError
├── PackError      a pack that cannot be used; nothing of it is loaded
├── LaunchError    facts that no launch can have
└── UsageError     a command that makes no sense
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policy.records import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a file: line and column from 1, and `width` characters from there."""

    file: str
    line: int = 1
    column: int = 1
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One defect: what is wrong (lower case, no full stop), where, and what would be right. `text` is the source line;
    `source` names the place of a defect that is in no file (`--set`)."""

    message: str
    span: Span | None = None
    help: str = ""
    text: str = ""
    source: str = ""

    def render(self) -> str:
        """`file:line:column: message`, the source line with a caret, and the help."""
        head = f"{self.span}: {self.message}" if self.span else f"{self.source}: {self.message}" if self.source else self.message
        lines = [head]
        if self.span is not None and self.text.strip():
            shown = self.text.replace("\t", " ")
            start = max(0, self.span.column - 1)
            cut = max(0, start - 80)
            lines.append(f"    {shown[cut : cut + 140].rstrip()}")
            lines.append("    " + " " * (start - cut) + "^" * max(1, min(self.span.width, len(shown.rstrip()) - start)))
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


def render(problems: Iterable[Problem]) -> str:
    """Every problem, in the order of files and lines."""
    ordered = sorted(problems, key=lambda one: (one.span.file, one.span.line, one.span.column) if one.span else ("", 0, 0))
    return "\n".join(problem.render() for problem in ordered)


class PolicyError(Exception):
    """The base of all errors of this package; `problems` says everything that is wrong."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(render(problems))


class PackError(PolicyError):
    """A pack that cannot be used."""


class LaunchError(PolicyError):
    """Facts that no launch can have."""


class UsageError(PolicyError):
    """A command that makes no sense."""

    def __init__(self, message: str, help: str = "", source: str = "") -> None:
        super().__init__((Problem(message, None, help, source=source),))
