"""Readings of a report's values: (raw value, all keys of the report, the pack's fusions that it names) -> value, or facts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

WORDS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text(encoding="utf-8"))
UNKNOWN_WORDS = frozenset(WORDS["unknown"])
NUMBER = re.compile(r"\s*([<>=!]*)\s*(\d+(?:\.\d+)?)")
Facts = dict[str, Any]


class Unreadable(ValueError):
    """A value that no reading understands."""


def _either(raw: Any) -> list[Any] | None:
    """The values that a list, or a text such as `0.22.0 / 0.22.1` or `90|100`, leaves open; None for a single one."""
    if isinstance(raw, list):
        return raw
    parts = [part.strip() for part in re.split(r"\s*(?:\||\s/\s|\bor\b)\s*", str(raw))] if isinstance(raw, str) else []
    return parts if len(parts) > 1 else None


def version(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """`A -> B` is B, `0.4.x` is a line, `0.6.8 - 0.6.11` and a comparison are ranges; False is a package that is missing."""
    if raw is False or (isinstance(raw, str) and raw.strip().lower() in WORDS["missing"]):
        return "absent"
    either = _either(raw)
    if either is not None:
        return [version(one, keys, fusions) for one in either]
    text = re.split(r"->|→|=>", str(raw))[-1].strip().removeprefix("v")
    between = re.fullmatch(r"(\d[\w.]*)\s*(?:-|–|\bto\b|\.\.)\s*(\d[\w.]*)", text)
    if between:
        return f">={between[1]},<={between[2]}"
    line = re.fullmatch(r"(\d+(?:\.\d+)*)\.(?:x|\*)", text)
    if line:
        head, _, last = line[1].rpartition(".")
        return f">={line[1]}.0,<{head}.{int(last) + 1}.0" if head else f">={line[1]}.0"
    if re.fullmatch(r"\d[\w.]*\+", text):
        return f">={text[:-1]}"
    if not re.match(r"[<>=!~]*\s*\d", text):
        raise Unreadable(raw)
    return re.sub(r"^>(?=\d)", ">=", text.replace(" ", ""))


def number(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """A number, a list of them, or a comparison in front of an explanation."""
    if isinstance(raw, bool):
        raise Unreadable(raw)
    if isinstance(raw, int | float):
        return raw
    either = _either(raw)
    if either is not None:
        return [number(one, keys, fusions) for one in either]
    text = str(raw).strip()
    between = re.fullmatch(r"(\d+)\s*(?:-|–|\bto\b|\.\.)\s*(\d+)", text)
    if between:
        return f">={between[1]},<={between[2]}"
    if re.fullmatch(r"\d+\+", text):
        return f">={text[:-1]}"
    found = NUMBER.match(text)
    if found is None:
        raise Unreadable(raw)
    return f"{found[1]}{found[2]}" if found[1] else float(found[2]) if "." in found[2] else int(found[2])


def capability(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """90 is 9.0, 103 and `sm_103a` are 10.3; a list is a set of possible ones, `>=100` a range."""
    either = _either(raw)
    if either is not None:
        return [capability(one, keys, fusions) for one in either]
    text = re.sub(r"^([<>=]*)\s*(sm_?|compute_|cc\s*)", r"\1", str(raw).strip().lower()).rstrip("af")
    found = re.fullmatch(r"([<>=]*)\s*(\d+)(?:\.(\d))?", text)
    if found is None:
        raise Unreadable(raw)
    dotted = f"{int(found[2])}.{found[3]}" if found[3] is not None else f"{int(found[2]) // 10}.{int(found[2]) % 10}"
    return ("" if found[1] == "==" else found[1]) + dotted


def gpu(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """A product's name, and what every GPU of that name has; a stated capability or link says more."""
    names = _either(raw) or [raw]
    known = [next((row[1] for row in WORDS["gpus"] if row[0] in str(name).lower().replace("-", " ")), None) for name in names]
    if None in known:
        raise Unreadable(raw)
    found: Facts = {"device.name": [str(name) for name in names] if len(names) > 1 else str(names[0])}
    for fact in {fact for one in known if one for fact in one}:
        values = list(dict.fromkeys(one[fact] for one in known if one and fact in one))
        if all(one and fact in one for one in known):
            found[fact] = values[0] if len(values) == 1 else values
    if any(key in keys for key in ("sm", "compute_capability")):
        found.pop("device.compute_capability", None)
    if any(key in keys for key in ("interconnect", "nvlink", "nvswitch")):
        found.pop("device.interconnect", None)
    return found


