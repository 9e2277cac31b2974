"""`policy resolve`: the launch with what is decided written into it, as a command, a diff or a patch."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from pathlib import Path
from typing import Any

from policy.commands import common
from policy.explain import headline
from policy.launchers.inputs import text_of
from policy.launchers.patching import Wanted, patched
from policy.launchers.patching.manifests import manifest_patches
from policy.launchers.read import ReadLaunch
from policy.launchers.resolve import MODES, Resolution, resolve
from policy.problems import LaunchError, UsageError

EXAMPLE = "policy resolve -- vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 -pp 2"
FORMATS = ("text", "json", "diff", "json-patch", "kustomize")
PATCHES = ("diff", "json-patch", "kustomize")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy resolve`."""
    parser.add_argument("words", nargs="*", metavar="FUSION|FILE", help="fusions to decide (all where left out), and files that hold launches")
    common.add_inputs(parser)
    common.add_decision(parser)
    common.add_pack(parser)
    parser.add_argument("--mode", choices=MODES, help="also set FUSION_POLICY_MODE for the plug-in; `fail` ends with 1 where anything would have to change")
    parser.add_argument("--format", choices=FORMATS, help="default: the command for a command, a unified diff for a file")
    parser.add_argument("--write", action="store_true", help="change the file")


def run(options: argparse.Namespace) -> int:
    """Print what the launch should be; nothing is changed without --write."""
    common.wanted_kinds(options)
    pack = common.load(options)
    fusions, files = common.split_words(pack, options.words)
    if files and (options.launch or len(files) > 1):
        raise UsageError("resolve takes one file, or one command after `--`", "call it once for each")
    if not files and not options.launch:
        raise UsageError("there is no launch to resolve", "write one after `--`, or name a file")
    if options.write and (files == ["-"] or options.format not in (None, "diff")):
        raise UsageError("`--write` changes a file in place", "name one file, and leave `--format` out", "--write")
    if not files and (options.format in PATCHES or options.write):
        raise UsageError("a command is printed, not patched", "name a file for that")
    text = _text(files[0]) if files and options.format not in ("json", "text") else ""
    read = common.read_inputs(pack, options, files)
    verdicts = [common.decided(pack, one, options, fusions) for one in read]
    resolutions = [resolve(pack, one, verdict, _reader(options, one), options.mode) for one, verdict in zip(read, verdicts, strict=True)]
    for resolution in resolutions:
        _talk(resolution)
    if files and options.format not in ("json", "text"):
        code = _file(options, files[0], text, resolutions)
    else:
        code = _print(options.format, resolutions, bool(files))
    if options.mode == "fail" and any(resolution.changed for resolution in resolutions):
        return common.FINDING
    return code or common.ending(verdicts, options, pack)


def _text(name: str) -> str:
    text, problems = text_of(name)
    if text is None:
        raise LaunchError(problems)
    if name == "-":
        raise UsageError("the standard input cannot be patched", "name the file, or use `--format text`")
    return text


def _reader(options: argparse.Namespace, read: ReadLaunch) -> Any:
    def files(name: str) -> str | None:
        if read.found is not None and name in read.found.files:
            return read.found.files[name]
        return text_of(name)[0] if options.launch and name != "-" else None

    return files


def _talk(resolution: Resolution) -> None:
    """What is changed and why, on the standard error."""
    for decision in resolution.verdict.decisions:
        if any(fusion == decision.fusion for fusion, _ in resolution.changes):
            print(headline(decision), file=sys.stderr)
        for warning in decision.warnings:
            print(f"{decision.fusion}: {warning.title}", file=sys.stderr)
    if resolution.result.problem:
        print(f"policy: {resolution.result.problem}", file=sys.stderr)


def _print(kind: str | None, resolutions: list[Resolution], many: bool) -> int:
    """The commands, or everything as JSON."""
    if kind == "json":
        data = [as_json(resolution) for resolution in resolutions]
        json.dump(data if many else data[0], sys.stdout, indent=1)
        print()
    else:
        for resolution in resolutions:
            print(resolution.command())
    return common.USAGE if any(resolution.result.problem for resolution in resolutions) else common.OK


def as_json(resolution: Resolution) -> dict[str, Any]:
    """A resolution with stable keys."""
    changes = [(fusion, change, "env" if change.variable else "flag") for fusion, change in resolution.changes]
    return {
        "schema_version": 1,
        "name": resolution.name,
        "command": resolution.result.words,
        "environment": resolution.environment,
        "changes": [{"fusion": fusion, "setting": change.path, "value": change.value, "kind": kind} for fusion, change, kind in changes],
        "problem": resolution.result.problem,
        "decisions": [{"fusion": decision.fusion, "state": decision.state, "digest": decision.digest} for decision in resolution.verdict.decisions],
    }


# --- files ---


def _file(options: argparse.Namespace, name: str, text: str, resolutions: list[Resolution]) -> int:
    wishes = [Wanted(one.engine, one.version, tuple(one.flags), one.environment) for one in resolutions]
    changed, unwritten = patched(text, name, wishes)
    _show(options, name, text, changed)
    for number, reason in unwritten.items():
        resolution = resolutions[number]
        print(f"policy: {name}: {resolution.name or f'launch {number + 1}'}: {reason}; the command should be:", file=sys.stderr)
        print(f"  {resolution.command()}", file=sys.stderr)
    return common.USAGE if unwritten or any(resolution.result.problem for resolution in resolutions) else common.OK


def _show(options: argparse.Namespace, name: str, old: str, new: str) -> None:
    if options.format in ("json-patch", "kustomize"):
        _manifest(options.format, old, new)
    elif options.write:
        if old != new:
            file = Path(name)
            marked = file.read_bytes().startswith(b"\xef\xbb\xbf")
            file.write_text(new, encoding="utf-8-sig" if marked else "utf-8", newline="")
            print(f"{name}: written", file=sys.stderr)
    else:
        sys.stdout.writelines(_diff(name, old, new))


def _diff(name: str, old: str, new: str) -> list[str]:
    """A unified diff that `git apply` and `patch` take."""
    path = name.removeprefix("./").lstrip("/")
    lines = []
    for line in difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"):
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return lines


def _manifest(kind: str, old: str, new: str) -> None:
    import yaml

    def loads(text: str) -> list[Any]:
        return list(yaml.safe_load_all(text))

    patches = manifest_patches(old, new, loads)
    if kind == "json-patch":
        data = (
            [{"target": target, "patch": operations} for target, operations in patches]
            if len(patches) > 1
            else [one for _, operations in patches for one in operations]
        )
        json.dump(data, sys.stdout, indent=1)
        print()
        return
    entries = [{"target": target, "patch": yaml.safe_dump(operations, sort_keys=False)} for target, operations in patches]
    sys.stdout.write(yaml.safe_dump({"patches": entries}, sort_keys=False))
