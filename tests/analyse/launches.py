"""Launches for the tests of the analyses: one to vary, and random ones."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

from policy.launch import Launch
from policy.load import read_pack
from policy.pack import Pack

H100 = {
    "engine.name": "vllm",
    "device.platform": "cuda",
    "device.compute_capability": "9.0",
    "device.interconnect": "nvswitch",
    "device.gpus_per_node": 8,
    "parallel.tensor_parallel_size": 2,
}


@cache
def pack() -> Pack:
    return read_pack(Path(__file__).resolve().parents[2] / "rules", compiled=False)


def launch(facts: dict[str, Any] | None = None, **more: Any) -> Launch:
    """A launch of vLLM on H100s; `more` uses `__` for the dot of a fact's name, None leaves a fact out."""
    named = {name.replace("__", ".").replace("flashinfer_python", "flashinfer-python"): value for name, value in more.items()}
    merged = {**H100, **(facts or {}), **named}
    return Launch.of(pack(), {name: value for name, value in merged.items() if value is not None})


def random_facts(rng: random.Random, pack: Pack) -> dict[str, Any]:
    """A launch of vLLM in which anything may be known, unknown or unusual."""
    engine, library = pack.products["vllm"], pack.products["flashinfer"]
    choices: dict[str, list[Any]] = {
        "engine.name": ["vllm"],
        "engine.version": [str(release) for release in engine.releases],
        "packages.flashinfer-python": [None, None, "absent", *[str(release) for release in library.releases]],
        "device.platform": ["cuda", "cuda", "cuda", "rocm"],
        "device.compute_capability": ["8.0", "9.0", "9.0", "10.0", "10.3", "12.0"],
        "device.interconnect": [None, "nvswitch", "pcie"],
        "device.multicast": [None, True, False],
        "device.gpus_per_node": [8],
        "parallel.tensor_parallel_size": [1, 2, 2, 4, 8],
        "parallel.pipeline_parallel_size": [None, 1, 2],
        "parallel.data_parallel_size": [None, 1, 2],
        "model.is_moe": [None, True, False],
        "model.hidden_size": [None, 4096, 4100],
        "runtime.builder": [None, None, "adapter"],
        "engine.allreduce_backend": [None, None, "auto", "trtllm", "mnnvl"],
        "engine.batch_invariant": [None, None, True],
        "request.allreduce_rms": [None, None, "on", "off"],
    }
    drawn = {name: rng.choice(values) for name, values in choices.items()}
    return {name: value for name, value in drawn.items() if value is not None}
