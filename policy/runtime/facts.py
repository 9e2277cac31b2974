"""What a rank states in its vote: facts that must be the same on all ranks of the launch, or of the group."""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy.runtime.data import product
from policy.runtime.library import Library
from policy.runtime.machine import RENDEZVOUS, Machine
from policy.runtime.plan import Consumer, Decision

PROTOCOL = "1"
Facts = tuple[tuple[str, str], ...]


def launch_facts(decision: Decision, library: Library, machine: Machine) -> Facts:
    """Packages first: a version that differs explains a digest that differs. Decisions that were made apart may differ in
    facts that may differ between nodes; those that rest on equal facts are equal, whatever their digests."""
    data = product(library.name)
    plan = decision.plan
    facts = {
        "adapter.protocol": PROTOCOL,
        f"packages.{data['package']}": library.version,
        "packages.torch": machine.torch,
        "python": f"{machine.python[0]}.{machine.python[1]}",
        **{f"environment.{name}": os.environ.get(name, "unset") for name in data["environment"]},
        "decision.state": decision.state,
        **({f"decision.{name}": value for name, value in decision.facts} or {"decision.digest": decision.digest}),
        "decision.max_bytes": str(decision.max_bytes),
        "plan": "none" if plan is None else f"{plan.library} {plan.backend} {plan.scope} {'+'.join(plan.passes)}",
    }
    return tuple(facts.items())


def group_facts(decision: Decision, consumers: Sequence[Consumer], library: Library, machine: Machine) -> Facts:
    """What two ranks that share buffers must have in common beyond that."""
    data = product(library.name)
    facts = {}
    if decision.plan is not None and data["nodes"].get(decision.plan.backend) == 1:
        facts["node"] = machine.node
    facts |= {"device.compute_capability": str(machine.capability_text), "device.multiprocessors": str(machine.multiprocessors)}
    for consumer in consumers:
        facts |= {
            f"{consumer.name}.hidden_size": str(consumer.hidden_size),
            f"{consumer.name}.max_tokens": str(consumer.max_tokens),
            f"{consumer.name}.dtype": consumer.dtype,
            f"{consumer.name}.norm_weight_dtype": str(consumer.norm_weight_dtype),
            f"{consumer.name}.one_shot": str(consumer.one_shot),
            f"{consumer.name}.launch_with_pdl": str(consumer.launch_with_pdl),
            f"{consumer.name}.fp32_accumulation": str(consumer.fp32_accumulation),
            f"{consumer.name}.rms_eps": str(consumer.rms_eps),
        }
    if library.allocator != "handles":  # torch's rendezvous counts are process-wide: unequal histories block a scoped one
        facts["symmetric_memory.rendezvous"] = str(RENDEZVOUS.count) if RENDEZVOUS.installed else "not counted"
    return tuple(facts.items())
