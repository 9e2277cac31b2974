"""YAML files to a pack. Every problem of every file is collected; with any of them nothing is loaded.

A pack that was loaded before is read from its compiled form (`compiled.py`), which the digest of the files guards.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

from policy.build import build
from policy.build_reading import Source
from policy.conditions import Path
from policy.facts import plain
from policy.pack import Pack, Place, did_you_mean
from policy.problems import PackError, Problem, Span
from policy.records import dataclass, field, replace
from policy.source import MAX_BYTES, Document, read_text, read_yaml

FOLDERS = {"facts": "facts", "tables": "table", "fusions": "fusion", "devices": "device", "invariants": "invariants"}
#: What a product's file is by the first word of its name: `traits.yaml`, `traits_hazards.yaml`.
PRODUCT_FILES = {"product": "product", "traits": "traits", "switches": "switches", "pins": "pins", "defaults": "defaults", "settings": "settings"}
#: What is expected where a value is of the wrong type.
EXPECTED = {
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
}
#: Kinds of files that others build on: where one is broken, nothing is said about what the rest means.
FOUNDATION = {"manifest", "facts", "conditions", "fusion", "product", "traits"}
#: Files of a product that its own doors read; no part of the decision.
OTHER_PRODUCT_FILES = ("runtime",)


@dataclass(slots=True)
class YamlSource:
    """One YAML file of a pack."""

    kind: str
    file: str
    document: Document
    problems: list[Problem] = field(default_factory=list)
    trusted: bool = False

    @property
    def value(self) -> Any:
        """The file's data."""
        return self.document.value

    def place(self, path: Path) -> Place:
        """Where the value at `path` is written, below the pack's folder."""
        span = self.document.span(path)
        return Place(self.file, span.line, span.column)

    def complain(self, path: Path, message: str, help: str, key: bool = False) -> None:
        """Report a defect; on a mapping's entry the key is shown."""
        key = key or (tuple(path) in self.document.keys and isinstance(self.document_value(path), dict | list))
        self.problems.append(self.document.problem(path, message, help, key))

    def document_value(self, path: Path) -> Any:
        """The value at `path`, or None."""
        value = self.document.value
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value


def default_folder() -> FilePath:
    """The pack that comes with the package: inside it when installed from a wheel, beside it in a checkout."""
    package = FilePath(__file__).resolve().parent
    inside = package / "rules"
    return inside if inside.is_dir() else package.parent / "rules"


