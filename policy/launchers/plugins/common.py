"""What the plug-ins share: the mode, the decision, one structured log line, and the report that `policy exec` awaits."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from policy.decision import Decision, Verdict
from policy.evaluate import evaluate
from policy.facts import ValueProblem
from policy.launch import Launch
from policy.launchers.child import REPORT_VARIABLE
from policy.launchers.installed import flashinfer_traits, installed_versions
from policy.launchers.machine import machine_facts
from policy.load import read_pack
from policy.origin import Origin
from policy.pack import Pack, Product

MODE_VARIABLE = "FUSION_POLICY_MODE"
POSTURE_VARIABLE = "FUSION_POLICY_POSTURE"
PACK_VARIABLE = "FUSION_POLICY_PACK"
MODES = ("advise", "enforce", "fail")

logger = logging.getLogger("fusion_policy")


class RefusedLaunchError(RuntimeError):
    """Mode fail: the launch would have to change."""


def mode() -> str | None:
    """The mode that is set; None where the plug-in is to do nothing. An unknown word is said and taken for advise."""
    word = os.environ.get(MODE_VARIABLE, "").strip().lower()
    if word in ("", "off", "0"):
        return None
    if word not in MODES:
        logger.warning("fusion-policy: %s=%s is none of %s; only advising", MODE_VARIABLE, word, ", ".join(MODES))
        return "advise"
    return word


def report(engine: str, version: str, state: str) -> None:
    """Tell `policy exec` that the plug-in was loaded."""
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        try:
            with open(path, "a", encoding="utf-8") as stream:
                stream.write(json.dumps({"engine": engine, "version": version, "pid": os.getpid(), "state": state}) + "\n")
        except OSError as error:
            logger.warning("fusion-policy: the report at %s cannot be written: %s", path, error)


def the_pack() -> Pack:
    """The pack of `FUSION_POLICY_PACK`, or the one that comes with the package."""
    return read_pack(os.environ.get(PACK_VARIABLE) or None)


def supported(pack: Pack, product: Product, version: str) -> bool:
    """Whether the release is one whose gates were read."""
    fact = pack.fact(product.version_fact)
    assert fact is not None
    try:
        values = fact.values(version, product.releases)
    except ValueProblem:
        return False
    single = values.single()
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
        """The packages and devices of this node, read without torch."""
        versions = installed_versions()
        for name in ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache", "torch"):
            held = versions.get(name)
            self.state(f"packages.{name}", held[0] if held else "absent", Origin("probe", "installed metadata"))
        for fact, value, file in flashinfer_traits():
            self.state(fact, value, Origin("probe", "source", file))
        for fact, value, origin in machine_facts():
            self.state(fact, value, origin)

    def environment(self, product: Product, variables: Mapping[str, str]) -> None:
        """What the engine's own environment variables say."""
        for name, maps in product.environment.items():
            for one in maps if name in variables else ():
                self.state(one.fact, one.fact_value(variables[name]), Origin("environment", name))

    def decide(self, fusion: str | None = None) -> Verdict:
        """The verdict, under the posture of `FUSION_POLICY_POSTURE` (safe where it is not set)."""
        posture = os.environ.get(POSTURE_VARIABLE, "safe")
        return evaluate(self.pack, self.launch, posture if posture in ("safe", "fast") else "safe", [fusion] if fusion else None)


def log_decision(engine: str, version: str, chosen_mode: str, decision: Decision, before: Any, after: Any) -> None:
    """One structured line: a warning where it changes or would change what the engine does."""
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
    logger.log(logging.WARNING if before != after or decision.conflict else logging.INFO, "%s", json.dumps(record, default=str))
