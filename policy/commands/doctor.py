"""`policy doctor`: is the plug-in there and loaded, do versions match, is a compiler there, what is not known."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from policy.commands import common
from policy.evaluate import Evaluation
from policy.launch import Facts
from policy.launchers.found import FoundLaunch
from policy.launchers.installed import installed_versions
from policy.launchers.plugins.groups import NAME, group_of
from policy.launchers.read import read_launch
from policy.launchers.variables import MODE_VARIABLE, MODES
from policy.pack import Pack, did_you_mean
from policy.versions import shown

EXAMPLE = "policy doctor"
#: Facts that decide most often and that a machine may not tell.
ASKED = ("device.compute_capability", "device.interconnect", "device.multicast", "packages.flashinfer-python")


def add(parser: argparse.ArgumentParser) -> None:
    """The options of `policy doctor`."""
    common.add_pack(parser)


def run(options: argparse.Namespace) -> int:
    """Print one line a check, with what to do where it fails; exit 1 where one does."""
    pack = common.load(options)
    paint = common.painter()
    failed = 0
    for good, text, remedy in checks(pack):
        word, colour = {True: ("ok", "green"), False: ("fix", "red"), None: ("note", "yellow")}[good]
        failed += good is False
        print(f"{paint(word.ljust(4), colour)} {text}")
        if remedy and good is not True:
            print(f"     {remedy}")
    return common.FINDING if failed else common.OK


Check = tuple[bool | None, str, str]


def checks(pack: Pack) -> Iterator[Check]:
    """Every check: good, bad, or worth a note; what was seen; what to do."""
    yield from _shadow()
    versions = installed_versions()
    engines = [product for product in pack.products.values() if product.role == "engine" and product.package.replace("_", "-") in versions]
    if not engines:
        yield None, "no engine that is known is installed here", "run this where the engine is installed: inside its image or environment"
    for product in engines:
        version = versions[product.package.replace("_", "-")][0]
        yield from _plugin(product.name, product.title, version)
        yield from _launch(pack, product.name, product.title, version)
    yield from _compiler()


def _shadow() -> Iterator[Check]:
    """A module of the same name that the engine's processes would find first: on the path, or where they are started."""
    here = Path(__file__).resolve().parents[1]
    started = [] if os.environ.get("PYTHONSAFEPATH") else ["."]
    candidates = (Path(folder or ".") / name for folder in (*started, *sys.path) for name in ("policy/__init__.py", "policy.py"))
    first = next((candidate for candidate in candidates if candidate.is_file()), None)
    if first is None or first.resolve().parent == here:
        yield True, f"`policy` is {here}", ""
    else:
        yield False, f"the module {first} has the name of this package", "rename it, or set PYTHONSAFEPATH=1 for the engine's processes"


def _plugin(engine: str, title: str, version: str) -> Iterator[Check]:
    group = group_of(engine, version)
    if group is None:
        yield None, f"{title} {version} loads no plug-ins", "start it with `policy exec -- COMMAND`, which writes what is decided into the command"
        return
    offered = [point for point in importlib.metadata.entry_points(group=group.group) if point.name == NAME]
    there = "installed" if offered else "not installed"
    yield bool(offered), f"{title} {version}: the plug-in is {there} in this environment", "python -m pip install fusion-policy, with the engine's own Python"
    listed = os.environ.get(group.variable)
    if listed is not None and NAME not in [name.strip() for name in listed.split(",")]:
        yield False, f"{group.variable}={listed} hides the plug-in", f"export {group.variable}={listed + ',' if listed else ''}{NAME}"
    if offered:
        try:
            offered[0].load()
            yield True, f"{title} can load the plug-in", ""
        except Exception as error:
            yield False, f"{title} cannot load the plug-in: {error}", "engines log such errors and go on without it"
    mode = os.environ.get(MODE_VARIABLE)
    if mode and mode not in MODES:
        yield False, f"{MODE_VARIABLE}={mode} is none of {', '.join(MODES)}", did_you_mean(mode, MODES) or f"export {MODE_VARIABLE}=enforce"
    else:
        yield (True if mode else None), f"{MODE_VARIABLE} is {mode or 'not set: the plug-in does nothing'}", f"export {MODE_VARIABLE}=enforce (or advise, fail)"


def _launch(pack: Pack, engine: str, title: str, version: str) -> Iterator[Check]:
    """What the launch-level rules say of this environment alone: companions, Python, windows of versions."""
    product = pack.products[engine]
    if product.through is not None:
        fact = pack.fact(product.version_fact)
        values = fact.values(version, product.releases) if fact is not None else None
        single = values.single() if values is not None else None
        if single is not None and single > product.through:
            known = f"what was read ({shown(product.through)})"
            yield None, f"{title} {version} is newer than {known}: its gates and traits are not known, and the plug-in does nothing", "update fusion-policy"
    read = read_launch(pack, FoundLaunch(engine), version, None, True, os.environ)
    state = Evaluation(Facts(pack, read.launch), "safe").launch_state()
    for one in state.findings:
        rule = pack.rules.get(one.id)
        yield (False if one.effect == "refuse" else None), f"{one.id}: {one.title}", rule.fix if rule else ""
    facts = Facts(pack, read.launch)
    for name in (name for name in ASKED if not _known(pack, facts, name)):
        declared = pack.fact(name)
        yield None, f"{name} is not known here", declared.find_out if declared else ""


def _known(pack: Pack, facts: Facts, name: str) -> bool:
    fact = pack.fact(name)
    return fact is not None and fact.known(facts.values(name))


def _compiler() -> Iterator[Check]:
    prebuilt = "flashinfer-jit-cache" in installed_versions()
    for program in ("nvcc", "ninja"):
        there = shutil.which(program) or (program == "nvcc" and Path("/usr/local/cuda/bin/nvcc").is_file())
        text = f"{program} is {'there' if there else 'not found'}" + (" (kernels are prebuilt)" if prebuilt and not there else "")
        yield (True if there else None if prebuilt else False), text, "install it, or flashinfer-jit-cache: without it FlashInfer compiles nothing"
