"""Where the runtime adapter builds the workspaces: who builds is stated, and the decision is handed to the ranks.

The ranks are this process or its children, which inherit the variable; each loads the plug-in and finds it there. Who
decides anew takes back what an earlier start in the same process or shell left.
"""

from __future__ import annotations

import json
import os
import sys

from policy.decision import Verdict
from policy.launch import Facts
from policy.launchers.installed import installed_versions
from policy.launchers.plugins.common import Statement, logger
from policy.launchers.resolve import companions
from policy.launchers.variables import BUILDER_VARIABLE, adapter_builds, mode_word
from policy.origin import Origin
from policy.pack import Pack, Product
from policy.runtime.engines.door import DECISION, knows, wanted
from policy.runtime.plan import FUSION

BUILDER = "runtime.builder"
#: Marks what a plug-in handed over, which nobody has set on purpose.
MARK = "handed_over"


def state_builder(statement: Statement, product: Product, version: str, obstacle: str = "") -> None:
    """State who builds; it is the engine where the adapter is wanted and does not know the release, or where an `obstacle`
    keeps the decision from the ranks."""
    if not obstacle and not knows(product.name, version):
        obstacle = f"the adapter does not know {product.title} {version}"
    if adapter_builds(os.environ) and obstacle:
        logger.warning("fusion-policy: %s; the engine builds the workspaces", obstacle)
    builder = "adapter" if adapter_builds(os.environ) and not obstacle else "engine"
    statement.state(BUILDER, builder, Origin("environment", BUILDER_VARIABLE))


def handed_over(statement: Statement, verdict: Verdict) -> dict[str, str]:
    """The variables for the ranks: the decision, an "off" too, since every rank has to agree, and what carries it to workers
    that somebody else starts. Empty where the engine builds by itself."""
    pack, given = statement.pack, statement.launch.given.get(BUILDER)
    if given is None or given.values.single() != "adapter":
        return {}
    decision = verdict[FUSION]
    held = decision.as_json()
    document = {
        **{name: held[name] for name in ("fusion", "state", "digest", "chosen_plan", "reason", "unknown_facts")},
        MARK: True,
        "facts": {"pack": verdict.pack, "posture": verdict.posture, **_common(pack, decision.support)},
    }
    bound = decision.limits.get("max_bytes")
    if bound is not None and not _only_slower(pack, bound.id):
        document["max_bytes"] = bound.value
    return {**companions(pack, Facts(pack, statement.launch), mode_word(os.environ), dict(os.environ)), DECISION: json.dumps(document)}


def _common(pack: Pack, support: dict[str, str]) -> dict[str, str]:
    """What the decision rests on and all nodes have in common; the other facts may differ from node to node."""
    return {name: value for name, value in support.items() if (fact := pack.fact(name)) is not None and fact.fold == "same"}


def _only_slower(pack: Pack, rule: str) -> bool:
    return rule in pack.rules and pack.rules[rule].consequence == "slower"


def take_back(on_purpose: bool) -> None:
    """Remove a decision that is there already: one of a plug-in always, one that was set `on_purpose` only where it is to be
    decided anew."""
    text = os.environ.get(DECISION, "")
    if on_purpose or _marked(text):
        os.environ.pop(DECISION, None)


def _marked(text: str) -> bool:
    try:
        document = json.loads(text)
    except ValueError:
        return False
    return isinstance(document, dict) and bool(document.get(MARK))


def hand_over(engine: str, variables: dict[str, str]) -> None:
    """Give the decision to this process and to those it starts."""
    os.environ.update(variables)
    arrange(engine)


def arrange(engine: str) -> None:
    """Let the adapter act in this process, where a decision was handed to it or should have been; once."""
    if not wanted():
        return
    held = installed_versions().get(engine)
    version = held[0] if held else str(getattr(sys.modules.get(engine), "__version__", "absent"))
    if not knows(engine, version):
        logger.warning("fusion-policy: the adapter does not know %s %s; the engine builds the workspaces", engine, version)
        return
    if engine == "vllm":
        from policy.runtime.engines.vllm import register
    else:
        from policy.runtime.engines.sglang import register
    register(version=version)
