"""The facts that a model's configuration states, each with the key it comes from.

What it does not say stays unknown, unless the class that reads it has a default for the key (`model_classes`) or does
the same for every model of its type (`model_keys`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from policy.launchers import model_keys as keys
from policy.launchers.model_classes import CLASSES
from policy.launchers.model_quantisation import scheme_of
from policy.origin import Origin
from policy.records import dataclass

Stated = tuple[str, Any, Origin]


@dataclass(frozen=True, slots=True)
class _Config:
    """A configuration as the engines look at it: the language model's part first, then the whole, then the class."""

    top: Mapping[str, Any]
    text: Mapping[str, Any]
    path: str
    #: The dotted name of the language model's part; empty where it is the whole.
    prefix: str
    kind: str
    defaults: Mapping[str, Any] | None

    def stated(self, key: str) -> tuple[Any, Origin] | None:
        """The value that the file has, with where it stands."""
        for holder, prefix in ((self.text, self.prefix), (self.top, "")):
            if holder.get(key) is not None:
                return holder[key], Origin("model_config", prefix + key, file=self.path)
        return None

    def get(self, key: str) -> tuple[Any, Origin]:
        """The value of the file or of the class; None where there is none."""
        stated = self.stated(key)
        if stated is not None:
            return stated
        default = None if self.defaults is None or key in self.text else self.defaults.get(key)
        return default, Origin("model_config", f"{key}, a default of {self.kind}" if default is not None else f"no {key}", file=self.path)

    def first(self, names: tuple[str, ...]) -> tuple[Any, Origin]:
        """The first of several spellings that the file has, else the class."""
        held = next((held for held in map(self.stated, names) if held is not None), None)
        return held or next((held for held in map(self.get, names) if held[0] is not None), self.get(names[0]))

    @property
    def silence_counts(self) -> bool:
        """Whether a key that is not there is not there for the class either: a part leaves its defaults out, a whole does not."""
        return self.defaults is not None or not self.prefix


def _seen(config: Mapping[str, Any], path: str) -> _Config:
    text, prefix = config, ""
    for names in keys.TEXT_PATHS:
        part: Any = config
        for name in names:
            part = part.get(name) if isinstance(part, Mapping) else None
        if isinstance(part, Mapping):
            text, prefix = part, "".join(f"{name}." for name in names)
            break
    kind = str(text.get("model_type") or "")
    return _Config(config, text, path, prefix, kind, CLASSES.get(kind))


def config_facts(config: Mapping[str, Any], path: str, whole: bool = False, beside: tuple[Mapping[str, Any] | None, str] = (None, "")) -> Iterator[Stated]:
    """The facts that a configuration states, each with the key it comes from. `whole`: a model without a key about
    quantisation has none. `beside`: a quantisation that another file states, and its path."""
    seen = _seen(config, path)
    architectures, at = config.get("architectures"), Origin("model_config", "architectures", file=path)
    if isinstance(architectures, list | tuple) and architectures and isinstance(architectures[0], str):
        yield "model.architecture", architectures[0], at
    kind = config.get("model_type")
    if isinstance(kind, str) and kind:
        yield "model.type", kind, Origin("model_config", "model_type", file=path)
        index, at = seen.get("index_topk")
        yield "model.native_sparse_attention", index is not None, at
    for part in (_sizes, _experts, _norms, _attention, _rotation):
        yield from part(seen)
    yield from _quantisation(seen, whole, beside)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _sizes(seen: _Config) -> Iterator[Stated]:
    size, at = seen.first(keys.HIDDEN_SIZES)
    if _integer(size) and size > 0:
        yield "model.hidden_size", size, at
    # the whole speaks first, as in the engines, which serve float32 checkpoints in a narrower dtype
    for holder, prefix in ((seen.top, ""), (seen.text, seen.prefix)):
        key = next((key for key in ("dtype", "torch_dtype") if holder.get(key) is not None), None)
        if key is not None:
            dtype = keys.DTYPES.get(str(holder[key]).removeprefix("torch."))
            if dtype is not None and dtype != "float32":
                yield "model.dtype", dtype, Origin("model_config", prefix + key, file=seen.path)
            return


def _counts(seen: _Config) -> dict[str, list[int]]:
    """How many experts the layers have, by the key that says so; one count where all are alike."""
    stated = {key: _listed((seen.stated(key) or (None,))[0]) for key in keys.EXPERT_COUNTS}
    blocks, _ = seen.get("block_configs")
    if isinstance(blocks, list):
        stated["block_configs"] = _listed([block.get("n_routed_experts") for block in blocks if isinstance(block, Mapping)])
    if not any(stated.values()):
        stated = {key: _listed(seen.get(key)[0]) for key in keys.EXPERT_COUNTS}
    return {key: counts for key, counts in stated.items() if counts}


def _listed(value: Any) -> list[int]:
    return [one for one in (value if isinstance(value, list) else [value]) if _integer(one)]


def _experts(seen: _Config) -> Iterator[Stated]:
    counts = _counts(seen)
    if counts:
        key, held = max(counts.items(), key=lambda entry: max(entry[1]))
        at = seen.get(key)[1]
        # releases differ on whether one expert is a mixture
        if max(held) != 1:
            yield "model.is_moe", max(held) > 1, at
        sizes, size_at = seen.first(keys.EXPERT_SIZES)
        for values, where in ((held, at), (sizes if isinstance(sizes, list) else [], size_at)):
            if len({str(one) for one in values if one}) > 1:
                yield "model.moe_layers_differ", True, where
                return
        if max(held) == 0:
            yield "model.moe_layers_differ", False, at
    elif seen.kind not in keys.EXPERTS_NOT_TOLD and seen.silence_counts and seen.first(keys.HIDDEN_SIZES)[0] is not None:
        at = Origin("model_config", "no key that counts experts", file=seen.path)
        yield "model.is_moe", False, at
        yield "model.moe_layers_differ", False, at


