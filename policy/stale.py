"""Stale workarounds: a fusion that a launch turns off by hand although nothing speaks against it in these versions."""

from __future__ import annotations

from policy.decision import Because, Decision, Finding
from policy.evaluate import evaluate
from policy.launch import Facts, Launch
from policy.origin import Origin
from policy.pack import REQUEST_PREFIX, Pack, Place
from policy.values import ABSENT
from policy.versions import Version, shown

ID = "stale-workaround"
#: Consequences that make somebody turn a fusion off by hand.
REASONS = ("hang", "wrong_numbers", "crash", "partly_fused", "slower")


def stale_workaround(pack: Pack, launch: Launch, decision: Decision, strict: bool = False) -> Because | None:
    """A finding where the fusion is asked off and would be on without that; None otherwise. It names the rule that last
    justified it: the newest earlier release, of the engine or of a library, under which that rule excludes the plan."""
    if decision.asked != "off":
        return None
    name = REQUEST_PREFIX + decision.fusion
    free = launch.with_facts(pack, {name: ABSENT}, Origin("derived", "without the request"))
    now = evaluate(pack, free, "safe", [decision.fusion], strict)[decision.fusion]
    if now.state != "on" or now.switches or now.warnings:
        return None
    facts = Facts(pack, launch, strict)
    held = facts.get(name)
    finding = Finding(name, "off", facts.shown(name), True, str(held.origin))
    justified = _last_justified(pack, free, facts, decision.fusion, strict)
    if justified is None:
        title = f"{decision.fusion} is turned off by hand, and nothing speaks against it in these versions"
        return Because(ID, "warn", True, "slower", (finding,), title)
    rule, product, version, place = justified
    title = f"{decision.fusion} is turned off by hand; {rule} justified it until {product} {shown(version)}, and no longer holds"
    return Because(ID, "warn", True, "slower", (finding,), title, place)


def _last_justified(pack: Pack, launch: Launch, facts: Facts, fusion: str, strict: bool) -> tuple[str, str, Version, Place] | None:
    """The rule, product and newest earlier release where the engine's plan was excluded for a reason people act on."""
    for product in sorted(pack.products.values(), key=lambda one: one.role != "engine"):
        current = facts.values(product.version_fact).single()
        if not isinstance(current, Version) or (product.role == "engine" and facts.engine() is not product):
            continue
        for release in reversed([release for release in product.releases if release < current]):
            older = launch.with_facts(pack, {product.version_fact: str(release)})
            if product.role == "engine":
                # what the older release required comes with it, unless the launch states its packages itself
                older.given = {name: given for name, given in older.given.items() if given.origin.kind != "engine_pin"}
            then = evaluate(pack, older, "safe", [fusion], strict)[fusion]
            rule = pack.rules.get(then.reason.id)
            if then.left_alone.state == "on" and then.state == "off" and rule is not None and rule.consequence in REASONS:
                return rule.id, product.title, release, rule.place
    return None
