"""`policy exec`: decide, log, and run the launch with what is decided written into it."""

from __future__ import annotations

import argparse
import json
import os
import sys

from policy.commands import common
from policy.commands.resolve import as_json
from policy.launchers.child import run_command
from policy.launchers.inputs import text_of
from policy.launchers.plugins.groups import group_of
from policy.launchers.resolve import Resolution, resolve
from policy.launchers.variables import MODE_VARIABLE, MODES
from policy.problems import UsageError

EXAMPLE = "policy exec --mode enforce -- vllm serve meta-llama/Llama-3.1-70B-Instruct -tp 2 -pp 2"
MODE_HELP = "advise: log and run as given; enforce: run as decided; fail: run only where nothing has to change (default: %(default)s)"


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy exec`."""
    common.add_inputs(parser)
    common.add_decision(parser)
    common.add_pack(parser)
    parser.add_argument("--mode", choices=MODES, default="enforce", help=MODE_HELP)
    parser.add_argument("--patience", type=float, default=300.0, metavar="SECONDS", help="how long the plug-in may take to report (default: %(default)s)")


def run(options: argparse.Namespace) -> int:
    """Run the command; its exit code is this one's. 1 where `--mode fail`, `--require` or `--fail-on` stops it before it starts."""
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
        _warn("the launch would have to change; `policy resolve` shows how")
        return common.FINDING
    if options.mode == "enforce" and resolution.result.problem:
        _warn(resolution.result.problem)
        return common.USAGE
    assert read.found is not None
    given = {name: word.text for name, word in read.found.environment.items()}
    if options.mode == "enforce":
        words, environment = resolution.result.words, {**given, **resolution.environment}
    else:
        words, environment = [word.text for word in read.found.words], {**given, **resolution.companions}
    return run_command(words, environment, _plugin_expected(resolution, environment), _warn, options.patience)


def _warn(message: str) -> None:
    print(f"policy: {message}", file=sys.stderr, flush=True)


def _plugin_expected(resolution: Resolution, environment: dict[str, str]) -> bool:
    """Whether this release of the engine would load the plug-in, and the plug-in would do something."""
    mode = environment.get(MODE_VARIABLE) or os.environ.get(MODE_VARIABLE)
    return bool(mode) and group_of(resolution.engine, resolution.version) is not None


def _log(resolution: Resolution, mode: str) -> None:
    """One structured line for each decision that changes something or contradicts what was asked."""
    changes = as_json(resolution)["changes"]
    for decision in resolution.verdict.decisions:
        mine = [change for change in changes if change["fusion"] == decision.fusion]
        if not mine and not decision.conflict:
            continue
        record = {
            "event": "fusion-policy",
            "mode": mode,
            "fusion": decision.fusion,
            "state": decision.state,
            "reason": decision.reason.id or decision.reason.kind,
            "changes": mine,
            "conflict": decision.conflict,
            "digest": decision.digest,
        }
        print(json.dumps(record), file=sys.stderr, flush=True)
