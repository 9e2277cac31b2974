"""`policy exec`: decide, log, and run the launch with what is decided written into it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys

from policy.commands import common
from policy.commands.resolve import as_json
from policy.launchers.child import run_command
from policy.launchers.inputs import text_of
from policy.launchers.resolve import MODES, Resolution, resolve
from policy.problems import UsageError

EXAMPLE = "policy exec --mode enforce -- vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 -pp 2"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy exec`."""
    common.add_inputs(parser)
    common.add_decision(parser)
    common.add_pack(parser)
    parser.add_argument("--mode", choices=MODES, default="enforce", help="advise: log and run as given; enforce: run as decided; fail: run only where nothing has to change (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=300.0, metavar="SECONDS", help="how long the plug-in may take to report (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Run the command; its exit code is this one's. 1 where `--mode fail` or `--fail-on` stops it before it starts."""
    common.wanted_kinds(options)
    if not options.launch:
        raise UsageError("there is no command to run", "write it after `--`")
    pack = common.load(options)
    read = common.read_inputs(pack, options, [])[0]
    verdict = common.decided(pack, read, options, None)
    resolution = resolve(pack, read, verdict, lambda name: text_of(name)[0] if name != "-" else None, options.mode)
    _log(resolution, options.mode)
    code = common.ending([verdict], options, pack)
    if code:
        return code
    if options.mode == "fail" and resolution.changed:
        print("policy: the launch would have to change; `policy resolve` shows how", file=sys.stderr)
        return common.FINDING
    words = [word.text for word in read.found.words] if read.found else []
    environment = {name: word.text for name, word in read.found.environment.items()} if read.found else {}
    if options.mode == "enforce":
        if resolution.result.problem:
            print(f"policy: {resolution.result.problem}", file=sys.stderr)
            return common.USAGE
        words, environment = resolution.result.words, {**environment, **resolution.environment}
    else:
        environment = {**environment, **resolution.companions}
    expects = read.found is not None and any(product.name == read.found.engine for product in pack.products.values()) and _plugin_expected(environment)
    return run_command(words, environment, expects, lambda message: print(f"policy: {message}", file=sys.stderr, flush=True), options.patience)


def _plugin_expected(environment: dict[str, str]) -> bool:
    """Whether the engine, if it is installed beside this program, would load the plug-in."""
    from policy.launchers.installed import installed_versions

    return bool(environment.get("FUSION_POLICY_MODE") or os.environ.get("FUSION_POLICY_MODE")) and "fusion-policy" in installed_versions() and shutil.which("policy") is not None


def _log(resolution: Resolution, mode: str) -> None:
    """One structured line a decision that changes something, and one for the launch."""
    data = as_json(resolution)
    for decision in resolution.verdict.decisions:
        changes = [change for change in data["changes"] if change["fusion"] == decision.fusion]
        if changes or decision.conflict:
            record = {"event": "fusion-policy", "mode": mode, "fusion": decision.fusion, "state": decision.state, "reason": decision.reason.id, "changes": changes, "conflict": decision.conflict, "digest": decision.digest}
            print(json.dumps(record), file=sys.stderr, flush=True)
