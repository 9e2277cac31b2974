"""How well the launches read out of a folder of labelled files agree with their labels.

    python -m tests.score_corpus FOLDER [--all]

FOLDER holds INDEX.jsonl and the files it names, and may hold commands.jsonl. Prints, for every field, the number of
rows compared, agreements and differences, then every difference; `--all` prints what was read of every file too."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from policy.launchers.containers import find_launches
from policy.launchers.found import FoundLaunch

FIELDS = (
    "engine",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "nodes",
    "image_or_version",
    "forced_fusions",
    "model",
    "dp_attention",
    "expert_parallel",
    "role",
    "when",
)
ARGUED = Path(__file__).with_name("corpus_differences.yaml")
_SIZES = {
    "tensor_parallel_size": (r"tensor[-_]parallel[-_]size|tp[-_]size|tp", "parallel.tensor_parallel_size"),
    "pipeline_parallel_size": (r"pipeline[-_]parallel[-_]size|pp[-_]size|pp", "parallel.pipeline_parallel_size"),
    "data_parallel_size": (r"data[-_]parallel[-_]size|dp[-_]size|dp", "parallel.data_parallel_size"),
    "nodes": (r"nnodes", "parallel.nodes"),
}
_READERS = {"vllm": "policy.launchers.vllm_command", "sglang": "policy.launchers.sglang_command"}
_SETTINGS = {
    "vllm": {"tensor_parallel_size": "tensor_parallel_size", "pipeline_parallel_size": "pipeline_parallel_size", "model": "model"},
    "sglang": {"tensor_parallel_size": "tp_size", "pipeline_parallel_size": "pp_size", "data_parallel_size": "dp_size", "model": "model_path"},
}
_SETTINGS["vllm"]["data_parallel_size"] = "data_parallel_size"
_FUSION_VARIABLES = ("VLLM_ALLREDUCE_USE_FLASHINFER", "VLLM_FLASHINFER_ALLREDUCE_BACKEND")
_FUSION_FLAGS = re.compile(r"--((?:enable|enforce-disable)-flashinfer-allreduce-fusion|flashinfer-allreduce-fusion-backend)")


def words_with_files(launch: FoundLaunch) -> list[str]:
    """The words of the command, those of its configuration file in front, as the engines take them."""
    texts = [word.text for word in launch.words]
    extra: list[str] = []
    for at, text in enumerate(texts):
        name = text.partition("=")[2] if text.startswith("--config=") else texts[at + 1] if text == "--config" and at + 1 < len(texts) else ""
        if name in launch.files and launch.engine != "tensorrt_llm":
            try:
                options = yaml.safe_load(launch.files[name]) or {}
            except yaml.YAMLError:
                continue
            for key, value in options.items() if isinstance(options, dict) else ():
                if value is False or value is None:
                    continue
                extra += [f"--{key}"] if value is True else [f"--{key}", json.dumps(value) if isinstance(value, (dict, list)) else str(value)]
    head = 3 if texts[1:2] == ["-m"] else 2
    return texts[:head] + extra + texts[head:] if not extra or texts[head : head + 1] == ["--config"] else texts[: head + 1] + extra + texts[head + 1 :]


def option(texts: list[str], names: str) -> str | None:
    found = None
    for at, text in enumerate(texts):
        match = re.fullmatch(rf"--?(?:{names})(?:=(.*))?", text, re.DOTALL)
        if match is not None:
            found = match.group(1) if match.group(1) is not None else texts[at + 1] if at + 1 < len(texts) else ""
    return found


def typed(text: Any) -> Any:
    return int(text) if isinstance(text, str) and re.fullmatch(r"\d+", text) else text


def passes_of(texts: list[str]) -> dict[str, Any]:
    """Every key of pass_config, by whatever spelling."""
    result: dict[str, Any] = {}
    for at, text in enumerate(texts):
        dotted = re.match(r"(?:--compilation[-_]config|-cc)\.pass_config\.(\w+)(?:=(.*))?$", text)
        if dotted is not None:
            value = dotted.group(2) if dotted.group(2) is not None else texts[at + 1] if at + 1 < len(texts) else ""
            result[dotted.group(1)] = {"true": True, "false": False}.get(str(value).lower(), value)
        start = text.find("{")
        if "pass_config" in text and start >= 0:
            try:
                result.update(json.loads(text[start:]).get("pass_config") or {})
            except ValueError:
                continue
    return result


def describe(launch: FoundLaunch) -> dict[str, Any]:
    """A found launch in the words of the labels."""
    texts = words_with_files(launch)
    result: dict[str, Any] = dict.fromkeys(FIELDS)
    result["engine"] = launch.engine
    for field, (names, fact) in _SIZES.items():
        value = option(texts, names) if launch.engine != "tensorrt_llm" else None
        stated = launch.stated.get(fact)
        result[field] = typed(value) if value is not None else stated.value if stated is not None else None
    if "parallel.nodes" in launch.stated:
        result["nodes"] = launch.stated["parallel.nodes"].value
    result["image_or_version"] = [word.text for word in (launch.image, launch.version) if word is not None]
    fusions = passes_of(texts)
    for text in texts:
        match = _FUSION_FLAGS.match(text)
        if match is not None:
            fusions[match.group(1).replace("-", "_")] = True if "backend" not in match.group(1) else option(texts, "flashinfer-allreduce-fusion-backend")
    fusions.update({name: launch.environment[name].text for name in _FUSION_VARIABLES if name in launch.environment})
    result["forced_fusions"] = fusions or None
    result["model"] = model(launch, texts)
    attention = launch.stated.get("parallel.dp_attention")
    result["dp_attention"] = True if "--enable-dp-attention" in texts else attention.value if attention is not None else None
    result["expert_parallel"] = True if any(text.replace("_", "-") == "--enable-expert-parallel" for text in texts) else None
    result["role"], result["when"] = launch.role, launch.when
    return result


def model(launch: FoundLaunch, texts: list[str]) -> Any:
    given = option(texts, r"model|model[-_]path|model[-_]tag")
    head = 3 if texts[1:2] == ["-m"] else 2
    if given is None and launch.engine != "tensorrt_llm" and len(texts) > head and not texts[head].startswith("-"):
        given = texts[head]
    stated = launch.stated.get("model.name")
    return given if given is not None else stated.value if stated is not None else None


def by_reader(launch: FoundLaunch) -> dict[str, Any]:
    """The same fields as the engine's own command reader gives them, where there is one."""
    module = _READERS.get(launch.engine)
    if module is None:
        return {}
    from importlib import import_module

    try:
        reader = import_module(module)
    except ImportError:
        return {}
    settings = reader.read_command(launch.words, None, launch.files)
    return {field: setting.value for field, name in _SETTINGS[launch.engine].items() if (setting := settings.get(name)) is not None}


