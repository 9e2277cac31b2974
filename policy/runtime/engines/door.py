"""What the doors share: read the decision, settle, and set the outcome in the engine."""

from __future__ import annotations

import importlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from policy.runtime.data import product, valid_at
from policy.runtime.engines.handover import Handover
from policy.runtime.library import Library
from policy.runtime.machine import Machine, package_versions
from policy.runtime.plan import FUSED, Consumer, Deadline, Decision, RuntimeRequestError
from policy.runtime.settle import Settled, settle

DECISION, DEADLINE = "FUSION_POLICY_DECISION", "FUSION_POLICY_DEADLINE"
logger = logging.getLogger("policy.runtime")


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

    def commit(self, configuration: dict[str, Any], consumers: Callable[[], list[Consumer]]) -> Settled:
        """Settle and set the outcome; once a process. `configuration` maps the first part of a configuration path to its
        object. What cannot be read becomes a vote against, so that no rank waits for this one."""
        if self.settled is not None:
            return self.settled
        decision = decision_given() or Decision("none", "off", None, "no decision is given")
        try:
            wanted = consumers()
        except Exception as error:  # the engine's own objects: a release that differs must not leave the others waiting
            unread = f"the shapes of {self.engine} {self.version} cannot be read: {type(error).__name__}: {error}"
            wanted, decision = [], replace(decision, state="off", reason=unread)
        deadline = Deadline(float(os.environ.get(DEADLINE, "120")))
        self.settled = settled = settle(decision, wanted, self.group(), deadline=deadline, machine=self.machine, library=self.library)
        settled.exit_if_restart()
        handover = Handover(settled.outcome, settled.workspace)
        if settled.outcome.word == FUSED:
            variable = self.data.get("backend_variable")
            if variable and decision.plan is not None:
                os.environ[variable] = decision.plan.backend
        else:
            self.switch_off(configuration)
        place = self.at("library")
        handover.install(importlib.import_module(place["module"]), place["names"])
        logger.info("fusion-policy: %s", settled.outcome)
        return settled

    def switch_off(self, configuration: dict[str, Any]) -> None:
        """Set `unfused` in the engine's own configuration, environment and latches."""
        unfused = self.at("unfused")
        for path, value in unfused.get("configuration", {}).items():
            first, *middle, last = path.split(".")
            holder = configuration[first]
            for part in middle:
                holder = getattr(holder, part)
            _set(holder, last, value)
        override = unfused.get("override")
        if override:
            context = getattr(importlib.import_module(override["module"]), override["function"])()
            getattr(context, override["method"])(override["source"], **override["fields"])
        os.environ.update(unfused.get("environment", {}))
        for latch in unfused.get("names", []):
            setattr(importlib.import_module(latch["module"]), latch["name"], latch["value"])


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
