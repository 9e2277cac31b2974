"""What the doors share: read the decision, settle, and set the outcome in the engine."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from policy.launchers.variables import REPORT_VARIABLE, adapter_builds
from policy.runtime.data import product, valid_at
from policy.runtime.engines.handover import Handover
from policy.runtime.library import Library
from policy.runtime.machine import Machine, package_versions
from policy.runtime.plan import FUSED, FUSION, Consumer, Deadline, Decision, RuntimeRequestError
from policy.runtime.settle import Settled, settle

DECISION, DEADLINE = "FUSION_POLICY_DECISION", "FUSION_POLICY_DEADLINE"
logger = logging.getLogger("fusion_policy")


def decision_given() -> Decision | None:
    """The decision in FUSION_POLICY_DECISION (JSON, or the path of a stored one); None where the variable is not set."""
    text = os.environ.get(DECISION, "")
    if not text:
        return None
    try:
        document = json.loads(text if text.lstrip()[:1] in ("{", "[") else Path(text).read_text(encoding="utf-8"))
        return Decision.from_json(document)
    except (OSError, ValueError, LookupError) as error:
        # a rank that cannot read it must still vote, or the others wait for it
        return Decision("unreadable", "off", None, f"{DECISION} cannot be read: {error}")


def deadline_given() -> Deadline:
    """The deadline of FUSION_POLICY_DEADLINE; the usual one where it says nothing usable."""
    text = os.environ.get(DEADLINE, "")
    try:
        return Deadline(float(text)) if text else Deadline()
    except ValueError:  # a rank that stopped here would keep the others waiting
        logger.warning("fusion-policy: %s=%s is no number of seconds; %s are taken", DEADLINE, text, Deadline().total)
        return Deadline()


def wanted() -> bool:
    """Whether the adapter is to act in this process: a decision is there, or should be."""
    return bool(os.environ.get(DECISION)) or adapter_builds(os.environ)


def knows(engine: str, version: str) -> bool:
    """Whether the adapter can act in this release of an engine."""
    try:
        data = product(engine)
    except RuntimeRequestError:
        return False
    return valid_at(data["commit"], version, data["through"]) is not None


class Door:
    """One engine's release: where to act and what `unfused` is there. `machine` and `library` are probed where not given."""

    def __init__(self, engine: str, version: str | None = None, machine: Machine | None = None, library: Library | None = None) -> None:
        self.data = product(engine)
        self.engine, self.machine, self.library = engine, machine, library
        self.version = version or package_versions((self.data["package"],))[self.data["package"]]
        self.settled: Settled | None = None
        self._settled_for: tuple[Any, ...] = ()

    def at(self, name: str) -> Any:
        """The row of a breakpoint list for this release. Raises RuntimeRequestError outside the known releases."""
        value = valid_at(self.data[name], self.version, self.data["through"])
        if value is None:
            raise RuntimeRequestError(f"the adapter knows {self.engine} {self.data['since']} to {self.data['through']}, not {self.version}")
        return value

    def group(self) -> Any:
        """The tensor-parallel process group of this rank."""
        place = self.data["group"]
        return getattr(getattr(importlib.import_module(place["module"]), place["function"])(), place["attribute"])

    def commit(self, configuration: dict[str, Any], consumers: Callable[[], list[Consumer]]) -> Settled | None:
        """Settle and set the outcome in `configuration`, which maps the first part of a configuration path to its object.

        What cannot be read becomes a vote against, so that no rank waits for this one, and so does a decision that is
        missing where the adapter builds. None where the decision was taken back since: the engine builds. A later engine of
        this process gets the same outcome where its decision, group and shapes are the same, else a new one."""
        if not wanted():
            return None
        decision = decision_given() or Decision("none", "off", None, f"no decision was handed over ({DECISION} is not set)")
        group = self.group()
        try:
            shapes = consumers()
        except Exception as error:  # the engine's own objects: a release that differs must not leave the others waiting
            unread = f"the shapes of {self.engine} {self.version} cannot be read: {type(error).__name__}: {error}"
            shapes, decision = [], replace(decision, state="off", reason=unread)
        if self.settled is None or self._settled_for != (decision, group, shapes):
            self.settled = settle(decision, shapes, group, deadline=deadline_given(), machine=self.machine, library=self.library)
            self._settled_for = (decision, group, shapes)
            tell(self.engine, self.version, self.settled)
            self.settled.exit_if_restart()
            place = self.at("library")
            Handover(self.settled.outcome, self.settled.workspace).install(importlib.import_module(place["module"]), place["names"])
        self.carry_out(self.settled.outcome.word, configuration, decision.plan.backend if decision.plan is not None else "")
        return self.settled

    def carry_out(self, word: str, configuration: dict[str, Any], backend: str) -> None:
        """Set `fused` (with the backend that was built) or `unfused` in the engine's own configuration, environment and latches."""

        def filled(values: dict[str, Any]) -> dict[str, Any]:
            return {name: backend if value == "{backend}" else value for name, value in values.items()}

        row = self.at(word)
        for path, value in filled(row.get("configuration", {})).items():
            first, *middle, last = path.split(".")
            holder = configuration[first]
            for part in middle:
                holder = getattr(holder, part)
            _set(holder, last, value)
        override = row.get("override")
        if override:
            context = getattr(importlib.import_module(override["module"]), override["function"])()
            getattr(context, override["method"])(override["source"], **filled(override["fields"]))
        os.environ.update(filled(row.get("environment", {})))
        for latch in row.get("names", []):
            setattr(importlib.import_module(latch["module"]), latch["name"], latch["value"])


def tell(engine: str, version: str, settled: Settled) -> None:
    """Say the outcome once: the first rank logs it, and reports it to `policy exec` where that waits for it."""
    import torch.distributed as dist

    if dist.get_rank() != 0:
        logger.debug("fusion-policy: %s", settled.outcome)
        return
    said = f"the adapter: {FUSION} is {settled.outcome}"
    logger.log(logging.INFO if settled.outcome.word == FUSED else logging.WARNING, "fusion-policy: %s", said)
    report = os.environ.get(REPORT_VARIABLE)
    line = {"engine": engine, "version": version, "pid": os.getpid(), "said": said, **settled.outcome.to_json()}
    if report:
        with contextlib.suppress(OSError), open(report, "a", encoding="utf-8") as stream:  # not there on another node
            stream.write(json.dumps(line) + "\n")


def _set(holder: Any, name: str, value: Any) -> None:
    """Some releases guard their resolved configuration; the guard is theirs against their own code."""
    try:
        setattr(holder, name, value)
    except AttributeError:
        object.__setattr__(holder, name, value)


def wrap_after(holder: Any, name: str, then: Callable[..., None]) -> None:
    """Let `then(*arguments, **named)` follow every call of `holder.name`; its result stays what it was."""
    original = getattr(holder, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        result = original(*arguments, **named)
        then(*arguments, **named)
        return result

    wrapped.__wrapped__ = original  # type: ignore[attr-defined]
    wrapped.__name__ = name
    setattr(holder, name, wrapped)