def shown_path(path: FilePath) -> str:
    """A path as one writes it from here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def pack_files(folder: FilePath) -> list[FilePath]:
    """The YAML files of a pack, sorted by path."""
    found: list[list[str]] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        inside = os.path.relpath(parent, folder)
        parts = [] if inside == "." else inside.split(os.sep)
        # a folder with the name of a file is named too, so that loading reports it
        found.extend([*parts, name] for name in (*folders, *files) if name.endswith((".yaml", ".yml")) and not name.startswith("."))
    return [folder.joinpath(*parts) for parts in sorted(found)]


def digest_of(folder: FilePath, files: Iterable[FilePath]) -> str:
    """SHA-256 over the paths and bytes of the files, shortened to 16 hexadecimal digits. A file that cannot be read, which
    loading the pack reports, counts by its path alone."""
    total, above = hashlib.sha256(), len(os.path.join(folder, ""))
    for path in map(str, files):
        total.update(path[above:].replace(os.sep, "/").encode("utf-8", "surrogateescape") + b"\0")
        total.update(_content(path) + b"\0")
    return total.hexdigest()[:16]


def _content(path: str) -> bytes:
    """The bytes of a file after a `+`; `-` for what cannot be read or is too large."""
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            return b"-"
        with open(path, "rb", buffering=0) as stream:
            return b"+" + stream.readall()
    except OSError:
        return b"-"


def kind_of(relative: FilePath) -> str | None:
    """What a file is by its path below the pack; None for a file that belongs nowhere, `` for one that is not read."""
    parts, stem = relative.parts, relative.stem
    if len(parts) == 1:
        return "manifest" if stem == "pack" else "conditions" if stem.partition("_")[0] == "conditions" else None
    if parts[0] == "products":
        if len(parts) == 3:
            return "" if stem in OTHER_PRODUCT_FILES else PRODUCT_FILES.get(stem.partition("_")[0])
        if len(parts) == 4:
            return "gate" if parts[2] == "gates" else ""
        return None
    return FOLDERS.get(parts[0], "rule") if len(parts) == 2 else None


def read_pack(folder: str | FilePath | None = None, compiled: bool = True) -> Pack:
    """The pack in `folder` (the one that comes with the package where left out). Raises `PackError` with every problem."""
    root = FilePath(folder) if folder is not None else default_folder()
    be_folder(root)
    files = pack_files(root)
    digest = digest_of(root, files)
    if compiled:
        from policy.compiled import load_compiled

        ready = load_compiled(root, digest)
        if ready is not None:
            return ready
    sources = read_sources(root, files)
    pack = build_checked(sources, digest, root)
    if compiled and digest_of(root, files) == digest:
        from policy.compiled import keep_compiled

        keep_compiled(sources, pack)
    return pack


def be_folder(root: FilePath) -> None:
    """Raise `PackError` where there is no folder to read a pack from."""
    if not root.is_dir():
        what = "this is a file, not a folder" if root.exists() else "there is no such folder"
        raise PackError([Problem(what, Span(str(root)), "name a folder with a pack.yaml")])


def build_checked(sources: list[YamlSource], digest: str, root: FilePath) -> Pack:
    """The pack from sources of the right shape; raises `PackError` where they do not fit together."""
    manifest = next((source for source in sources if source.kind == "manifest"), None)
    if manifest is None:
        raise PackError([Problem("the folder has no pack.yaml", Span(str(root)), "write one with name, version and format")])
    pack = _built(sources, manifest.value["name"], manifest.value["version"], digest, root)
    problems = _said(sources)
    if problems:
        raise PackError(problems)
    return pack


def _built(sources: list[YamlSource], name: str, version: str, digest: str, root: FilePath) -> Pack:
    typed: list[Source] = list(sources)
    try:
        return build(typed, name, version, digest, str(root), rule_is_shaped)
    except RecursionError:
        raise PackError([Problem("conditions name each other through too many others", Span(shown_path(root)), "name fewer in a row")]) from None


def _said(sources: Iterable[YamlSource]) -> list[Problem]:
    """The complaints about the sources, each once."""
    return list(dict.fromkeys(problem for source in sources for problem in source.problems))


def read_sources(root: FilePath, files: Iterable[FilePath]) -> list[YamlSource]:
    """Every file as checked data. Raises `PackError` with the problems of all of them."""
    sources: list[YamlSource] = []
    problems: list[Problem] = []
    broken: set[str] = set()
    for path in files:
        relative = path.relative_to(root)
        kind = kind_of(relative)
        name = shown_path(root / relative)
        if kind == "":
            continue
        if kind is None:
            problems.append(
                Problem("this file belongs to no part of a pack", Span(name), "rules lie in THEME/ID.yaml; the other places are in rules/README.md")
            )
            continue
        text, found = (
            read_text(path, name) if path.is_file() or path.is_dir() else (None, [Problem(_no_file(path), Span(name), "put a file in its place, or remove it")])
        )
        if text is not None:
            document, defects = read_yaml(text, name)
            source = YamlSource(kind, relative.as_posix(), document)
            found = defects or shape_problems(source)
            if not found:
                sources.append(source)
        if found:
            broken.add(kind)
            problems.extend(found)
    if problems and not broken & FOUNDATION:
        _built(sources, "", "", "", root)
        problems.extend(_said(sources))
    if problems:
        raise PackError(problems)
    return sources


def _no_file(path: FilePath) -> str:
    return "this is a link to nothing" if path.is_symlink() else "this is no file"


def rule_is_shaped(source: Source, path: Path, fields: Mapping[str, Any]) -> bool:
    """Whether a rule that a table makes has the shape of a rule; where not, the source has the problems."""
    from pydantic import ValidationError

    from policy.documents import RuleDocument

    assert isinstance(source, YamlSource)
    try:
        RuleDocument.model_validate({**fields, "id": str(fields["id"]).replace("/", "-")})
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            inside = detail["loc"]
            own = isinstance(source.document_value((*path, *inside[:1])), str | int | float | list | dict)
            problem = _explained(source, {**detail, "loc": (*(path if own else ("rule",)), *inside)})
            near = did_you_mean(str(inside[-1]), RuleDocument.model_fields) if detail["type"] == "extra_forbidden" else ""
            source.problems.append(replace(problem, help=near) if near else problem)
        return False
    return True


def shape_problems(source: YamlSource) -> list[Problem]:
    """Where a file's data is not of its kind's shape."""
    from pydantic import ValidationError

    from policy.documents import SHAPES

    shape, document = SHAPES[source.kind], source.document
    if not isinstance(document.value, dict):
        return [document.problem((), f"a {source.kind} file is a mapping, not {_kind_name(document.value)}")]
    try:
        shape.model_validate(document.value)
    except ValidationError as error:
        found: list[Problem] = []
        for detail in error.errors(include_url=False):
            problem = _explained(source, detail)
            if all(problem.span != other.span for other in found):
                found.append(problem)
        return found
    return _name_problems(source)


def _name_problems(source: YamlSource) -> list[Problem]:
    """Files are named after what they hold."""
    field_name = {"rule": "id", "table": "table", "fusion": "fusion", "device": "device", "gate": "fusion"}.get(source.kind)
    stem = FilePath(source.file).stem
    if field_name is not None and source.value.get(field_name) != stem:
        return [
            source.document.problem(
                (field_name,), f"`{source.value.get(field_name)}` stands in the file `{stem}.yaml`", f"name the file `{source.value.get(field_name)}.yaml`"
            )
        ]
    return []


def _explained(source: YamlSource, detail: Any) -> Problem:
    """One validation error in the words of the file."""
    path = tuple(step for step in detail["loc"])
    kind, context = detail["type"], detail.get("ctx", {})
    last = str(path[-1]) if path else ""
    if kind == "extra_forbidden":
        holder = source.document_value(path[:-1])
        fields = _fields_at(source, path[:-1])
        help = did_you_mean(last, fields) or (f"known fields: {', '.join(sorted(fields))}" if fields else "")
        return source.document.problem(path, f"`{last}` is no field here", help, key=isinstance(holder, dict))
    if kind == "missing":
        return source.document.problem(path[:-1], f"`{last}` is missing", "", key=bool(path[:-1]))
    value = detail.get("input")
    if kind == "literal_error":
        expected = context.get("expected", "").replace("'", "`")
        choices = [part.strip(" `") for part in context.get("expected", "").replace(" or ", ", ").replace("'", "").split(",")]
        return source.document.problem(
            path, f"`{plain(value)}` is not {expected}", did_you_mean(str(value), choices) or (f"write {expected}" if len(choices) == 1 else "")
        )
    if kind in ("string_type", "string_pattern_mismatch") and isinstance(value, int | float) and not isinstance(value, bool):
        return source.document.problem(path, f"`{plain(value)}` is a number where text is expected", f'write it in quotes: `"{plain(value)}"`')
    if kind == "string_pattern_mismatch":
        return source.document.problem(path, f"`{plain(value)}` is no name", "names are lower case, with `-`, `_` or `.` between words", key=last == "[key]")
    if kind in EXPECTED:
        shown = f"`{plain(value)}`" if isinstance(value, str | int | float) else _kind_name(value)
        return source.document.problem(path, f"{shown} where {EXPECTED[kind]} is expected")
    message = str(detail["msg"])
    return source.document.problem(
        path,
        f"`{plain(value)}`: {message[:1].lower()}{message[1:]}"
        if isinstance(value, str | int | float)
        else f"{message[:1].lower()}{message[1:]}, not {_kind_name(value)}",
    )


def _fields_at(source: YamlSource, path: Path) -> list[str]:
    """The field names of the shape at `path`, as far as the annotations tell."""
    from policy.documents import SHAPES
    from policy.documents import Document as Shape

    shape: Any = SHAPES[source.kind]
    for step in path:
        if isinstance(step, int) or shape is None:
            continue
        field_info = getattr(shape, "model_fields", {}).get(step)
        if field_info is not None:
            shape = next((one for one in _flat_arguments(field_info.annotation) if isinstance(one, type) and issubclass(one, Shape)), None)
    return list(getattr(shape, "model_fields", {}))


def _flat_arguments(annotation: Any) -> Iterable[Any]:
    yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _flat_arguments(argument)


def _kind_name(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a boolean"
    return {dict: "a mapping", list: "a list", str: "text", int: "a number"}.get(type(value), "a number")
