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


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy resolve`."""
    parser.add_argument("words", nargs="*", metavar="FUSION|FILE", help="fusions to decide (all where left out), and files that hold launches")
    common.add_inputs(parser)
    common.add_decision(parser)
    common.add_pack(parser)
    parser.add_argument("--mode", choices=MODES, help="also set FUSION_POLICY_MODE for the plug-in; `fail` ends with 1 where anything would have to change")
    parser.add_argument("--format", choices=("text", "json", "diff", "json-patch", "kustomize"), help="default: the command for a command, a unified diff for a file")
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
    read = common.read_inputs(pack, options, files)
    verdicts = [common.decided(pack, one, options, fusions) for one in read]
    resolutions = [resolve(pack, one, verdict, _reader(options, one), options.mode) for one, verdict in zip(read, verdicts, strict=True)]
    for resolution in resolutions:
        _talk(resolution)
    code = _file(options, files[0], resolutions) if files else _command(resolutions[0], options)
    if options.mode == "fail" and any(resolution.changed for resolution in resolutions):
        return common.FINDING
    return code or common.ending(verdicts, options, pack)


def _reader(options: argparse.Namespace, read: ReadLaunch) -> Any:
    def files(name: str) -> str | None:
        if read.found is not None and name in read.found.files:
            return read.found.files[name]
        return text_of(name)[0] if options.launch and name != "-" else None

    return files


def _talk(resolution: Resolution) -> None:
    """What is changed and why, on the standard error."""
    for decision in resolution.verdict.decisions:
        changes = [change for fusion, change in resolution.changes if fusion == decision.fusion]
        if changes:
            print(headline(decision), file=sys.stderr)
    if resolution.result.problem:
        print(f"policy: {resolution.result.problem}", file=sys.stderr)


def _command(resolution: Resolution, options: argparse.Namespace) -> int:
    if options.format in ("diff", "json-patch", "kustomize") or options.write:
        raise UsageError("a command is printed, not patched", "name a file for that")
    if options.format == "json":
        json.dump(as_json(resolution), sys.stdout, indent=1)
        print()
    else:
        print(resolution.command())
    return common.USAGE if resolution.result.problem else common.OK


def as_json(resolution: Resolution) -> dict[str, Any]:
    """A resolution with stable keys."""
    return {
        "schema_version": 1,
        "name": resolution.name,
        "command": resolution.result.words,
        "environment": resolution.environment,
        "changes": [{"fusion": fusion, "setting": change.path, "value": change.value, "kind": "env" if change.variable else "flag"} for fusion, change in resolution.changes],
        "problem": resolution.result.problem,
        "decisions": [{"fusion": decision.fusion, "state": decision.state, "digest": decision.digest} for decision in resolution.verdict.decisions],
    }


# --- files ---


def _file(options: argparse.Namespace, name: str, resolutions: list[Resolution]) -> int:
    if options.format == "json":
        json.dump([as_json(resolution) for resolution in resolutions], sys.stdout, indent=1)
        print()
        return common.OK
    if options.format == "text":
        for resolution in resolutions:
            print(resolution.command())
        return common.OK
    text, problems = text_of(name)
    if text is None:
        raise LaunchError(problems)
    changed, problems = patched(text, name, [wanted(resolution) for resolution in resolutions])
    _show(options, name, text, changed)
    for number, problem in problems.items():
        resolution = resolutions[number]
        print(f"policy: {name}: {resolution.name or f'launch {number + 1}'}: {problem}; the command should be:", file=sys.stderr)
        print(f"  {resolution.command()}", file=sys.stderr)
    return common.USAGE if problems or any(resolution.result.problem for resolution in resolutions) else common.OK


def wanted(resolution: Resolution) -> Wanted:
    """What the file's launch is to become."""
    return Wanted(resolution.engine, resolution.version, tuple(resolution.flags), resolution.environment)


def _show(options: argparse.Namespace, name: str, old: str, new: str) -> None:
    if options.format in ("json-patch", "kustomize"):
        _manifest(options.format, old, new)
    elif options.write:
        if old != new:
            Path(name).write_text(new, encoding="utf-8")
            print(f"{name}: written", file=sys.stderr)
    else:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}"))


def _manifest(kind: str, old: str, new: str) -> None:
    import yaml

    def loads(text: str) -> list[Any]:
        return list(yaml.safe_load_all(text))

    patches = manifest_patches(old, new, loads)
    if kind == "json-patch":
        json.dump([operation for _, operations in patches for operation in operations] if len(patches) < 2 else [{"target": target, "patch": operations} for target, operations in patches], sys.stdout, indent=1)
        print()
        return
    entries = [{"target": target, "patch": yaml.safe_dump(operations, sort_keys=False)} for target, operations in patches]
    sys.stdout.write(yaml.safe_dump({"patches": entries}, sort_keys=False))


