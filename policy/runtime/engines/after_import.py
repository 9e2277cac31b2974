"""Run something as soon as a module exists, without importing it: plugins are loaded before and after the engine's own modules."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Loader(importlib.abc.Loader):
    """The module's own loader, and then the call."""

    def __init__(self, loader: importlib.abc.Loader, call: Callable[[ModuleType], None]) -> None:
        self._loader, self._call = loader, call

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._call(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, call: Callable[[ModuleType], None]) -> None:
        self._name, self._call = name, call

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)  # once; and the search below must not come back here
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._call)
        return spec


def after_import(name: str, call: Callable[[ModuleType], None]) -> None:
    """`call(module)` now if the module is loaded, else right after its first import."""
    module = sys.modules.get(name)
    if module is not None:
        call(module)
        return
    sys.meta_path.insert(0, _Finder(name, call))
