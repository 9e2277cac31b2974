"""Scorers of recorded answers of released engines, one module a format.

A module has `handles(row)`: whether a row (or the content of a `.json` file) has its format, and `compare(pack, rows)`:
rows, agreements, and every disagreement in words. `scorer_of` finds the module for a row; nothing else names them.
"""

from __future__ import annotations

import gzip
import json
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from policy.pack import Pack

Row = Mapping[str, Any]
Score = tuple[int, int, list[str]]


class Scorer(Protocol):
    """One format."""

    handles: Callable[[Row], bool]
    compare: Callable[[Pack, Iterable[Row]], Score]


def read_rows(path: str | Path) -> list[Any]:
    """The rows of a `.jsonl` file, gzipped or not; the content of a `.json` file as one row."""
    name, data = str(path), Path(path).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    if name.removesuffix(".gz").endswith(".json"):
        return [json.loads(text)]
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def scorers() -> list[Scorer]:
    """Every module of this package that scores a format."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return [module for module in modules if hasattr(module, "handles") and hasattr(module, "compare")]


def scorer_of(row: Row) -> Scorer | None:
    """The scorer of a row's format, None for an unknown format."""
    return next((scorer for scorer in scorers() if scorer.handles(row)), None)
