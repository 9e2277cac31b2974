"""The compiled form of a pack: its checked data as JSON, so that a decision needs neither YAML nor pydantic.

It is found beside the package (written at release, `policy check --compile`) or in the user's cache folder, and used
only where its digest is that of the pack's files as they are now.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from policy.build import build
from policy.build_reading import Source
from policy.conditions import Path
from policy.pack import Pack, Place
from policy.records import dataclass

if TYPE_CHECKING:
    from policy.load import YamlSource

#: Raised whenever the meaning of the compiled data changes.
FORMAT = 2


@dataclass(slots=True)
class CompiledSource:
    """One file of a compiled pack; it was checked before, so it has nothing to complain about."""

    kind: str
    file: str
    value: Any
    lines: dict[str, int]
    trusted: bool = True

    def place(self, path: Path) -> Place:
        """Where the value at `path` is written."""
        return Place(self.file, self.lines.get("/".join(map(str, path)), self.lines.get("", 1)))

    def complain(self, path: Path, message: str, help: str, key: bool = False) -> None:
        """A compiled pack was valid when it was written."""
        raise ValueError(f"{self.file}: {message}")


def cache_folder() -> FilePath:
    """Where compiled packs of this user lie."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return FilePath(base) / "fusion-policy"


def shipped_file() -> FilePath:
    """The compiled form that comes with the package."""
    return FilePath(__file__).resolve().parent / "compiled_pack.json"


def load_compiled(root: FilePath, digest: str) -> Pack | None:
    """The pack from its compiled form, or None where there is none of this digest."""
    for data in _compiled_data(digest):
        try:
            sources: list[Source] = [CompiledSource(*parts) for parts in data["sources"]]
            return build(sources, data["name"], data["version"], digest, str(root))
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
    return None


def compiled_sources(digest: str) -> list[Source] | None:
    """The files of a compiled pack, or None where there is none of this digest."""
    for data in _compiled_data(digest):
        try:
            return [CompiledSource(*parts) for parts in data["sources"]]
        except (LookupError, TypeError):
            continue
    return None


def _compiled_data(digest: str) -> Iterator[Any]:
    """The compiled forms of this digest, the one that comes with the package first."""
    shipped = () if os.environ.get("FUSION_POLICY_NO_SHIPPED_PACK") else (shipped_file(),)
    for file in (*shipped, cache_folder() / f"{digest}.json"):
        try:
            with open(file, encoding="utf-8") as stream:
                head = stream.readline().rstrip()
                if not head.startswith(header(digest)):
                    continue
                body = stream.read()
                # conditions are read when they are asked for: a damaged one would not be met here
                if head != header(digest, body):
                    continue
                data = json.loads(body)
        except (OSError, ValueError):
            continue
        yield data


def header(digest: str, body: str | None = None) -> str:
    """The first line of a compiled pack, which ends with what identifies its content."""
    start = f"fusion-policy compiled pack, format {FORMAT}, digest {digest}, content "
    return start if body is None else start + hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def compiled_text(sources: list[YamlSource], pack: Pack) -> str:
    """The compiled form of a pack: without the cases of its rules, which only `policy check` runs."""
    parts = []
    for source in sources:
        value = source.value
        if source.kind == "rule":
            value = {name: held for name, held in value.items() if name != "cases"}
        elif source.kind == "table":
            value = {**value, "rows": [{name: held for name, held in row.items() if name != "cases"} for row in value["rows"]]}
        lines = {"/".join(map(str, path)): source.document.span(path).line for path in _places(source)}
        parts.append([source.kind, source.file, value, lines])
    body = json.dumps({"name": pack.name, "version": pack.version, "sources": parts}, separators=(",", ":"), ensure_ascii=False) + "\n"
    return f"{header(pack.digest, body)}\n{body}"


def _places(source: YamlSource) -> list[Path]:
    """The paths whose lines explanations name."""
    lists = {"gate": "arms", "switches": "switches", "table": "rows"}.get(source.kind)
    places: list[Path] = [()]
    if lists is not None:
        places.extend((lists, number) for number in range(len(source.value.get(lists, []))))
    if source.kind == "traits":
        places.extend(("traits", name) for name in source.value["traits"])
    return places


def keep_compiled(sources: list[YamlSource], pack: Pack) -> None:
    """Write the compiled form to the user's cache folder; where that cannot be done, nothing is lost but time."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        target = folder / f"{pack.digest}.json"
        partial = folder / f"{pack.digest}.{os.getpid()}.partial"
        partial.write_text(compiled_text(sources, pack), encoding="utf-8")
        partial.replace(target)
        for old in sorted(folder.glob("*.json"), key=lambda file: file.stat().st_mtime)[:-8]:
            old.unlink(missing_ok=True)
    except OSError:
        return
