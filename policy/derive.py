"""Numeric facts that are computed from other facts, lifted to sets of possible values.

Every function gives a superset of what is possible, and a smaller input never gives a larger output. Sources: the
rank layouts of the engines, as noted in `rules/facts/parallel.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from policy.companions import COMPANIONS, FLASHINFER, VENDORED, cubin_agreement, jit_cache_agreement, name_says_h20, vendor_build
from policy.companions import Lookup as Packages
from policy.values import ABSENT, Discrete, Interval, Ordered, Values

ONE = Ordered.exactly(1, 1)
BOTH = Discrete(frozenset((True, False)))
NOTHING = Ordered((), False, 1)
MEBIBYTE = 1024 * 1024
#: Executors whose workers the engine starts itself; under `external_launcher` they run in somebody else's processes.
STARTED_BY_ENGINE = ("mp", "ray", "uni")
AT_LEAST_ONE = Ordered((Interval(1, True, None, False),), False, 1)


class Lookup(Packages, Protocol):
    """What a derivation asks of a launch."""


def product(*factors: Ordered) -> Ordered:
    """Every product of one positive integer of each set (exact for small sets, an interval for large ones)."""
    result = ONE
    for factor in factors:
        ours, theirs = result.points(), factor.points()
        if ours is not None and theirs is not None and len(ours) * len(theirs) <= 256:
            result = _listed(one * other for one in ours for other in theirs if one is not ABSENT and other is not ABSENT)
        else:
            (low, high), (other_low, other_high) = _ends(result), _ends(factor)
            top = None if high is None or other_high is None else high * other_high
            result = Ordered.of((Interval(low * other_low, True, top, top is not None),), False, 1)
    return result


def quotient(numerator: Ordered, denominator: Ordered, up: bool = False) -> Ordered:
    """Every quotient, rounded down or up, of positive integers; at least one where rounded up."""
    ours, theirs = numerator.points(), denominator.points()
    if ours is not None and theirs is not None and len(ours) * len(theirs) <= 256:
        return _listed(max(1, -(-one // other) if up else one // other) for one in ours for other in theirs if one is not ABSENT and other not in (ABSENT, 0))
    (low, high), (other_low, other_high) = _ends(numerator), _ends(denominator)
    bottom = 1 if other_high is None else max(1, -(-low // other_high) if up else low // other_high)
    top = None if high is None else max(1, -(-high // other_low) if up else high // other_low)
    return Ordered.of((Interval(bottom, True, top, top is not None),), False, 1)


def _listed(values: Iterable[int]) -> Ordered:
    return Ordered.of((Interval(value, True, value, True) for value in values), False, 1)


def _ends(values: Ordered) -> tuple[int, int | None]:
    first, last = values.intervals[0], values.intervals[-1]
    return max(1, first.low or 1), last.high


def _present(values: Values) -> Ordered:
    assert isinstance(values, Ordered)
    return Ordered(values.intervals, False, 1)


def data_parallel_size_in_effect(facts: Lookup) -> Ordered:
    """Replicas whose ranks share one WORLD. The command line's size, or the environment's where that one is 1, counts
    for mixture-of-experts models and for ranks started by a trainer or by hand; a dense model's engine starts its
    replicas as separate worlds, and elastic expert parallelism keeps WORLD to one engine."""
    given, spmd = _present(facts.values("parallel.data_parallel_size")), facts.values("parallel.spmd_data_parallel_size")
    by_hand = _present(spmd) if 1 in given else NOTHING
    by_command = given if spmd.absent else given & Ordered.of((~ONE).intervals, False, 1)
    joins, elastic = facts.values("traits.engine.data_parallel_joins_world"), facts.values("parallel.elastic_ep")
    moe, executor = facts.values("model.is_moe"), facts.values("engine.executor")
    result = NOTHING
    if "never" in joins or True in elastic:
        result |= ONE
    if False in elastic and "always" in joins:
        result |= by_command | by_hand
    if False in elastic and "moe" in joins:
        result |= by_hand
        started = any(kind in executor for kind in STARTED_BY_ENGINE)
        if by_command and ("external_launcher" in executor or (started and True in moe)):
            result |= by_command
        if by_command and started and False in moe:
            result |= ONE
    return result


def tensor_parallel_groups(facts: Lookup) -> Ordered:
    """Tensor-parallel groups in torch's WORLD: WORLD / tensor_parallel_size, with WORLD = replicas in effect x pipeline
    x prefill context x tensor parallelism, or the WORLD that a trainer made before."""
    sizes = product(
        _present(facts.values("parallel.pipeline_parallel_size")),
        _present(facts.values("parallel.prefill_context_parallel_size")),
        _present(facts.values("parallel.data_parallel_size_in_effect")),
    )
    trainer, executor = facts.values("parallel.trainer_world_size"), facts.values("engine.executor")
    result = NOTHING
    if trainer.absent or any(kind in executor for kind in STARTED_BY_ENGINE):
        result |= sizes
    if _present(trainer) and "external_launcher" in executor:
        result |= quotient(_present(trainer), _present(facts.values("parallel.tensor_parallel_size")))
    return result


def nodes_spanned(facts: Lookup) -> Ordered:
    """Nodes that one tensor-parallel group spans: ceil(tensor_parallel_size / GPUs of a node) where groups fill hosts,
    since tensor parallelism is the innermost dimension; nodes / pipeline stages where a group takes an equal share of
    every host of its stage; not known under Ray on several nodes, which places ranks by itself."""
    nodes, size, per_node = (_present(facts.values(name)) for name in ("parallel.nodes", "parallel.tensor_parallel_size", "device.gpus_per_node"))
    if nodes.within(ONE):
        return ONE
    placement = facts.values("traits.engine.group_placement")
    shared = quotient(nodes, _present(facts.values("parallel.pipeline_parallel_size"))) if "shares_hosts" in placement else NOTHING
    if "fills_hosts" not in placement:
        return shared
    most = _ends(nodes)[1]
    by_size = quotient(size, per_node, up=True) if per_node else AT_LEAST_ONE
    ceiling = Ordered.of((Interval(1, True, most, most is not None),), False, 1)
    result = (by_size & ceiling) or ONE
    if "ray" in facts.values("engine.executor"):
        widest = _ends(size)[1]
        result |= ceiling & Ordered.of((Interval(1, True, widest, widest is not None),), False, 1)
    result |= shared
    return result | ONE if 1 in nodes else result


def hidden_size_multiple_of_8(facts: Lookup) -> Discrete:
    """Whether the hidden size divides by 8; both where it is not known."""
    size = facts.values("model.hidden_size").single()
    return BOTH if size is None else Discrete.exactly(size % 8 == 0)


def expert_parallel_size(facts: Lookup) -> Ordered:
    """Ranks that the experts are spread over: 1 without expert parallelism, else tensor x data parallelism, or a size of
    its own up to the tensor-parallel one, as the engine has it."""
    spread, result = facts.values("parallel.expert_parallel"), NOTHING
    layout, size = facts.values("traits.engine.expert_parallel_layout"), _present(facts.values("parallel.tensor_parallel_size"))
    if False in spread:
        result |= ONE
    if True in spread and "tensor_times_data" in layout:
        result |= product(size, _present(facts.values("parallel.data_parallel_size")))
    if True in spread and "own_size" in layout and size:
        widest = _ends(size)[1]
        result |= Ordered.of((Interval(1, True, widest, widest is not None),), False, 1)
    return result


def moe_tensor_parallel_size(facts: Lookup) -> Ordered:
    """Ranks that share one expert's weights: tensor_parallel_size / expert_parallel_size, at least 1."""
    return quotient(_present(facts.values("parallel.tensor_parallel_size")), _present(facts.values("parallel.expert_parallel_size")))


