"""The static check: can this rank take part at all. Reads files and facts, imports no kernel library, asks no other rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from policy.runtime.data import product
from policy.runtime.library import Library, kernels_at_hand
from policy.runtime.machine import Machine
from policy.runtime.plan import ITEM_BYTES, Consumer, Decision, Reason, RuntimeRequestError, Shape, WorkspacePlan, common_shape


@dataclass(frozen=True, slots=True)
class Case:
    """All that the checks look at. `group_size` ranks share the workspace, `world_size` are in torch's WORLD."""

    decision: Decision
    plan: WorkspacePlan
    shape: Shape
    consumers: tuple[Consumer, ...]
    library: Library
    machine: Machine
    group_size: int
    world_size: int
    data: dict[str, Any]


def refusal(decision: Decision, consumers: Sequence[Consumer], library: Library, machine: Machine, group_size: int, world_size: int) -> Reason | None:
    """The first reason against building on this rank; None when there is none."""
    if decision.state != "on":
        return Reason("static", "decision.state", decision.reason or f"the decision is {decision.state}")
    if decision.plan is None:
        return Reason("static", "decision.chosen_plan", "the decision is on but names no plan")
    try:
        shape = common_shape(consumers)
        data = product(decision.plan.library)
    except RuntimeRequestError as error:
        return Reason("static", "shapes", str(error))
    case = Case(decision, decision.plan, shape, tuple(consumers), library, machine, group_size, world_size, data)
    for check in CHECKS:
        found = check(case)
        if found is not None:
            return Reason("static", *found)
    return None


Finding = tuple[str, str] | None


def _backend(case: Case) -> Finding:
    offered = case.data["backends"]
    if case.plan.backend not in offered:
        return "plan.backend", f"the adapter builds {', '.join(offered)}, not `{case.plan.backend}` (`auto` never: the ranks might choose differently)"
    return None


def _library(case: Case) -> Finding:
    return (f"packages.{case.data['package']}", case.library.problem) if case.library.problem else None


def _python(case: Case) -> Finding:
    if case.machine.python < (3, case.library.python_minor):
        here = ".".join(map(str, case.machine.python))
        return "python", f"{case.data['package']} {case.library.version} cannot be imported before Python 3.{case.library.python_minor}; this is {here}"
    return None


def _scope(case: Case) -> Finding:
    if case.group_size == case.world_size:
        return None
    where = f"a group of {case.group_size} in a WORLD of {case.world_size}"
    if case.plan.scope == "world":
        return "plan.scope", f"the plan reaches WORLD, but the workspace is for {where}"
    if case.library.scope in (None, "world") or case.library.subgroups is False:
        return f"packages.{case.data['package']}", f"{case.data['package']} {case.library.version} cannot be scoped to {where}; it needs 0.6.10.post1 or later"
    if case.library.scope not in case.plan.passes:
        passed = " and ".join(case.plan.passes) or "nothing"
        scoped = f"{case.data['package']} {case.library.version} is scoped by `{case.library.scope}`"
        return "plan.passes", f"{scoped}, the plan passes {passed}: it would reach WORLD instead of {where}"
    return None


def _size(case: Case) -> Finding:
    sizes = case.data["world_sizes"]
    if case.group_size in sizes["any"]:
        return None
    if case.group_size in sizes["one_shot_given"]:
        open_ = [consumer.name for consumer in case.consumers if consumer.one_shot is None]
        return ("consumer.one_shot", f"at {case.group_size} ranks one-shot must be given as true or false; `{open_[0]}` leaves it open") if open_ else None
    return "group.size", f"the kernels take {', '.join(map(str, sizes['any']))} ranks (16 with one-shot given), not {case.group_size}"


def _shapes(case: Case) -> Finding:
    for consumer in case.consumers:
        multiple = case.data["hidden_multiple"].get(consumer.dtype)
        if multiple is None:
            return "consumer.dtype", f"`{consumer.name}` is {consumer.dtype}; the kernels take {', '.join(case.data['hidden_multiple'])}"
        if consumer.hidden_size % multiple:
            return "consumer.hidden_size", f"hidden size {consumer.hidden_size} of `{consumer.name}` is not a multiple of {multiple}"
        if consumer.norm_weight_dtype not in (None, consumer.dtype):
            both = f"{consumer.norm_weight_dtype} norm weights and {consumer.dtype} activations"
            return "consumer.norm_weight_dtype", f"`{consumer.name}` has {both}; the kernel would reinterpret the bytes"
        if consumer.one_shot is False and consumer.max_tokens <= case.group_size:
            return "consumer.one_shot", f"two-shot needs more tokens than ranks; `{consumer.name}` has at most {consumer.max_tokens} for {case.group_size}"
    return None


def _kernels_of_the_release(case: Case) -> Finding:
    package = f"{case.data['package']} {case.library.version}"
    for consumer in case.consumers:
        if consumer.launch_with_pdl and case.library.safe_pdl is False:
            early = f"{package} can read the residual before its producer is done (fixed in 0.7.1)"
            return "consumer.launch_with_pdl", f"{early}; `{consumer.name}` asks for launch_with_pdl"
        if consumer.dtype == "float32" and consumer.one_shot is not True and case.library.safe_fp32_two_shot is False:
            return "consumer.dtype", f"{package} writes past the buffer of a float32 two-shot call (fixed in 0.7.2); give one_shot=True for `{consumer.name}`"
    return None


def _device(case: Case) -> Finding:
    machine = case.machine
    if machine.platform != "cuda":
        return "device.platform", "there is no CUDA device" if machine.platform == "cpu" else f"the device is {machine.platform}, not cuda"
    if machine.mig:
        return "device.mig", f"{machine.device_name} is a MIG instance, which reaches no peer's memory"
    majors = case.library.capability_majors
    if machine.capability is not None and majors is not None and machine.capability[0] not in majors:
        built = ", ".join(f"{major}.x" for major in majors)
        return "device.compute_capability", f"compute capability {machine.capability_text} is not among those the kernels are built for ({built})"
    if machine.p2p is False:
        return "device.p2p", f"device {machine.device_index} cannot reach every other visible device's memory"
    return None


def _memory(case: Case) -> Finding:
    needed = case.shape.bytes_needed(case.group_size)
    if needed // 4 > case.data["buffer_bytes_most"]:
        asked = f"{case.shape.max_tokens} tokens x {case.shape.hidden_size} x {case.group_size} ranks"
        return "shapes", f"{asked} need a buffer above {case.data['buffer_bytes_most']} bytes; lower max_tokens"
    if case.machine.memory_free is not None and needed > case.machine.memory_free:
        return "device.memory_free", f"the workspace needs {needed >> 20} MiB, the device has {case.machine.memory_free >> 20} MiB free"
    return None


def _bound(case: Case) -> Finding:
    most = case.decision.max_bytes
    for consumer in case.consumers:
        size = consumer.max_tokens * consumer.hidden_size * ITEM_BYTES.get(consumer.dtype, 4)
        if most is not None and size > most:
            return "decision.max_bytes", f"the decision allows calls of {most} bytes; those of `{consumer.name}` have up to {size}"
    return None


def _compiled(case: Case) -> Finding:
    source, detail = kernels_at_hand(case.library, case.plan.backend)
    return ("kernels", detail) if source == "none" else None


CHECKS: tuple[Callable[[Case], Finding], ...] = (
    _backend,
    _library,
    _python,
    _scope,
    _size,
    _shapes,
    _kernels_of_the_release,
    _device,
    _memory,
    _bound,
    _compiled,
)
