"""The kernel library as it is installed, read without importing it: version, signature, what it can do.

`installed` reads package metadata and parses one source file (about 0.15 s); it works without a GPU and never loads torch."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from policy.runtime.data import product, valid_at


@dataclass(frozen=True, slots=True)
class Library:
    """An installed kernel library. `parameters` are those of its create function (empty: there is none), `calls` those
    of the fused call; traits are None where neither the table nor the code tells."""

    name: str
    version: str
    folder: Path | None
    parameters: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    scope: str | None = None
    allocator: str | None = None
    subgroups: bool | None = None
    capability_majors: tuple[int, ...] | None = None
    safe_pdl: bool | None = None
    safe_fp32_two_shot: bool | None = None
    python_minor: int = 0
    problem: str = ""


def installed(name: str = "flashinfer") -> Library:
    """What is installed under this import name. An absent or broken library is a Library with a `problem`."""
    data = product(name)
    try:
        version = importlib.metadata.version(data["package"])
    except importlib.metadata.PackageNotFoundError:
        return Library(name, "absent", None, problem=f"{data['package']} is not installed")
    spec = importlib.util.find_spec(data["module"])
    if spec is None or not spec.submodule_search_locations:
        return Library(name, version, None, problem=f"{data['package']} {version} is installed but `{data['module']}` is not found on the path")
    folder = Path(next(iter(spec.submodule_search_locations)))
    source = folder / data["create"]["file"]
    if not source.is_file():
        return Library(name, version, folder, problem=f"{data['package']} {version} has no {data['create']['file']} (the unified call is there from 0.6.0 on)")
    try:
        functions = _signatures(source)
    except (OSError, SyntaxError, ValueError) as error:
        return Library(name, version, folder, problem=f"{source.name} of {data['package']} {version} cannot be read: {error}")
    parameters = functions.get(data["create"]["function"], ())
    if not parameters:
        return Library(name, version, folder, problem=f"{data['package']} {version} has no `{data['create']['function']}`")
    return _with_traits(data, Library(name, version, folder, parameters, functions.get(data["create"]["call"], ())))


def _signatures(source: Path) -> dict[str, tuple[str, ...]]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            found[node.name] = tuple(each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
    return found


def _with_traits(data: dict[str, Any], library: Library) -> Library:
    def trait(name: str) -> Any:
        return valid_at(data[name], library.version, data["through"])

    majors = trait("capability_majors")
    return Library(
        library.name,
        library.version,
        library.folder,
        library.parameters,
        library.calls,
        scope=_probed_scope(trait("scope"), library.parameters),
        allocator=trait("allocator"),
        subgroups=_probed_subgroups(trait("subgroups"), library.parameters),
        capability_majors=None if majors is None else tuple(majors),
        safe_pdl=trait("safe_pdl"),
        safe_fp32_two_shot=trait("safe_fp32_two_shot"),
        python_minor=int(trait("python_minor") or 0),
    )


def _probed_scope(table: str | None, parameters: tuple[str, ...]) -> str | None:
    """The installed signature overrules the table: a source build can carry or lack `group` whatever its version says."""
    if table == "group" and "group" not in parameters:
        return "world"
    if table == "world" and "group" in parameters:
        return "group"
    if table is None:
        return "group" if "group" in parameters else None
    return table


def _probed_subgroups(table: bool | None, parameters: tuple[str, ...]) -> bool | None:
    return True if "group" in parameters else False if table is None else table and "group" in parameters


def kernels_at_hand(library: Library, backend: str) -> tuple[str, str]:
    """(`prebuilt` | `cached` | `compiler` | `none`, detail): where the kernels of the backend would come from."""
    kernels = product(library.name)["kernels"].get(backend, {})
    if library.folder is not None and (library.folder / kernels.get("prebuilt", "-")).is_file():
        return "prebuilt", kernels["prebuilt"]
    base = Path(os.environ.get("FLASHINFER_WORKSPACE_BASE") or Path.home()) / ".cache" / "flashinfer"
    suffix = kernels.get("cached", "-")
    if next(base.glob(f"{library.version.split('+')[0]}/*/{suffix}"), None) is not None:
        return "cached", suffix
    if importlib.util.find_spec("flashinfer_jit_cache") is not None:
        return "prebuilt", "flashinfer-jit-cache"
    if os.environ.get("FLASHINFER_DISABLE_JIT", "0") not in ("0", ""):
        return "none", "FLASHINFER_DISABLE_JIT is set and no prebuilt kernels were found"
    missing = [tool for tool in kernels.get("tools", []) if not tool_at_hand(tool)]
    return ("none", f"no prebuilt kernels, and {', '.join(missing)} not found") if missing else ("compiler", "nvcc and ninja")


def tool_at_hand(name: str) -> bool:
    """Whether a build tool is on the path or, for nvcc, in a CUDA home."""
    if shutil.which(name):
        return True
    homes = [os.environ.get(variable) for variable in ("CUDA_HOME", "CUDA_PATH")] if name == "nvcc" else []
    return any(home and (Path(home) / "bin" / name).is_file() for home in (*homes, "/usr/local/cuda" if name == "nvcc" else None))