def all_gpus_visible(facts: Lookup) -> Discrete:
    """Whether the launch sees as many GPUs as its host has; both where one of the two is not known."""
    seen, there = facts.values("device.gpus_per_node").single(), facts.values("device.gpus_on_host").single()
    return BOTH if seen is None or there is None else Discrete.exactly(seen >= there)


def _element_bytes(facts: Lookup) -> Ordered:
    sizes = {"bfloat16": 2, "float16": 2, "float32": 4}
    dtypes = facts.values("model.dtype")
    return _listed(size for name, size in sizes.items() if name in dtypes)


def _with_absent(values: Ordered, absent: bool) -> Ordered:
    return Ordered(values.intervals, absent, values.step)


def message_bytes(facts: Lookup) -> Ordered:
    """Bytes of one rank's tensor in the step that is asked about: tokens x hidden size x bytes of an element."""
    tokens = facts.values("load.tokens")
    counted = _present(tokens)
    size = product(counted, _present(facts.values("model.hidden_size")), _element_bytes(facts)) if counted else NOTHING
    return _with_absent(size, ABSENT in tokens)


def mnnvl_capacity_bytes(facts: Lookup) -> Ordered:
    """Bytes that one call may have on an mnnvl workspace: a third of it, since three buffers rotate."""
    size = facts.values("engine.workspace_bytes")
    stated = _present(size)
    return _with_absent(quotient(stated, Ordered.exactly(3, 1)) if stated else NOTHING, ABSENT in size)