def architecture_of_gpu(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """`gfx942` or `sm90`."""
    text = str(raw).lower()
    return {"device.gfx_target": text, "device.platform": "rocm"} if text.startswith("gfx") else {"device.compute_capability": capability(raw, keys, fusions)}


def dtype(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """The dtype that a word or a number of bytes stands for."""
    found = WORDS["dtypes"].get(str(raw).lower().removeprefix("torch."))
    if found is None:
        raise Unreadable(raw)
    return found


def lower(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """The word in lower-case letters."""
    return str(raw).lower()


def upper(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """The word in upper-case letters."""
    return str(raw).upper()


def truth(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """Whether it is so, in the words of people and of environment variables; a list is a set of possible values."""
    if isinstance(raw, list):
        return [truth(one, keys, fusions) for one in raw]
    found = WORDS["truth"].get(str(raw).strip().lower())
    if found is None:
        raise Unreadable(raw)
    return found


def every(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """What holds for all ranks: false where it is false for one."""
    values = list(raw.values()) if isinstance(raw, dict) else raw if isinstance(raw, list) else [raw]
    return all(truth(one, keys, fusions) for one in values)


def quantisation(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """The scheme that a name stands for."""
    if isinstance(raw, list):
        return [quantisation(one, keys, fusions) for one in raw]
    found = WORDS["quantisation"].get(str(raw).lower().replace("_", "-"))
    if found is None:
        raise Unreadable(raw)
    return found


def link(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """How GPUs are joined, by the words of people and of `nvidia-smi topo -m`."""
    if isinstance(raw, list):
        return [link(one, keys, fusions) for one in raw]
    text = str(raw).strip().lower().replace("-", "_").replace(" ", "_")
    found = WORDS["links"].get(text) or next((value for start, value in WORDS["link_starts"].items() if text.startswith(start)), None)
    if found is None:
        raise Unreadable(raw)
    return found


def islands(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """How many bridged groups a tensor-parallel group spans."""
    count = number(raw, keys, fusions)
    ranks = keys.get("tp")
    if not isinstance(count, int) or count < 2:
        return {}
    size = {"device.nvlink_island_size": -(-ranks // count)} if isinstance(ranks, int) and "island_size" not in keys else {}
    return {"device.interconnect": "nvlink_pairs", **size}


def world(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """A world of several groups, where no size of the parallelism says why."""
    ranks, stated = keys.get("tp"), ("pp", "dp", "cp", "pcp", "tp_groups_in_world", "tp_equals_world")
    if not isinstance(raw, int) or not isinstance(ranks, int) or raw % ranks or any(key in keys for key in stated):
        return {}
    return {"parallel.tensor_parallel_groups": raw // ranks}


def context_parallel(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Ranks that share a prompt: of the tensor-parallel group in SGLang, beside it elsewhere."""
    name = "attention" if str(keys.get("engine")).lower() == "sglang" else "prefill"
    return {f"parallel.{name}_context_parallel_size": number(raw, keys, fusions)}


def drafts(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Draft tokens a request, and with the number of requests the tokens of a step."""
    if raw == 0:
        return {"engine.speculative_method": "absent"}
    requests = next((keys[name] for name in ("batch", "batch_size", "num_requests") if isinstance(keys.get(name), int)), None)
    step = {"load.tokens": requests * (1 + raw)} if requests and isinstance(raw, int) and "tokens" not in keys else {}
    return {"engine.speculative_method": "unspecified", **step}


def drafting(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether draft tokens are used, or by which method."""
    known = WORDS["truth"].get(str(raw).strip().lower())
    return {"engine.speculative_method": {True: "unspecified", False: "absent"}[known] if known is not None else str(raw)}


def names(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """A list of names, one of them, or names between commas."""
    return list(raw) if isinstance(raw, list) else [part.strip() for part in str(raw).split(",") if part.strip() not in ("", "[]")]


def expert_parallel(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether experts are spread, or over how many ranks."""
    known = WORDS["truth"].get(str(raw).strip().lower()) if not isinstance(raw, int) or isinstance(raw, bool) else None
    if known is not None:
        return {"parallel.expert_parallel": known}
    size = number(raw, keys, fusions)
    return {"parallel.expert_parallel": size != 1, "parallel.expert_parallel_size": ">=2" if size == ">1" else size}


def head_sizes(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """The heads' sizes; with a rotary size beside it, `rotary` says the rest."""
    sizes = raw.values() if isinstance(raw, dict) else raw if isinstance(raw, list) else [raw]
    return {"model.head_sizes": [str(size) for size in sizes]}


def rotary(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether only a part of each head is rotated."""
    head = keys.get("head_dim")
    if isinstance(raw, int) and isinstance(head, int):
        return {"model.partial_rotary": raw < head}
    if isinstance(raw, float) or (isinstance(raw, int) and raw == 1):
        return {"model.partial_rotary": raw < 1}
    if isinstance(raw, str) and re.match(r"(!=|<|half|partial)", raw.strip()):
        return {"model.partial_rotary": True}
    if isinstance(raw, str) and re.match(r"(==?|full|head_dim)", raw.strip()):
        return {"model.partial_rotary": False}
    if isinstance(raw, int):
        return {}
    raise Unreadable(raw)


def epsilon(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether the epsilon is one that the patterns have."""
    try:
        return {"model.rms_norm_eps_usual": float(raw) in (1e-5, 1e-6)}
    except (TypeError, ValueError):
        raise Unreadable(raw) from None


def model(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """The model's name, and the architecture that it stands for."""
    found = {"model.name": str(raw)}
    known = known_model(str(raw))
    return found if known is None or keys.get("arch") else {**found, "model.architecture": known[0], "model.is_moe": known[1]}


def known_model(name: str) -> tuple[str, bool] | None:
    """The architecture of a model by its name, and whether it is a mixture of experts."""
    row = next((row for row in WORDS["models"] if row[0] in name.lower()), None)
    return None if row is None else (row[1], row[2])


def architecture(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """The class that a model's config.json names, or its first part."""
    found = [name if re.search(r"(LM|Generation|Model|V3)$", name) else f"{name}ForCausalLM" for name in names(raw, keys, fusions)]
    return {"model.architecture": found[0] if len(found) == 1 else found}


def request(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether the fusions are asked for or refused; a default says nothing."""
    word = str(raw).strip().lower()
    if word in WORDS["not_asked"]:
        return {}
    asked = WORDS["truth"].get(word)
    if asked is None:
        raise Unreadable(raw)
    return {f"request.{fusion}": "on" if asked else "off" for fusion in fusions}


def refusal(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """A flag that refuses the fusions where it is given."""
    return {f"request.{fusion}": "off" for fusion in fusions} if truth(raw, keys, fusions) else {}


def mebibytes(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """The size that the engine's pass is told, and the bound of every fusion that the report speaks of."""
    size = number(raw, keys, fusions)
    if not isinstance(size, int | float):
        raise Unreadable(raw)
    return {"engine.allreduce_max_mebibytes": size, **{f"request.{fusion}_max_bytes": int(float(size) * 2**20) for fusion in fusions}}


def bytes_of_mebibytes(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Any:
    """Mebibytes in bytes."""
    return int(float(number(raw, keys, fusions)) * 2**20)


def one_shot(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether one-shot is forced."""
    forced = raw is True or (isinstance(raw, str) and ("forced" in raw.lower() or raw.strip().lower() in ("true", "on")))
    return {"engine.one_shot": "forced" if forced else "auto"}


def graphs(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """The mode of CUDA or HIP graphs."""
    if isinstance(raw, list):
        return {"engine.cudagraph_mode": [mode for one in raw for mode in names(graphs(one, keys, fusions)["engine.cudagraph_mode"], keys, fusions)]}
    found = WORDS["graphs"].get(str(raw).strip().lower().replace(" ", "_").replace("-", "_"))
    if found is None:
        raise Unreadable(raw)
    return {"engine.cudagraph_mode": found}


def splitting(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Where the graph is cut."""
    return {"engine.splitting_ops": "absent" if isinstance(raw, str) and raw.strip().lower() in WORDS["not_asked"] else names(raw, keys, fusions)}


def aiter(raw: Any, keys: Mapping[str, Any], fusions: list[str]) -> Facts:
    """Whether it is enabled, or its version (and then it is)."""
    known = WORDS["truth"].get(str(raw).strip().lower())
    return {"engine.aiter": known} if known is not None else {"engine.aiter": True, "packages.amd-aiter": version(raw, keys, fusions)}


READINGS: dict[str, Callable[[Any, Mapping[str, Any], list[str]], Any]] = {
    function.__name__: function
    for function in (
        *(
            version,
            number,
            capability,
            gpu,
            architecture_of_gpu,
            dtype,
            lower,
            upper,
            truth,
            every,
            quantisation,
            link,
            islands,
            world,
            context_parallel,
            drafts,
            drafting,
        ),
        *(names, expert_parallel, head_sizes, rotary, epsilon, model, architecture, request, refusal, mebibytes, bytes_of_mebibytes, one_shot, graphs),
        *(splitting, aiter),
    )
}