def _norms(seen: _Config) -> Iterator[Stated]:
    epsilon, at = seen.get(keys.EPSILONS.get(seen.kind, "rms_norm_eps"))
    if _number(epsilon):
        yield "model.rms_norm_eps_usual", any(abs(epsilon - usual) <= 1e-9 for usual in keys.USUAL_EPSILONS), at
    chosen, at = seen.get(keys.GEMMA_KEY)
    if isinstance(chosen, bool):
        yield "model.norm_style", "gemma" if chosen else "standard", at
    elif seen.kind in keys.GEMMA_NORMS or seen.kind in keys.STANDARD_NORMS:
        yield "model.norm_style", "gemma" if seen.kind in keys.GEMMA_NORMS else "standard", _by_type(seen)


def _by_type(seen: _Config) -> Origin:
    return Origin("model_config", f"{seen.prefix}model_type {seen.kind}", file=seen.path)


def _latent(seen: _Config) -> tuple[bool | None, Origin]:
    """Whether the model attends through a latent vector; None where that depends on the engine."""
    rank, at = seen.get("kv_lora_rank")
    if rank is not None:
        return (True if seen.kind in keys.LATENT_TYPES else None), at
    compressed, where = seen.first(keys.COMPRESSED)
    if compressed is not None:
        return (True if seen.kind in keys.LATENT_TYPES else None), where
    known = seen.silence_counts and seen.get("num_attention_heads")[0] is not None
    return (False if known and (seen.kind not in keys.LATENT_TYPES or "kv_lora_rank" in seen.text) else None), at


def _attention(seen: _Config) -> Iterator[Stated]:
    latent, at = _latent(seen)
    if latent is not None:
        yield "model.latent_attention", latent, at
    if latent is not False:
        return
    several = keys.SEVERAL_HEAD_SIZES.get(seen.kind, ())
    if _layers(seen) or all(_integer(seen.text.get(key)) for key in several):
        sizes, at = _head_sizes(seen)
        if sizes:
            yield "model.head_sizes", sorted(sizes), at


def _layers(seen: _Config) -> set[str]:
    """The head sizes of single layers that differ from the others."""
    layers = seen.text.get("per_layer_config")
    held = [one.get("head_dim") for one in layers.values() if isinstance(one, Mapping)] if isinstance(layers, Mapping) else []
    return {str(size) for size in held if _integer(size)}


def _head_sizes(seen: _Config) -> tuple[set[str], Origin]:
    """The sizes that the configuration or its class has; the quotient where the class is known to use it."""
    found = [held for held in map(seen.get, keys.HEAD_SIZES) if _integer(held[0]) and held[0] > 0]
    if found:
        return {*(str(size) for size, _ in found), *_layers(seen)}, found[0][1]
    (width, at), (heads, _) = seen.get("hidden_size"), seen.get("num_attention_heads")
    if seen.defaults is None or not _integer(width) or not _integer(heads) or heads < 1 or width % heads:
        return set(), at
    return {str(width // heads)}, Origin("model_config", "hidden_size / num_attention_heads", file=seen.path)


def _rotation(seen: _Config) -> Iterator[Stated]:
    style = next((style for style, kinds in keys.ROPE_STYLES.items() if seen.kind in kinds), None)
    if style is not None:
        yield "model.rope_style", style, _by_type(seen)
    if _latent(seen)[0] is not False:
        return
    rotated, at = _rotated(seen)
    if rotated is not None:
        yield "model.partial_rotary", rotated < 1, at
    elif seen.defaults is not None:
        yield "model.partial_rotary", False, at


def _rotated(seen: _Config) -> tuple[float | None, Origin]:
    """The smallest part of a head that is rotated, from a table of positions, a key of its own, or a number of elements."""
    for name in keys.ROPE_TABLES:
        table, at = seen.get(name)
        tables = [table, *table.values()] if isinstance(table, Mapping) else []
        factors = [one["partial_rotary_factor"] for one in tables if isinstance(one, Mapping) and _number(one.get("partial_rotary_factor"))]
        if factors:
            return min(factors), Origin("model_config", f"{at.detail}: partial_rotary_factor", file=at.file)
    elements, at = seen.first(keys.ROTARY_SIZES)
    sizes, _ = _head_sizes(seen)
    if _integer(elements) and sizes:
        return min(1.0, elements / max(int(size) for size in sizes)), at
    factor, at = seen.first(keys.ROTARY_PARTS)
    return (factor if _number(factor) else None), at


def _quantisation(seen: _Config, whole: bool, beside: tuple[Mapping[str, Any] | None, str]) -> Iterator[Stated]:
    held, at = seen.first(keys.QUANTISATION_KEYS)
    if held is None and beside[0]:
        held, at = beside[0], Origin("model_config", "", file=beside[1])
    if not isinstance(held, Mapping):
        if held is None and whole:
            yield "model.quantization", "none", at
        return
    found = scheme_of(held)
    if found is not None:
        yield "model.quantization", found[0], Origin("model_config", ".".join(one for one in (at.detail, found[1]) if one), file=at.file)
    scale = keys.SCALE_FORMATS.get(str(held.get("scale_fmt")).lower())
    if scale is not None:
        yield "model.scale_format", scale, Origin("model_config", ".".join(one for one in (at.detail, "scale_fmt") if one), file=at.file)