def mnnvl_capacity_tokens(facts: Lookup) -> Ordered:
    """Tokens that fit into one call's part of an mnnvl workspace."""
    size = facts.values("engine.mnnvl_capacity_bytes")
    stated = _present(size)
    width = product(_present(facts.values("model.hidden_size")), _element_bytes(facts)) if stated else NOTHING
    return _with_absent(quotient(stated, width) if stated else NOTHING, ABSENT in size)


def allreduce_asked_bytes(facts: Lookup) -> Ordered:
    """The size that is asked for in MiB, as bytes, rounded down."""
    asked = facts.values("engine.allreduce_max_mebibytes")
    assert isinstance(asked, Ordered)
    low = [0 if low is None else int(low * MEBIBYTE) for low, _, _, _ in asked.intervals]
    high = [None if high is None else int(high * MEBIBYTE) for _, _, high, _ in asked.intervals]
    return Ordered.of((Interval(one, True, other, other is not None) for one, other in zip(low, high, strict=True)), ABSENT in asked, 1)


def draft_step_bytes(facts: Lookup) -> Ordered:
    """Bytes of the largest step at the draft model's width: tokens x width x bytes of an element; absent where no draft
    model is wider than the target."""
    draft, target = facts.values("model.draft_hidden_size"), _present(facts.values("model.hidden_size"))
    (narrowest, widest), widths = _ends(target), _present(draft)
    wider = widths & Ordered.of((Interval(narrowest + 1, True, None, False),), False, 1)
    size = product(_present(facts.values("engine.max_num_batched_tokens")), wider, _element_bytes(facts)) if wider else NOTHING
    no_wider = widths.intervals and (widest is None or _ends(widths)[0] <= widest)
    return _with_absent(size, ABSENT in draft or bool(no_wider))


def draft_step_excess_bytes(facts: Lookup) -> Ordered:
    """Bytes by which the largest step at the draft model's width exceeds the size that is asked for, at least 0."""
    step, asked = facts.values("engine.draft_step_bytes"), facts.values("engine.allreduce_asked_bytes")
    ours, theirs = _present(step), _present(asked)
    if not ours or not theirs:
        return _with_absent(NOTHING, True)
    first, last = theirs.intervals[0].low or 0, theirs.intervals[-1].high
    smallest, largest = _ends(ours)
    low, high = 0 if last is None else max(0, smallest - last), None if largest is None else max(0, largest - first)
    return Ordered.of((Interval(low, True, high, high is not None),), ABSENT in step or ABSENT in asked, 1)


def _listed_architecture(facts: Lookup, lists: Iterable[str]) -> Discrete:
    """Whether the model's architecture is among those that a release lists; both where that is not known."""
    answers: set[bool] = set()
    for name in lists:
        releases, architecture = facts.values(name).points(), facts.values("model.architecture").points()
        if releases is None or (architecture is None and any(releases)):
            return BOTH
        answers.update(one in release for release in releases for one in architecture or (ABSENT,))
    return Discrete(frozenset(answers))


def breakable_graphs_by_default(facts: Lookup) -> Discrete:
    """Whether the release chooses breakable CUDA graphs for the architecture by itself; ROCm has a list of its own."""
    name, platform = "traits.engine.breakable_graph_architectures", facts.values("device.platform")
    assert isinstance(platform, Discrete)
    elsewhere = any(one != "rocm" for one in platform.items)
    return _listed_architecture(facts, [one for one, holds in ((name, elsewhere), (f"{name}_rocm", "rocm" in platform)) if holds])


