"""Where the runtime adapter builds the workspaces: who builds is stated, and the decision is handed to the ranks.

The ranks are this process or its children, which inherit the variable; each loads the plug-in and finds it there.
"""

from __future__ import annotations

import json
import os

from policy.decision import Verdict
from policy.launchers.plugins.common import Statement, logger
from policy.launchers.variables import BUILDER_VARIABLE, adapter_builds
from policy.origin import Origin
from policy.pack import Product
from policy.runtime.engines.door import DECISION, knows
from policy.runtime.plan import FUSION

BUILDER = "runtime.builder"


def state_builder(statement: Statement, product: Product, version: str) -> None:
    """State who builds; it is the engine where the adapter is wanted and does not know the release."""
    known = knows(product.name, version)
    if adapter_builds(os.environ) and not known:
        logger.warning("fusion-policy: the adapter does not know %s %s; the engine builds the workspaces", product.title, version)
    builder = "adapter" if adapter_builds(os.environ) and known else "engine"
    statement.state(BUILDER, builder, Origin("environment", BUILDER_VARIABLE))


def handed_over(statement: Statement, verdict: Verdict) -> str | None:
    """The decision for the ranks as the text of a variable, an "off" too, since every rank has to agree; None where the
    engine builds by itself."""
    given = statement.launch.given.get(BUILDER)
    if given is None or given.values.single() != "adapter":
        return None
    held = verdict[FUSION].as_json()
    return json.dumps({name: held[name] for name in ("fusion", "state", "digest", "chosen_plan", "reason")})


def hand_over(engine: str, text: str | None) -> None:
    """Give the decision to this process and to those it starts."""
    if text is None:
        return
    os.environ[DECISION] = text
    arrange(engine)


def arrange(engine: str) -> None:
    """Let the adapter act in this process, where a decision was handed to it; once."""
    if not os.environ.get(DECISION):
        return
    if engine == "vllm":
        from policy.runtime.engines.vllm import register
    else:
        from policy.runtime.engines.sglang import register
    register()
