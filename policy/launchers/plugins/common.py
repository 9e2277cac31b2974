"""What the plug-ins share: the mode, the decision, one structured log line, and the report that `policy exec` awaits."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from policy.decision import Decision, Verdict
from policy.evaluate import evaluate
from policy.facts import ValueProblem
from policy.launch import Launch
from policy.launchers.inputs import state_facts_file
from policy.launchers.installed import flashinfer_traits, installed_versions
from policy.launchers.machine import machine_facts
from policy.launchers.variables import BUILDER_VARIABLE, MODE_VARIABLE, MODES, REPORT_VARIABLE, mode_word
from policy.origin import Origin
from policy.pack import Pack, Product
from policy.private_packs import added_by_environment, read_packs
from policy.problems import PolicyError
from policy.versions import shown

POSTURE_VARIABLE = "FUSION_POLICY_POSTURE"
PACK_VARIABLE = "FUSION_POLICY_PACK"
#: A facts file, or a report of `policy facts`: what this node cannot see itself, such as the GPUs of the workers.
FACTS_VARIABLE = "FUSION_POLICY_FACTS"
#: What an engine runs into where a fusion is left on that must be off.
HARMFUL = ("hang", "wrong_numbers", "crash", "partly_fused")

logger = logging.getLogger("fusion_policy")


class RefusedLaunchError(RuntimeError):
    """Mode fail: the launch would have to change. Mode enforce: the engine did not take a change over."""


def mode() -> str | None:
    """The mode that is set; None where the plug-in is to do nothing. An unknown word is said and taken for advise."""
    word = mode_word(os.environ)
    if not word:
        return None
    if word not in MODES:
        logger.warning("fusion-policy: %s=%s is none of %s; only advising", MODE_VARIABLE, word, ", ".join(MODES))
        return "advise"
    return word


def speak() -> None:
    """Make the log lines visible where nobody configured logging for them: on the standard error, one record a line."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.handlers:
        handler = _LastResort(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)


class _LastResort(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes only for as long as nobody else does: engines configure logging after they have loaded plug-ins."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record where the root has no handler of its own."""
        if not logging.getLogger().handlers:
            super().emit(record)


def report(engine: str, version: str, state: str) -> None:
    """Tell `policy exec` that the plug-in was loaded."""
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        try:
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(json.dumps({"engine": engine, "version": version, "pid": os.getpid(), "state": state}) + "\n")
        except OSError as error:
            logger.warning("fusion-policy: the report at %s cannot be written: %s", path, error)


def the_pack() -> Pack | None:
    """The pack of `FUSION_POLICY_PACK`, or the one that comes with the package, with those that are added to it. One that cannot be used is said, and stops
    a launch only where the mode is fail."""
    try:
        return read_packs(os.environ.get(PACK_VARIABLE) or None, added_by_environment())
    except PolicyError as error:
        if mode() == "fail":
            raise
        logger.error("fusion-policy: the pack cannot be used, nothing is done: %s", error)
        return None


def supported(pack: Pack | None, name: str, title: str, version: str) -> Product | None:
    """The engine, where the release is one whose gates were read; else that is said, and the plug-in does nothing."""
    if pack is None:
        report(name, version, "no pack")
        return None
    product = pack.engine(name)
    if product is not None and _was_read(pack, product, version):
        return product
    read = (
        f" ({shown(product.releases[0])} to {shown(product.through)} were)" if product is not None and product.releases and product.through is not None else ""
    )
    logger.warning("fusion-policy: %s %s was not read%s; nothing is done", title, version, read)
    report(name, version, "unsupported")
    return None


def _was_read(pack: Pack, product: Product, version: str) -> bool:
    fact = pack.fact(product.version_fact)
    assert fact is not None
    try:
        single = fact.values(version, product.releases).single()
    except ValueProblem:
        return False
    return single is not None and product.through is not None and bool(product.releases) and product.releases[0] <= single <= product.through


class Statement:
    """Collects facts of a launch in the engine's process; what a fact cannot be is left out and logged."""

    def __init__(self, pack: Pack) -> None:
        self.pack, self.launch = pack, Launch()

    def state(self, name: str, value: Any, origin: Origin) -> None:
        """State one fact if the pack knows it and the value is one that it can have."""
        if value is None or self.pack.fact(name) is None:
            return
        try:
            self.launch.state(self.pack, name, value, origin)
        except ValueProblem as problem:
            logger.debug("fusion-policy: %s", problem)

    def machine(self) -> None:
        """The packages and devices of this node, read without torch, and what was told about others."""
        self.told()
        versions = installed_versions()
        for name in ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "torch"):
            held = versions.get(name)
            self.state(f"packages.{name}", held[0] if held else "absent", Origin("probe", "installed metadata"))
        for fact, value, file in flashinfer_traits():
            self.state(fact, value, Origin("probe", "source", file))
        try:
            for fact, value, origin in machine_facts():
                self.state(fact, value, origin)
        except Exception as error:  # a driver that answers oddly is no reason to stop a launch
            logger.warning("fusion-policy: this machine could not be looked at (%s: %s)", type(error).__name__, error)

    def told(self) -> None:
        """What the file of `FUSION_POLICY_FACTS` says; its defects are logged."""
        name = os.environ.get(FACTS_VARIABLE)
        for problem in state_facts_file(self.pack, self.launch, name) if name else ():
            logger.warning("fusion-policy: %s", problem.render())

    def environment(self, product: Product, variables: Mapping[str, str]) -> None:
        """What the engine's own environment variables say; who builds is told apart, since it takes more than a variable."""
        for name, maps in product.environment.items():
            for one in maps if name in variables and name != BUILDER_VARIABLE else ():
                self.state(one.fact, one.fact_value(variables[name]), Origin("environment", name))

    def decide(self) -> Verdict:
        """The verdict, under the posture of `FUSION_POLICY_POSTURE` (safe where it is not set)."""
        posture = os.environ.get(POSTURE_VARIABLE, "safe")
        return evaluate(self.pack, self.launch, posture if posture in ("safe", "fast") else "safe")


def harmful(pack: Pack, decision: Decision) -> bool:
    """Whether an "off" saves the engine, which has the fusion on, from harm."""
    alone = decision.left_alone
    if decision.state != "off":
        return False
    if alone.built in HARMFUL or alone.state == "dies" or (decision.conflict and alone.built == "unknown"):
        return True
    rule = pack.rules.get(decision.reason.id)
    return alone.built == "unknown" and rule is not None and rule.consequence in HARMFUL


def log_decision(engine: str, version: str, chosen_mode: str, decision: Decision, before: Any, after: Any) -> None:
    """One structured line: a warning where it changes or would change what the engine does or contradicts what was asked."""
    record = {
        "event": "fusion-policy",
        "engine": f"{engine} {version}",
        "mode": chosen_mode,
        "fusion": decision.fusion,
        "state": decision.state,
        "reason": decision.reason.id or decision.reason.kind,
        "plan": decision.chosen.id if decision.chosen else None,
        "engine_value": before,
        "value": after,
        "conflict": decision.conflict,
        "unknown": list(decision.unknown_facts),
        "digest": decision.digest,
    }
    changes = before != after or decision.conflict
    # what is off either way is nobody's news
    level = logging.WARNING if changes else logging.DEBUG if decision.state == "off" and decision.left_alone.state == "off" else logging.INFO
    logger.log(level, "%s", json.dumps(record, default=str))
