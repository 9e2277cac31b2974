"""`policy resolve`: the launch with what is decided written into it, as a command, a diff or a patch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from policy.commands import common
from policy.explain import headline
from policy.findings import about, undetermined
from policy.launchers.inputs import text_of
from policy.launchers.patching import Wanted, patched
from policy.launchers.patching.files import unified, whole_text, write_whole
from policy.launchers.patching.manifests import documents_of, kustomize_text, manifest_patches
from policy.launchers.read import ReadLaunch
from policy.launchers.resolve import Resolution, resolve
from policy.launchers.variables import MODES
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
    fusions = common.with_required(fusions, options, pack)
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
    _talk(resolutions)
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
    return whole_text(name)


def _reader(options: argparse.Namespace, read: ReadLaunch) -> Any:
    def files(name: str) -> str | None:
        if read.found is not None and name in read.found.files:
            return read.found.files[name]
        return text_of(name)[0] if options.launch and name != "-" else None

    return files


def _talk(resolutions: list[Resolution]) -> None:
    """What is changed and why, and what is left as it is, on the standard error."""
    lines: dict[str, None] = {}
    for number, resolution in enumerate(resolutions, 1):
        label = f"{resolution.name or f'launch {number}'}: " if len(resolutions) > 1 else ""
        lines.update(dict.fromkeys(f"{label}{line}" for line in _said(resolution)))
    for line in lines:
        print(line, file=sys.stderr)


def _said(resolution: Resolution) -> Iterator[str]:
    verdict = resolution.verdict
    changed = {fusion for fusion, _ in resolution.changes}
    for decision in verdict.decisions:
        if decision.fusion in changed or decision.conflict:
            yield headline(decision)
        for warning in decision.warnings:
            yield about(decision, warning)
    yield from (one.title for one in verdict.launch.findings if one.effect == "warn" or (one.effect == "refuse" and not resolution.result.problem))
    for fusion, other in resolution.held_back.items():
        yield f"{fusion} is left as it is: one setting decides it and {other}, which has to be off"
    left = undetermined([decision for decision in verdict.decisions if decision.state == "undetermined"])
    if left is not None:
        yield f"left as they are: {left[0]}"
    if resolution.result.problem:
        yield f"policy: {resolution.result.problem}"
    elif not changed and not resolution.companions and verdict.posture != "audit":
        yield "nothing is changed"


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
        "environment": {**resolution.given, **resolution.environment},
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
        _manifest(options.format, name, old, new)
    elif options.write:
        if old != new:
            write_whole(name, new)
            print(f"{name}: written", file=sys.stderr)
    else:
        _put("".join(unified(name, old, new)))


def _put(text: str) -> None:
    """A patch names the bytes of a file, whatever the terminal's encoding is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _manifest(kind: str, name: str, old: str, new: str) -> None:
    """Print the difference as patches. Raises `UsageError` for a file that no such patch can be applied to."""
    before, after = documents_of(old), documents_of(new)
    if before is None or after is None:
        raise UsageError(f"{name} holds no YAML documents that a patch could be applied to", "leave `--format` out for a diff", "--format")
    patches = manifest_patches(before, after, kind == "kustomize")
    if kind == "kustomize":
        if any("kind" not in target or "name" not in target for target, _ in patches):
            raise UsageError(f"{name} has no kind and name by which kustomize finds a resource", "leave `--format` out for a diff", "--format")
        _put(kustomize_text(patches))
        return
    data: list[Any] = [{"target": target, "patch": operations} for target, operations in patches]
    if len(patches) <= 1:
        data = [one for _, operations in patches for one in operations]
    json.dump(data, sys.stdout, indent=1, default=str)
    print()
