"""Files that hold launches, one module a format. A module of this package is a format when it has

* `NAME`: what a person calls the format, and `LOOKS_FOR`: what is looked for in it;
* `looks_like(text, documents, name) -> int`: 0 no, else how sure (100 the format names itself, 1 a last resort), by
  content; the file's name is a hint only. `documents` are the YAML documents of the text, none where it is not YAML;
* `read(text, documents, name, problems) -> list[FoundLaunch]`.

Adding a format is adding a module."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from types import ModuleType

from policy.launchers.containers.reading.finish import finish
from policy.launchers.found import FoundLaunch, LaunchNotice
from policy.launchers.yaml_places import Node, read_documents
from policy.origin import Origin
from policy.records import dataclass, field

MAX_CHARACTERS = 64_000_000  # of a whole file; logs are long
_LAST_RESORT, _NAMED = 20, 80  # how sure a format is that fits any text, and one that the text names
_YAML_NAMES = (".yaml", ".yml", ".json")


@dataclass(slots=True)
class Found:
    """What a file holds. `format` is the NAME of the format read (several joined by " and "), None where none fits.
    `problems` are notices about the file as a whole."""

    launches: list[FoundLaunch] = field(default_factory=list)
    format: str | None = None
    problems: list[LaunchNotice] = field(default_factory=list)


@lru_cache(maxsize=1)
def formats() -> tuple[ModuleType, ...]:
    """Every format module of this package, in no particular order of weight."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(module for module in modules if hasattr(module, "looks_like"))


def find_launches(text: str, name: str) -> Found:
    """The launches in the text of a file called `name` (`-` is standard input). Never raises for what the text is."""
    found = Found()
    if len(text) > MAX_CHARACTERS:
        found.problems.append(LaunchNotice("too-large", f"more than {MAX_CHARACTERS} characters: not read", Origin("file", file=name)))
        return found
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    documents, yaml_problems, templated = _documents(text, name)
    ranked = _ranked(text, documents, name, found.problems)
    used: list[ModuleType] = []
    strengths = sorted({strength for strength, _ in ranked}, reverse=True)
    for strength in strengths:
        if strength <= _LAST_RESORT and strengths[0] >= _NAMED:
            break  # a file of a known format that starts nothing is not searched for words
        used = [module for given, module in ranked if given == strength]
        read = {module: _read(module, text, documents, name, found.problems) for module in used}
        found.launches = [launch for launches in read.values() for launch in launches]
        if found.launches:
            used = [module for module in used if read[module]]
            break
    found.launches = finish(found.launches)
    for launch in found.launches:
        launch.templated = launch.templated or templated
    if not found.launches:
        used = [module for given, module in ranked if given == strengths[0] > _LAST_RESORT]  # below, only a word of the text fits
    found.format = " and ".join(dict.fromkeys(str(module.NAME) for module in used)) or None
    reads_yaml = any(getattr(module, "YAML", True) for module in used) and bool(used)
    if reads_yaml or (not used and name.endswith(_YAML_NAMES)):
        found.problems = yaml_problems + found.problems
    if not found.launches:
        found.problems.append(_nothing(used, name, text))
    return found


def _documents(text: str, name: str) -> tuple[list[Node], list[LaunchNotice], bool]:
    """The YAML documents, what is wrong with them, and whether lines of a template were left out to read them."""
    read = read_documents(text, name) if len(text) < 4_000_000 else None
    if read is None:
        return [], [], False
    return read.documents, read.problems, "template" in read.repaired


def _ranked(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[tuple[int, ModuleType]]:
    ranked: list[tuple[int, ModuleType]] = []
    for module in formats():
        try:
            strength = int(module.looks_like(text, documents, name))
        except Exception as error:  # a defect of one format must not hide the others
            problems.append(_defect(module, error, name))
            continue
        if strength > 0:
            ranked.append((strength, module))
    return ranked


def _read(module: ModuleType, text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    try:
        launches: list[FoundLaunch] = module.read(text, documents, name, problems)
    except Exception as error:  # never a traceback for an input file
        problems.append(_defect(module, error, name))
        return []
    return launches


def _defect(module: ModuleType, error: Exception, name: str) -> LaunchNotice:
    message = f"reading as {module.NAME} failed: {type(error).__name__}: {error}"[:300]
    return LaunchNotice("unreadable", message, Origin("file", file=name), "please report this file")


def _nothing(used: list[ModuleType], name: str, text: str) -> LaunchNotice:
    if not text.strip():
        return LaunchNotice("no-launch", "the file is empty", Origin("file", file=name))
    if used:
        what = " and ".join(dict.fromkeys(str(module.NAME) for module in used))
        looked = "; ".join(dict.fromkeys(str(module.LOOKS_FOR) for module in used))
        return LaunchNotice("no-launch", f"read as {what}, but no engine is started in it; looked for {looked}", Origin("file", file=name))
    known = ", ".join(sorted({str(module.NAME) for module in formats()}))
    return LaunchNotice("no-launch", f"no engine is started in it in a way that is known; known are: {known}", Origin("file", file=name))
