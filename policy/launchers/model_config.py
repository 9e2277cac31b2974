"""A model's config.json, from a local folder or file or the local hub cache, with what stands beside it; nothing is fetched."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from policy.launch import Given
from policy.origin import Origin
from policy.records import replace

Stated = tuple[str, Any, Origin]
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


def file_facts(path: Path, model: str) -> tuple[list[Stated], str]:
    """The facts of the configuration found for `model`, with what ModelOpt wrote beside it; and what is wrong in words."""
    # only where a configuration is there
    from policy.launchers import model_keys as keys
    from policy.launchers.model_facts import config_facts

    config, trouble = read_config(path)
    if not config:
        return [], trouble
    beside, source = path.with_name(keys.QUANTISATION_FILE), str(path)
    quantisation: dict[str, Any] | None = None
    # a folder that is named is what the engine reads; a cache, or a file alone, may lack files that exist
    whole = Path(model).expanduser() == path.parent or any(name.endswith(keys.WEIGHTS) for name in _names(path.parent))
    if beside.is_file():
        quantisation, trouble = read_config(beside)
        source, whole = str(beside), False
    return list(config_facts(config, str(path), whole, (quantisation, source))), trouble


def origin_over(given: Given | None, fact: str, value: Any, origin: Origin) -> Origin:
    """The origin under which a configuration's value is stated: as strong as what the launch says, where that only repeats
    the checkpoint's own word (`--quantization fp8` over scales in blocks)."""
    from policy.launchers.model_keys import GENERAL

    if given is None or fact != "model.quantization" or origin.rank <= given.origin.rank or value not in GENERAL.get(str(given.values.single()), ()):
        return origin
    return replace(origin, kind=given.origin.kind)


def draft_facts(path: Path) -> Iterator[Stated]:
    """What a draft model's configuration says about the launch."""
    from policy.launchers.model_facts import config_facts

    for fact, value, origin in config_facts(read_config(path)[0], str(path)):
        if fact == "model.hidden_size":
            yield "model.draft_hidden_size", value, origin


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
