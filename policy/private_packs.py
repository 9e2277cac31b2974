"""Packs of one's own, added to the pack that comes with the package: a fleet's rules, devices and fusions.

A private pack has the same layout and may add: rules, tables, conditions, facts, devices, invariants, fusions of its own
with their gates and switches, and traits. It may not say anything again that the main pack says. Rules only narrow, and
conditions, facts and traits under new names are read by nothing but the new rules, so that nothing which was off or
undetermined is turned on.

They are named by `--add-pack DIR` and `FUSION_POLICY_ADD_PACK`, or come with an installed package through the entry point
group `fusion_policy.packs`, whose value names a folder inside that package: nothing of it is imported.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from policy.build import build
from policy.build_reading import Source
from policy.conditions import Path
from policy.load import (
    YamlSource,
    be_folder,
    default_folder,
    digest_of,
    kind_of,
    pack_files,
    read_pack,
    read_sources,
    rule_is_shaped,
    shape_problems,
    shown_path,
)
from policy.pack import Pack, Place
from policy.problems import PackError, Problem, Span
from policy.records import dataclass
from policy.source import read_text, read_yaml

GROUP = "fusion_policy.packs"
VARIABLE = "FUSION_POLICY_ADD_PACK"
#: Kinds of files that a private pack may hold.
ADDED = ("manifest", "facts", "conditions", "rule", "table", "fusion", "device", "invariants", "traits", "gate", "switches")


@dataclass(slots=True)
class PrivateSource(YamlSource):
    """One file of a private pack; its places name the file where it lies."""

    path: str = ""

    def place(self, path: Path) -> Place:
        """Where the value at `path` is written."""
        span = self.document.span(path)
        return Place(self.path, span.line, span.column)


def read_packs(folder: str | FilePath | None = None, added: Iterable[str | FilePath] = (), compiled: bool = True) -> Pack:
    """The pack in `folder` (the one that comes with the package, and those that installed packages add to it, where left
    out) with the packs in `added`. Raises `PackError` with every problem."""
    roots = [FilePath(one) for one in (*(installed_packs() if folder is None else ()), *added)]
    return joined(folder, roots, compiled)[0] if roots else read_pack(folder, compiled)


def joined(folder: str | FilePath | None, roots: Sequence[FilePath], compiled: bool = True) -> tuple[Pack, list[Source]]:
    """A pack with others added to it, and the files of all of them. Raises `PackError` with every problem."""
    main = FilePath(folder) if folder is not None else default_folder()
    be_folder(main)
    files = pack_files(main)
    sources: list[Source] = list(_main_sources(main, digest_of(main, files), compiled))
    name, version = next((source.value["name"], source.value["version"]) for source in sources if source.kind == "manifest")
    own = {source.value["fusion"] for source in sources if source.kind == "fusion"}
    digests = [digest_of(main, files)]
    private: list[PrivateSource] = []
    for root in dict.fromkeys(root.resolve() for root in roots):
        private.extend(_private_sources(root, own))
        digests.append(digest_of(root, pack_files(root)))
    sources.extend(source for source in private if source.kind != "manifest")
    digest = hashlib.sha256("\0".join(digests).encode()).hexdigest()[:16]
    pack = build(sources, name, version, digest, str(main), _is_shaped)
    problems = list(dict.fromkeys(problem for source in private for problem in source.problems))
    if problems:
        raise PackError(problems)
    return pack, sources


def _is_shaped(source: Source, path: Path, fields: Mapping[str, Any]) -> bool:
    """As for any pack; what was compiled was looked at then."""
    return source.trusted or rule_is_shaped(source, path, fields)


def added_by_environment() -> list[str]:
    """The folders of `FUSION_POLICY_ADD_PACK`, separated as in PATH."""
    return [one for one in os.environ.get(VARIABLE, "").split(os.pathsep) if one]


def _main_sources(root: FilePath, digest: str, compiled: bool) -> Sequence[Source]:
    if compiled:
        from policy.compiled import compiled_sources

        read_pack(root)  # leaves the compiled form where there was none
        found = compiled_sources(digest)
        if found is not None:
            return found
    return read_sources(root, pack_files(root))


def _private_sources(root: FilePath, taken: set[str]) -> list[PrivateSource]:
    """The files of a private pack, each of the right shape and of a kind that may be added."""
    be_folder(root)
    sources: list[PrivateSource] = []
    problems: list[Problem] = []
    for file in pack_files(root):
        relative, name = file.relative_to(root), shown_path(file)
        kind = kind_of(relative)
        if kind == "":
            continue
        if kind is None:
            problems.append(Problem("this file belongs to no part of a pack", Span(name), "rules lie in THEME/ID.yaml"))
            continue
        text, found = read_text(file, name)
        if text is not None:
            document, defects = read_yaml(text, name)
            # `conditions.yaml` of the main pack stands beside `conditions_NAME.yaml`
            as_file = f"conditions_{root.name}.yaml" if kind == "conditions" else relative.as_posix()
            source = PrivateSource(kind, as_file, document, path=str(file))
            found = defects or list(_of_a_kind_apart(source)) or shape_problems(source)
            sources.extend([] if found else [source])
        problems.extend(found)
    problems.extend(_refused(sources, taken))
    if not any(source.kind == "manifest" for source in sources) and not problems:
        problems.append(Problem("the folder has no pack.yaml", Span(str(root)), "write one with name, version and format"))
    if problems:
        raise PackError(problems)
    return sources


def _of_a_kind_apart(source: PrivateSource) -> Iterator[Problem]:
    if source.kind not in ADDED:
        help = "releases, pins, defaults and settings of an engine belong to the main pack"
        yield source.document.problem((), f"a private pack has no {source.kind} file", help)


def _refused(sources: Sequence[PrivateSource], taken: set[str]) -> Iterator[Problem]:
    """What belongs to the main pack alone. Names that stand twice are found where the packs are put together."""
    own = {source.value["fusion"] for source in sources if source.kind == "fusion"} - taken
    for source in sources:
        if source.kind == "gate" and source.value["fusion"] not in own:
            help = "it adds gates for its own fusions only"
            yield source.document.problem(("fusion",), f"`{source.value['fusion']}` is no fusion of this private pack", help)
        elif source.kind == "switches":
            for number, switch in enumerate(source.value["switches"]):
                if switch["fusion"] not in own:
                    help = "it adds switches for its own fusions only"
                    yield source.document.problem(("switches", number, "fusion"), f"`{switch['fusion']}` is no fusion of this private pack", help)


# --- packs of installed packages ---


def installed_packs(path: Iterable[str] | None = None) -> list[str]:
    """The folders that installed packages name in the entry point group, found without importing anything. One that is not
    there raises `PackError`: a fleet's rules that are silently missing would be worse than none."""
    found: list[str] = []
    for folder in dict.fromkeys(sys.path if path is None else path):
        try:
            entries = sorted(entry for entry in os.listdir(folder or ".") if entry.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue
        for entry in entries:
            file = os.path.join(folder or ".", entry, "entry_points.txt")
            found.extend(_named_in(file, folder or "."))
    return list(dict.fromkeys(found))


def _named_in(file: str, folder: str) -> Iterator[str]:
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError):
        return
    if GROUP not in text:
        return
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line:
            name, value = (part.strip() for part in line.split("=", 1))
            target = os.path.join(folder, *value.replace(":", ".").split("."))
            if not os.path.isdir(target):
                message = f"the pack `{name}` is not at `{value}`"
                raise PackError([Problem(message, Span(file, number), "the value names a folder of the package, as in `acme_policies.rules`")])
            yield target
