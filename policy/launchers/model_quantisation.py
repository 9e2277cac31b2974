"""The scheme of a quantised model, in the words of `model.quantization`, from what its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from policy.launchers.model_keys import ALGORITHMS, GROUPS, METHODS, QUARK


def method_of(stated: Mapping[str, Any]) -> str:
    """The engines' word for the kind of configuration; empty where it says none."""
    return str(stated.get("quant_method") or ("modelopt" if _algorithm(stated) else "")).lower().replace("-", "_")


def scheme_of(stated: Mapping[str, Any]) -> tuple[str, str] | None:
    """The scheme, and the key that says so; None where the configuration is of a kind or a mixture without a word."""
    method = method_of(stated)
    algorithm = _algorithm(stated)
    if algorithm:
        scheme = ALGORITHMS.get(algorithm)
        return (scheme, "quant_algo") if scheme else None
    if method == "fp8":
        return ("fp8_block", "weight_block_size") if stated.get("weight_block_size") else ("fp8", "quant_method")
    if method == "compressed_tensors":
        return _agreed(_groups(stated), "config_groups")
    if method == "quark":
        return _agreed([_quark(stated.get("global_quant_config"))], "global_quant_config")
    return (METHODS[method], "quant_method") if method in METHODS else None


def _algorithm(stated: Mapping[str, Any]) -> str:
    """ModelOpt's algorithm: beside the method, or in the table of the file that ModelOpt wrote before."""
    table = stated.get("quantization")
    held = stated.get("quant_algo") or (table.get("quant_algo") if isinstance(table, Mapping) else None)
    return str(held or "").upper()


def _agreed(schemes: list[str | None], key: str) -> tuple[str, str] | None:
    first = schemes[0] if schemes else None
    return (first, key) if first is not None and all(one == first for one in schemes) else None


def _groups(stated: Mapping[str, Any]) -> list[str | None]:
    groups = stated.get("config_groups")
    return [_group(one) for one in groups.values()] if isinstance(groups, Mapping) else []


def _group(group: Any) -> str | None:
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    activations = group.get("input_activations")
    kind, bits = (activations.get("type"), activations.get("num_bits")) if isinstance(activations, Mapping) else (None, None)
    size: Any = "block" if weights.get("strategy") == "block" else weights.get("group_size") if weights.get("type") == "float" else None
    try:
        return GROUPS.get((weights.get("type"), weights.get("num_bits"), size, kind, bits))  # type: ignore[arg-type]
    except TypeError:
        return None


def _quark(stated: Any) -> str | None:
    weights, activations = (stated.get("weight"), stated.get("input_tensors")) if isinstance(stated, Mapping) else (None, None)
    if not isinstance(weights, Mapping) or not isinstance(activations, Mapping):
        return None
    return QUARK.get((str(weights.get("dtype")), str(weights.get("qscheme")), str(activations.get("dtype"))))
