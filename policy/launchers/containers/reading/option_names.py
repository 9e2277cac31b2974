"""Which engine's options the keys of a flat mapping are, by the names that only one engine has."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources

from policy.launchers.yaml_places import Node

ENGINES = ("vllm", "sglang", "tensorrt_llm")  # in a tie the earlier one
_NAME_HINTS = {"vllm": ("vllm",), "sglang": ("sglang", "sgl"), "tensorrt_llm": ("trtllm", "tensorrt", "trt-llm")}
_SIZES = {"tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"}


@lru_cache(maxsize=1)
def names() -> Mapping[str, frozenset[str]]:
    """Engine -> option names with dashes; the data file says where they come from."""
    text = resources.files(__package__).joinpath("option_names.json").read_text(encoding="utf-8")
    data = json.loads(text)
    return {engine: frozenset(data[engine]) for engine in ENGINES}


def score(documents: list[Node], engine: str, name: str) -> int:
    """50 where a single mapping is options of `engine` rather than of another one, else 0."""
    if len(documents) != 1 or documents[0].kind != "mapping" or documents[0].string("apiVersion") is not None:
        return 0
    counts = _counts(documents[0], name)
    best = max(counts.values())
    return 50 if best > 0 and engine == next(one for one in ENGINES if counts[one] == best) else 0


def _counts(document: Node, name: str) -> dict[str, float]:
    """For each engine how many keys only it has; 0 where most keys are foreign or nothing tells."""
    known = names()
    keys = [key.removeprefix("no-").replace("_", "-") for key, _ in document.items()]
    possible = [engine for engine in ENGINES if engine != "tensorrt_llm" or any("_" in key for key, _ in document.items())]
    result = dict.fromkeys(ENGINES, 0.0)
    for engine in possible:  # TensorRT-LLM's options are fields of a Python class, written with underscores
        hits = [key for key in keys if key in known[engine]]
        if len(hits) * 2 < len(keys) and len(hits) < 6:
            continue
        only = [key for key in hits if not any(key in known[other] for other in possible if other != engine)]
        hinted = any(hint in name.lower() for hint in _NAME_HINTS[engine])
        if only or _SIZES & set(hits) or (hinted and len(hits) > 1):
            result[engine] = len(only) + len(hits) / 100 + 0.5 * hinted
    return result
