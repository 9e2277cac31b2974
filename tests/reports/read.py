"""One report's normalised facts as facts of the pack. What a key means is data (`facts_mapping.yaml`); readings of a value
that are more than a table of words are the functions here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
MAPPING: dict[str, Any] = yaml.safe_load((HERE / "facts_mapping.yaml").read_text(encoding="utf-8"))
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32", "2": ["bfloat16", "float16"], "4": "float32"}
GRAPHS = {"true": ["piecewise", "full", "full_decode_only", "full_and_piecewise"], "false": "none"}
Facts = dict[str, Any]


def read_report(report: Mapping[str, Any], fusions: list[str], keys: Mapping[str, Any]) -> tuple[Facts, list[str]]:
    """The facts that normalised `keys` of a report state, and the keys that nothing is known about."""
    found: Facts = {}
    unmapped: list[str] = []
    for key, raw in keys.items():
        entry = MAPPING["keys"].get(key)
        if entry is None:
            unmapped.append(key)
        elif "ignored" not in entry and entry.get("unless") not in keys:
            found.update(_read(entry, raw, keys, fusions))
    return {name: value for name, value in found.items() if value is not None}, unmapped


def read_launch(report: Mapping[str, Any], fusions: list[str]) -> tuple[Facts, list[str]]:
    """The facts of a report's launch, those that its silence leaves open included, and its keys that were not read."""
    keys = report.get("facts") or {}
    found, unmapped = read_report(report, fusions, keys)
    if any(key in keys for key in MAPPING["implied"]["keys"]):
        found = {**MAPPING["implied"]["facts"], **found}
    if "engine" not in keys and found.get("device.platform", "cuda") == "cuda":
        found = {**MAPPING["library"], **{f"request.{fusion}": "on" for fusion in fusions}, **found}
    return {**dict.fromkeys(MAPPING["silent"], "unknown"), **found}, unmapped


def _read(entry: Mapping[str, Any], raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    also = dict(entry.get("also", {}))
    if "facts" in entry:
        table = entry["facts"]
        return {**also, **table.get(raw if _hashable(raw) and raw in table else "any", {})}
    if raw is None or raw == "unknown":
        return {}
    reading = READINGS.get(entry.get("read", ""))
    if "fact" not in entry:
        assert reading is not None
        return {**also, **reading(raw, keys, fusions)}
    values = entry.get("values", {})
    value = [values.get(one, one) for one in raw] if isinstance(raw, list) else values.get(raw, raw)
    return {**also, entry["fact"]: reading(value, keys, fusions) if reading else value}


def _hashable(raw: Any) -> bool:
    return not isinstance(raw, list | dict)


# --- readings: (raw value, all keys of the report, the pack's fusions that it names) -> value, or facts ---


def _version(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """`A -> B` is B, `0.4.x` is a line, a comparison stays one."""
    text = str(raw).split("->")[-1].strip()
    line = re.fullmatch(r"(\d+(?:\.\d+)*)\.x", text)
    if line:
        head, _, last = line[1].rpartition(".")
        return f">={line[1]}.0,<{head}.{int(last) + 1}.0" if head else f">={line[1]}.0"
    return text.replace(" ", "")


def _number(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """A number, a list of them, or a comparison in front of an explanation."""
    if isinstance(raw, int | float | list):
        return raw
    text = re.match(r"\s*([<>=!]*\s*\d+)", str(raw))
    if text is None:
        return None
    found = text[1].replace(" ", "")
    return found if found[0] in "<>=!" else int(found)


def _capability(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """90 is 9.0, 103 is 10.3; a list is a set of possible ones."""
    if isinstance(raw, list):
        return [_capability(one, keys, fusions) for one in raw]
    text = re.sub(r"^(sm_?|compute_)", "", str(raw).lower()).rstrip("a")
    return text if "." in text else f"{int(text) // 10}.{int(text) % 10}"


def _dtype(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    return DTYPES.get(str(raw).lower(), str(raw))


def _lower(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    return str(raw).lower()


def _every(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """What holds for all ranks: false where it is false for one."""
    return all(raw) if isinstance(raw, list) else all(raw.values()) if isinstance(raw, dict) else raw


def _drafts(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Draft tokens a request, and with the number of requests the tokens of a step."""
    requests = next((keys[name] for name in ("batch", "batch_size", "num_requests") if isinstance(keys.get(name), int)), None)
    step = {"load.tokens": requests * (1 + raw)} if requests and isinstance(raw, int) and "tokens" not in keys else {}
    return {"engine.speculative_method": "unspecified", **step}


def _names(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    return list(raw) if isinstance(raw, list) else [str(raw)]


def _expert_parallel(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    size = _number(raw, keys, fusions)
    if isinstance(raw, bool):
        return {"parallel.expert_parallel": raw}
    spread = {} if size is None else {"parallel.expert_parallel": size not in (1, "1")}
    return {**spread, "parallel.expert_parallel_size": ">=2" if size == ">1" else size}


def _head_sizes(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    sizes = raw if isinstance(raw, list) else [raw]
    return {"model.head_sizes": [str(size) for size in sizes]}


def _rotary(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    head = keys.get("head_dim")
    if isinstance(raw, int) and isinstance(head, int):
        return {"model.partial_rotary": raw < head}
    return {"model.partial_rotary": True} if isinstance(raw, str) and raw.strip().startswith(("!=", "<")) else {}


def _epsilon(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    return {"model.rms_norm_eps_usual": float(raw) in (1e-5, 1e-6)}


def _model(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    found = {"model.name": str(raw)}
    known = known_model(str(raw))
    return found if known is None or keys.get("arch") else {**found, "model.architecture": known[0], "model.is_moe": known[1]}


def known_model(name: str) -> tuple[str, bool] | None:
    """The architecture of a model by its name, and whether it is a mixture of experts."""
    row = next((row for row in MAPPING["models"] if row[0] in name.lower()), None)
    return None if row is None else (row[1], row[2])


def _architecture(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    name = str(raw)
    return {"model.architecture": name if name.endswith(("Causal" + "LM", "Generation")) else f"{name}ForCausalLM"}


def _request(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    word = {True: "on", False: "off"}.get(raw) if isinstance(raw, bool) else raw if raw in ("on", "off") else None
    return {} if word is None else {f"request.{fusion}": word for fusion in fusions}


def _mebibytes(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """The size that the engine's pass is told, and the bound of every fusion that the report speaks of."""
    return {"engine.allreduce_max_mebibytes": raw, **{f"request.{fusion}_max_bytes": int(float(raw) * 2**20) for fusion in fusions}}


def _one_shot(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    forced = raw is True or (isinstance(raw, str) and "forced" in raw.lower())
    return {"engine.one_shot": "forced" if forced else "auto"}


def _graphs(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    word = str(raw).lower()
    return {"engine.cudagraph_mode": GRAPHS.get(word, word)}


def _splitting(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    return {"engine.splitting_ops": "absent"} if raw in ("default", None) else {"engine.splitting_ops": list(raw)}


def _aiter(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether it is enabled, or its version (and then it is)."""
    return {"engine.aiter": raw} if isinstance(raw, bool) else {"engine.aiter": True, "packages.amd-aiter": str(raw)}


READINGS: dict[str, Callable[[Any, Mapping[str, Any], list[str]], Any]] = {
    name[1:]: function for name, function in dict(globals()).items() if name.startswith("_") and callable(function) and name not in ("_read", "_hashable")
}
