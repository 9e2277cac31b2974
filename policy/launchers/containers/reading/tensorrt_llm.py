"""Options of TensorRT-LLM -> facts: its command line, and the YAML of its LLM API."""

from __future__ import annotations

import json
import re
from typing import Any

from policy.launchers.found import FoundLaunch, Stated, Word
from policy.launchers.yaml_places import Node, read_documents

#: Option (dashes as underscores) -> fact.
FACTS = {
    "tp_size": "parallel.tensor_parallel_size",
    "tp": "parallel.tensor_parallel_size",
    "tensor_parallel_size": "parallel.tensor_parallel_size",
    "pp_size": "parallel.pipeline_parallel_size",
    "pp": "parallel.pipeline_parallel_size",
    "pipeline_parallel_size": "parallel.pipeline_parallel_size",
    "ep_size": "parallel.expert_parallel_size",
    "expert_parallel_size": "parallel.expert_parallel_size",
    "moe_expert_parallel_size": "parallel.expert_parallel_size",
    "cp_size": "parallel.context_parallel_size",
    "context_parallel_size": "parallel.context_parallel_size",
    "enable_attention_dp": "parallel.dp_attention",
    "gpus_per_node": "device.gpus_per_node",
    "gpu_per_node": "device.gpus_per_node",
    "allreduce_strategy": "engine.allreduce_strategy",
    "model": "model.name",
    "model_path": "model.name",
}
_FILES = {"config", "extra_llm_api_options", "extra_engine_args"}


def state_options(launch: FoundLaunch, options: Node) -> None:
    """States what a mapping of LLM API options says, also inside `llm_api_args`."""
    for holder in (options, options.at("llm_api_args"), options.at("build_config")):
        for key, value in holder.items() if holder is not None else ():
            fact = FACTS.get(key.replace("-", "_"))
            if fact is not None and value.kind == "scalar" and value.value is not None:
                launch.stated[fact] = Stated(_typed(value.text, value.value), value.origin(key))


def state_command(launch: FoundLaunch) -> None:
    """States what the command line says; a file of options that the same source carries comes after it, as the engine
    reads it; `--override-engine-args` last."""
    words = list(launch.words)
    named: list[str] = []
    overrides: list[tuple[str, Word]] = []
    for at, word in enumerate(words):
        if not word.text.startswith("-"):
            continue
        option, equals, value = word.text.partition("=")
        key = option.lstrip("-").replace("-", "_")
        following = words[at + 1] if at + 1 < len(words) else None
        given = value if equals else following.text if following is not None and not following.text.startswith("--") else None
        if key in _FILES and given:
            named.append(given)
        elif key == "override_engine_args" and given:
            overrides.append((given, word))
        elif key in FACTS and given is not None:
            launch.stated[FACTS[key]] = Stated(_typed(given, None), word.origin)
    for file in named:
        text = launch.files.get(file)
        for document in read_documents(text, file).documents if text is not None else []:
            if document.kind == "mapping":
                state_options(launch, document)
    for text, word in overrides:
        try:
            given_options: Any = json.loads(text)
        except ValueError:
            continue
        for key, value in given_options.items() if isinstance(given_options, dict) else ():
            if key in FACTS:
                launch.stated[FACTS[key]] = Stated(value, word.origin)
    _state_model(launch, words)


def _state_model(launch: FoundLaunch, words: list[Word]) -> None:
    """`trtllm-serve [serve] MODEL`."""
    if words and words[0].text.rpartition("/")[2] == "trtllm-serve":
        rest = words[2:] if len(words) > 1 and words[1].text == "serve" else words[1:]
        if rest and not rest[0].text.startswith("-"):
            launch.stated.setdefault("model.name", Stated(rest[0].text, rest[0].origin))


def _typed(text: str, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if re.fullmatch(r"\d{1,9}", text.strip()):
        return int(text)
    if text.lower() in {"true", "false"}:
        return text.lower() == "true"
    return text
