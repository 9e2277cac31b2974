"""Versions of installed packages and what their sources say, read from files: nothing is imported.

`*.dist-info` folders on the search path name the versions. FlashInfer's signature is read from the syntax tree of
`comm/allreduce.py`; it overrules the trait table, and a disagreement is reported.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policy.companions import NO_VERSION

if TYPE_CHECKING:
    import ast

_FOLDER = re.compile(r"(?P<name>[A-Za-z0-9._]+?)-(?P<version>[0-9][^-]*)\.(dist-info|egg-info)")


def normalised(name: str) -> str:
    """A distribution's name as indexes compare them."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed_versions(path: Iterable[str] | None = None) -> dict[str, tuple[str, str]]:
    """Normalised distribution -> (version, the folder that says so); the first on the path wins, as for imports."""
    return _versions(tuple(sys.path if path is None else path))


@lru_cache(maxsize=8)
def _versions(path: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for folder in path:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue
        for entry in entries:
            match = _FOLDER.fullmatch(entry)
            if match:
                found.setdefault(normalised(match["name"]), (match["version"], os.path.join(folder, entry)))
    return found


def find_module(package: str, path: Iterable[str] | None = None) -> Path | None:
    """The folder of an importable package, without importing it."""
    for folder in sys.path if path is None else path:
        candidate = Path(folder or ".") / package
        if (candidate / "__init__.py").is_file():
            return candidate
    return None


def function_parameters(file: Path, function: str) -> list[str] | None:
    """Parameter names of a module-level function, from the syntax tree; None where the file or function is not there."""
    import ast  # only where a package is there

    tree = _tree(file)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            arguments = node.args
            return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return None


def call_keywords(file: Path, function: str) -> list[set[str]] | None:
    """The keyword names of every call of `function` in a file; None where the file is not there."""
    import ast  # only where a package is there

    tree = _tree(file)
    if tree is None:
        return None
    return [
        {keyword.arg for keyword in node.keywords if keyword.arg} for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node.func) == function
    ]


def _called(node: ast.expr) -> str:
    import ast

    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _tree(file: Path) -> ast.Module | None:
    import ast

    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def flashinfer_traits(path: Iterable[str] | None = None) -> Iterator[tuple[str, Any, str]]:
    """Traits of the installed FlashInfer as its source shows them: fact, value, file."""
    package = find_module("flashinfer", path)
    if package is None:
        return
    file = package / "comm" / "allreduce.py"
    parameters = function_parameters(file, "create_allreduce_fusion_workspace")
    yield "traits.flashinfer.unified_api", parameters is not None, str(file)
    if parameters is not None:
        yield "traits.flashinfer.takes_group", "group" in parameters, str(file)
        yield "traits.flashinfer.takes_comm_backend", "comm_backend" in parameters, str(file)
    file = package / "jit" / "env.py"
    texts = _texts(file)
    if any("does not match" in text for text in texts):
        yield "traits.flashinfer.no_version_check", "skipped" if NO_VERSION in texts else "raises", str(file)


def _texts(file: Path) -> set[str]:
    """The string constants of a file."""
    import ast  # only where a package is there

    tree = _tree(file)
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)} if tree is not None else set()


#: Where each engine calls FlashInfer's factory, below its package.
WORKSPACE_CALLS = {"vllm": "distributed/device_communicators/flashinfer_all_reduce.py"}


def engine_traits(engine: str, path: Iterable[str] | None = None) -> Iterator[tuple[str, Any, str]]:
    """Traits of the installed engine as its source shows them: fact, value, file. Only calls that spell their keywords out
    are read; one that passes a mapping (`**keywords`) says nothing."""
    package = find_module(engine, path)
    if package is None or engine not in WORKSPACE_CALLS:
        return
    file = package / WORKSPACE_CALLS[engine]
    calls = call_keywords(file, "create_allreduce_fusion_workspace")
    if calls:
        shared = set.intersection(*calls)
        scope = "group" if "group" in shared else "comm_backend" if "comm_backend" in shared else None
        if scope is not None:
            yield "traits.engine.workspace_call", scope, str(file)
