"""A model's config.json to facts: from a local folder or file, or the local hub cache; nothing is fetched."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from policy.origin import Origin

#: Keys that count experts, in the configurations of the model families.
EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "num_moe_experts")
DTYPES = {"bfloat16": "bfloat16", "float16": "float16", "half": "float16", "float32": "float32", "float": "float32"}
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


def find_config(model: str, environment: Mapping[str, str] | None = None) -> Path | None:
    """The config.json of a model given as a folder, as the file itself, or as the name of a repository in the local hub
    cache; None where it is not on this machine."""
    path = Path(model).expanduser()
    try:
        if path.is_file() and path.suffix == ".json":
            return path
        if (path / "config.json").is_file():
            return path / "config.json"
    except OSError:
        return None
    return _cached(model, os.environ if environment is None else environment) if _REPOSITORY.fullmatch(model) else None


def _cached(model: str, environment: Mapping[str, str]) -> Path | None:
    home = environment.get("HF_HOME") or os.path.join(environment.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "huggingface")
    folder = Path(environment.get("HF_HUB_CACHE") or os.path.join(home, "hub")) / f"models--{model.replace('/', '--')}"
    try:
        revision = (folder / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    config = folder / "snapshots" / revision / "config.json"
    return config if config.is_file() else None


def read_config(path: Path) -> tuple[dict[str, Any], str]:
    """The configuration, and what is wrong with it in words (empty where nothing is)."""
    try:
        if path.stat().st_size > 5_000_000:
            return {}, f"`{path}` is too large for a model's configuration"
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        return {}, f"`{path}` cannot be read as JSON: {str(error).splitlines()[0][:120].lower()}"
    return (data, "") if isinstance(data, dict) else ({}, f"`{path}` is no JSON object")


def config_facts(config: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any, Origin]]:
    """The facts that a configuration states, each with the key it comes from."""
    text = config.get("text_config") if isinstance(config.get("text_config"), dict) else {}
    assert isinstance(text, dict)

    def at(key: str) -> Origin:
        return Origin("model_config", key, file=path)

    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        yield "model.architecture", architectures[0], at("architectures")
    kind = config.get("model_type")
    if isinstance(kind, str) and kind:
        yield "model.type", kind, at("model_type")
        yield "model.native_sparse_attention", config.get("index_topk") is not None, at("index_topk")
    for key in ("hidden_size", "n_embd", "d_model"):
        size = config.get(key, text.get(key))
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            yield "model.hidden_size", size, at(key)
            break
    counts = {key: holder[key] for holder in (config, text) for key in EXPERT_COUNTS if isinstance(holder.get(key), int)}
    if counts:
        key, count = max(counts.items(), key=lambda entry: entry[1])
        yield "model.is_moe", count > 1, at(key)
    elif "hidden_size" in config or "hidden_size" in text:
        yield "model.is_moe", False, Origin("model_config", "no key that counts experts", file=path)
    for key in ("dtype", "torch_dtype"):
        dtype = DTYPES.get(str(config.get(key, text.get(key))).removeprefix("torch."))
        if dtype is not None:
            # the engines serve float32 checkpoints in a narrower dtype, so that this is no statement about activations
            if dtype != "float32":
                yield "model.dtype", dtype, at(key)
            break
    epsilon = config.get("rms_norm_eps", text.get("rms_norm_eps"))
    if isinstance(epsilon, int | float) and not isinstance(epsilon, bool):
        yield "model.rms_norm_eps_usual", any(abs(epsilon - usual) <= 1e-9 for usual in (1e-5, 1e-6)), at("rms_norm_eps")
