"""`policy diff OLD NEW`: what changes for which launches, between two packs, two revisions, or two releases."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from policy.analyse.diff import SECONDS, Difference, as_json, diff, upgrade
from policy.analyse.diff_text import markdown, text
from policy.commands import common
from policy.commands.long_work import Progress, long_work
from policy.facts import ValueProblem
from policy.launch import Launch
from policy.load import default_folder, read_pack
from policy.pack import Pack, did_you_mean
from policy.problems import UsageError

EXAMPLE = "policy diff vllm=0.23.0 vllm=0.24.0 --fusion allreduce_rms"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy diff`."""
    parser.add_argument("old", metavar="OLD", help="a pack's folder, a revision of this repository, or PRODUCT=VERSION")
    parser.add_argument("new", metavar="NEW", help="the same")
    parser.add_argument("words", nargs="*", metavar="FILE", help="files with launches: which of them are hit")
    parser.add_argument("--fusion", action="append", default=None, help="only this fusion (default: all)")
    common.add_inputs(parser)
    common.add_pack(parser)
    parser.add_argument("--posture", choices=("safe", "fast"), default="safe")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds for everything (default: %(default)s)")
    parser.add_argument("--fail-on-change", action="store_true", help="exit 1 where anything changes")
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")


def run(options: argparse.Namespace) -> int:
    """Print every region that is decided otherwise, with a launch of it, and the given launches that are hit."""
    with tempfile.TemporaryDirectory(prefix="fusion-policy-") as folder, long_work() as progress:
        if "=" in options.old and "=" in options.new:
            pack = common.load(options, compiled=False)
            launches = _launches(pack, options)
            found = _releases(pack, options, launches, progress)
        else:
            old, new = (_pack(options, word, Path(folder) / name) for word, name in ((options.old, "old"), (options.new, "new")))
            found = diff(old, new, _launches(new, options), _fusions(new, options), options.posture, options.seconds, progress)
    _print(found, options.format)
    return common.FINDING if options.fail_on_change and (found.changes or found.hits) else common.OK


def _print(found: Difference, kind: str) -> None:
    if kind == "json":
        json.dump({"schema_version": 1, **as_json(found)}, sys.stdout, indent=1, default=str)
        print()
    else:
        sys.stdout.write((markdown(found) if kind == "markdown" else text(found)).rstrip() + "\n")


def _fusions(pack: Pack, options: argparse.Namespace) -> list[str] | None:
    for name in options.fusion or ():
        if name not in pack.fusions:
            raise UsageError(f"`{name}` is no fusion", did_you_mean(name, pack.fusions) or f"fusions: {', '.join(sorted(pack.fusions))}", "--fusion")
    found: list[str] | None = options.fusion
    return found


def _launches(pack: Pack, options: argparse.Namespace) -> list[tuple[str, Launch]]:
    _, files = common.split_words(pack, options.words)
    if not (files or options.launch or options.facts):
        return []
    read = common.read_inputs(pack, options, files)
    return [((one.found.name if one.found else "") or f"launch {number}", one.launch) for number, one in enumerate(read, 1)]


def _releases(pack: Pack, options: argparse.Namespace, launches: list[tuple[str, Launch]], progress: Progress) -> Difference:
    before, after = (_facts_of(pack, word) for word in (options.old, options.new))
    try:
        return upgrade(pack, before, after, launches, _fusions(pack, options), options.posture, options.seconds, progress)
    except ValueProblem as problem:
        raise UsageError(str(problem), problem.help) from None


def _facts_of(pack: Pack, word: str) -> Mapping[str, Any]:
    """`PRODUCT=VERSION`, or several joined by commas, as facts; an engine's release names the engine too."""
    facts: dict[str, Any] = {}
    for part in word.split(","):
        name, _, version = part.partition("=")
        product = pack.products.get(name) or next((one for one in pack.products.values() if one.package == name), None)
        if product is None:
            raise UsageError(f"no product is named `{name}`", did_you_mean(name, pack.products) or f"products: {', '.join(sorted(pack.products))}")
        if product.role == "engine":
            facts["engine.name"] = product.name
        facts[product.version_fact] = version
    return facts


def _pack(options: argparse.Namespace, word: str, folder: Path) -> Pack:
    """A pack's folder as it is, or the pack as it was in a revision of the repository around the present one."""
    if Path(word).is_dir():
        return read_pack(word, compiled=False)
    root = Path(options.pack) if options.pack else default_folder()
    archive = subprocess.run(["git", "-C", str(root), "archive", word, "--", "."], capture_output=True, check=False)
    if archive.returncode:
        raise UsageError(
            f"`{word}` is neither a folder nor a revision of the repository of {root}", f"git says `{archive.stderr.decode(errors='replace').strip()}`"
        )
    folder.mkdir()
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        for member in tar.getmembers():
            if member.isfile() and not Path(member.name).is_absolute() and ".." not in Path(member.name).parts:
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = tar.extractfile(member)
                if source is not None:
                    target.write_bytes(source.read())
    return read_pack(folder, compiled=False)