def agrees(field: str, label: Any, read: Any) -> bool:
    if field == "when":
        return (label is None) == (read is None)
    if field == "image_or_version":
        return (label is None and not read) or label in read
    if field in {"dp_attention", "expert_parallel"} and label in {None, False} and read in {None, False}:
        return True
    return bool(label == read)


@dataclass
class Row:
    file: str
    kind: str
    number: int
    field: str
    label: Any
    read: Any
    argued: str = ""


def pair(labels: list[dict[str, Any]], read: list[dict[str, Any]]) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Labels with what was read: by role where roles tell them apart, else in order."""
    left = list(read)
    pairs: list[tuple[dict[str, Any] | None, dict[str, Any] | None]] = []
    for label in labels:
        same = [one for one in left if one["role"] == label.get("role") and (one["when"] is None) == (label.get("when") is None)]
        chosen = next((one for one in same if one["when"] == label.get("when")), same[0] if same else left[0] if left else None)
        if chosen is not None:
            left.remove(chosen)
        pairs.append((label, chosen))
    return pairs + [(None, one) for one in left]


def compare(file: str, kind: str, labels: list[dict[str, Any]], launches: list[FoundLaunch]) -> tuple[Counter[str], list[Row]]:
    """Rows compared for each field, and the differences."""
    counts: Counter[str] = Counter()
    differences: list[Row] = []
    for number, (label, read) in enumerate(pair(labels, [describe(launch) for launch in launches]), 1):
        if label is None or read is None:
            counts["launches"] += 1
            differences.append(Row(file, kind, number, "launches", label and "a launch", read and "a launch"))
            continue
        counts["launches"] += 1
        for field in FIELDS:
            counts[field] += 1
            if not agrees(field, label.get(field), read[field]):
                differences.append(Row(file, kind, number, field, label.get(field), read[field]))
    return counts, differences


def score(folder: Path) -> tuple[dict[str, Counter[str]], list[Row], dict[str, list[FoundLaunch]], list[str]]:
    """Counts for each kind, all differences, what was read of every file, and where an engine's reader disagrees."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    rows: list[Row] = []
    everything: dict[str, list[FoundLaunch]] = {}
    quarrels: list[str] = []
    argued = yaml.safe_load(ARGUED.read_text()) if ARGUED.exists() else {}
    entries: list[tuple[str, str, Any, str]] = []
    for line in (folder / "INDEX.jsonl").read_text().splitlines():
        entry = json.loads(line)
        entries.append((entry["file"], entry["kind"], entry["launches"], (folder / entry["file"]).read_text()))
    commands = folder / "commands.jsonl"
    for line in commands.read_text().splitlines() if commands.exists() else []:
        entry = json.loads(line)
        record = {key: value for key, value in entry.items() if key in {"id", "commands", "environment"}}
        entries.append((f"commands.jsonl#{entry['id']}", "commands", entry["launches"], json.dumps(record)))
    for file, kind, labels, text in entries:
        found = find_launches(text, Path(file.replace("#", "/")).name if kind != "commands" else "commands.jsonl")
        everything[file] = found.launches
        if labels is None:
            continue
        some, differences = compare(file, kind, labels, found.launches)
        counts[kind] += some
        reasons = (argued or {}).get(file, {})
        for row in differences:
            row.argued = reasons.get(row.field, reasons.get("*", ""))
        rows += differences
        for launch in found.launches:
            mine = describe(launch)
            for field, value in by_reader(launch).items():
                if mine[field] is not None and not isinstance(mine[field], str) and mine[field] != value:
                    quarrels.append(f"{file}: {field}: scan {mine[field]!r}, engine's reader {value!r}")
    return counts, rows, everything, quarrels


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0])
    counts, rows, everything, quarrels = score(folder)
    wrong: Counter[tuple[str, str]] = Counter((row.kind, row.field) for row in rows)
    fields = ("launches", *FIELDS)
    print(f"{'kind':<16}" + "".join(f"{field[:14]:>16}" for field in fields))
    for kind in sorted(counts):
        print(f"{kind:<16}" + "".join(f"{counts[kind][field] - wrong[kind, field]:>9}/{counts[kind][field]:<6}" for field in fields))
    total: Counter[str] = Counter()
    for kind in counts:
        total += counts[kind]
    print(f"{'all':<16}" + "".join(f"{total[field] - sum(wrong[kind, field] for kind in counts):>9}/{total[field]:<6}" for field in fields))
    print(f"\n{len(rows)} differences, {sum(bool(row.argued) for row in rows)} of them argued")
    for row in rows:
        print(f"{row.file} launch {row.number} {row.field}: label {row.label!r}, read {row.read!r}" + (f"  [argued: {row.argued}]" if row.argued else ""))
    for quarrel in quarrels:
        print(quarrel)
    if "--all" in arguments:
        for file, launches in everything.items():
            for launch in launches:
                print(file, json.dumps(describe(launch), default=str), launch.notes)
    return 1 if any(not row.argued for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
