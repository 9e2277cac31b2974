"""Runs several configurations in one process of the engines' environment, since importing an engine takes ten seconds."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engines.prepare import COMPLETE, ENVIRONMENT, RELEASES

HERE = Path(__file__).parent
DENSE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16", "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip
EXPERTS = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16", "vocab_size": 32000,
}  # fmt: skip
QWEN = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536,
    "num_attention_heads": 64, "num_hidden_layers": 94, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8, "rms_norm_eps": 1e-06,
    "torch_dtype": "bfloat16", "vocab_size": 151936, "max_position_embeddings": 40960, "decoder_sparse_step": 1, "norm_topk_prob": True,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One configuration: the model's `config.json`, the mode (None: not set), the engine's arguments, who builds, and the
    decision that is in the environment already."""

    model: dict[str, Any]
    mode: str | None
    arguments: Any
    builder: str | None = None
    decision: str | None = None


@dataclass(frozen=True)
class Answer:
    """What the engine made, what it said meanwhile, and the plug-in's log records."""

    result: dict[str, Any]
    output: str

    def record(self, fusion: str = "allreduce_rms") -> dict[str, Any]:
        """The one log record about a fusion."""
        found = [json.loads(match) for match in re.findall(r"\{\"event\": \"fusion-policy\".*\}", self.output)]
        mine = [one for one in found if one["fusion"] == fusion]
        assert len(mine) == 1, f"{len(mine)} records about {fusion}"
        return mine[0]


def answers(engine: str, version: str, flashinfer: str, capability: str, cases: list[Case], folder: Path, facts: str = "", **variables: str) -> list[Answer]:
    """Every case of one release. Skips where the release is not prepared."""
    release = RELEASES / f"{engine}-{version}"
    needed = [ENVIRONMENT / "ready", release / COMPLETE if engine == "sglang" else release, RELEASES / f"flashinfer-python-{flashinfer}"]
    more = ["torchvision=0.28.0"] if engine == "sglang" else []
    if not all(path.exists() for path in (*needed, *(RELEASES / one.replace("=", "-") for one in more))):
        pytest.skip(f"not prepared: run `{' '.join(['python tests/engines/prepare.py', f'{engine}={version}', f'flashinfer-python={flashinfer}', *more])}`")
    given = []
    for case in cases:
        model = folder / str(case.model["model_type"])
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps(case.model))
        given.append({"model": str(model), "mode": case.mode, "arguments": case.arguments, "builder": case.builder, "decision": case.decision})
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FUSION_POLICY", "VLLM_", "SGLANG_", "PYTHONPATH"))}
    environment.update(XDG_CACHE_HOME=str(folder / "cache"), **variables)
    if facts:
        (folder / "facts.yaml").write_text(facts)
        environment["FUSION_POLICY_FACTS"] = str(folder / "facts.yaml")
    command = [str(ENVIRONMENT / "bin" / "python"), str(HERE / f"{engine}_configuration.py"), version, flashinfer, capability, json.dumps(given)]
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    parts = re.split(r"^CASE \d+$", done.stdout, flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        line = next((line for line in part.splitlines() if line.startswith("RESULT ")), None)
        assert line is not None, done.stdout[-3000:]
        found.append(Answer(json.loads(line[len("RESULT ") :]), part))
    assert len(found) == len(cases), done.stdout[-3000:]
    return found