def architecture_left_uncompiled(facts: Lookup) -> Discrete:
    """Whether the release leaves the architecture uncompiled unless it is told to."""
    return _listed_architecture(facts, ["traits.engine.uncompiled_architectures"])


DERIVED: dict[str, Callable[[Lookup], Values]] = {
    "engine.allreduce_asked_bytes": allreduce_asked_bytes,
    "engine.draft_step_bytes": draft_step_bytes,
    "engine.draft_step_excess_bytes": draft_step_excess_bytes,
    "engine.breakable_graphs_by_default": breakable_graphs_by_default,
    "engine.architecture_left_uncompiled": architecture_left_uncompiled,
    "packages_agree.flashinfer_cubin": cubin_agreement,
    "packages_agree.flashinfer_jit_cache": jit_cache_agreement,
    "packages_agree.vendor_build": vendor_build,
    "device.name_says_h20": name_says_h20,
    "parallel.expert_parallel_size": expert_parallel_size,
    "parallel.moe_tensor_parallel_size": moe_tensor_parallel_size,
    "device.all_gpus_visible": all_gpus_visible,
    "load.message_bytes": message_bytes,
    "engine.mnnvl_capacity_bytes": mnnvl_capacity_bytes,
    "engine.mnnvl_capacity_tokens": mnnvl_capacity_tokens,
    "model.hidden_size_multiple_of_8": hidden_size_multiple_of_8,
    "parallel.data_parallel_size_in_effect": data_parallel_size_in_effect,
    "parallel.tensor_parallel_groups": tensor_parallel_groups,
    "parallel.nodes_spanned": nodes_spanned,
}
#: What each derived fact is computed from.
INPUTS: dict[str, tuple[str, ...]] = {
    "engine.allreduce_asked_bytes": ("engine.allreduce_max_mebibytes",),
    "engine.draft_step_bytes": ("engine.max_num_batched_tokens", "model.draft_hidden_size", "model.hidden_size", "model.dtype"),
    "engine.draft_step_excess_bytes": ("engine.draft_step_bytes", "engine.allreduce_asked_bytes"),
    "engine.breakable_graphs_by_default": (
        "model.architecture",
        "device.platform",
        "traits.engine.breakable_graph_architectures",
        "traits.engine.breakable_graph_architectures_rocm",
    ),
    "engine.architecture_left_uncompiled": ("model.architecture", "traits.engine.uncompiled_architectures"),
    "packages_agree.flashinfer_cubin": (FLASHINFER, COMPANIONS[0]),
    "packages_agree.flashinfer_jit_cache": (FLASHINFER, COMPANIONS[1]),
    "packages_agree.vendor_build": VENDORED,
    "device.name_says_h20": ("device.name", "device.compute_capability"),
    "parallel.expert_parallel_size": (
        "parallel.expert_parallel",
        "parallel.tensor_parallel_size",
        "parallel.data_parallel_size",
        "traits.engine.expert_parallel_layout",
    ),
    "parallel.moe_tensor_parallel_size": ("parallel.tensor_parallel_size", "parallel.expert_parallel_size"),
    "device.all_gpus_visible": ("device.gpus_per_node", "device.gpus_on_host"),
    "load.message_bytes": ("load.tokens", "model.hidden_size", "model.dtype"),
    "engine.mnnvl_capacity_bytes": ("engine.workspace_bytes",),
    "engine.mnnvl_capacity_tokens": ("engine.mnnvl_capacity_bytes", "model.hidden_size", "model.dtype"),
    "model.hidden_size_multiple_of_8": ("model.hidden_size",),
    "parallel.data_parallel_size_in_effect": (
        "parallel.data_parallel_size",
        "parallel.spmd_data_parallel_size",
        "parallel.elastic_ep",
        "model.is_moe",
        "engine.executor",
        "traits.engine.data_parallel_joins_world",
    ),
    "parallel.tensor_parallel_groups": (
        "parallel.tensor_parallel_size",
        "parallel.pipeline_parallel_size",
        "parallel.prefill_context_parallel_size",
        "parallel.data_parallel_size_in_effect",
        "parallel.trainer_world_size",
        "engine.executor",
    ),
    "parallel.nodes_spanned": (
        "parallel.nodes",
        "parallel.tensor_parallel_size",
        "parallel.pipeline_parallel_size",
        "device.gpus_per_node",
        "engine.executor",
        "traits.engine.group_placement",
    ),
}
