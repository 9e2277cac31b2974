"""What is decided arrives in real vLLM configurations, through vLLM's own loading of plug-ins.

Needs `python tests/engines/prepare.py`. One release always; the others with `--engines all`.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engines.prepare import ENVIRONMENT, RELEASES

DENSE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_attention_heads": 64, "num_hidden_layers": 80,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16", "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip
EXPERTS = {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2, "rms_norm_eps": 1e-05, "torch_dtype": "bfloat16", "vocab_size": 32000,
}  # fmt: skip
STAGES = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
REPLICAS = {"tensor_parallel_size": 2, "data_parallel_size": 2}
FORCED = {"compilation_config": {"pass_config": {"fuse_allreduce_rms": True}}}
ALWAYS = "0.22.1"
PINS = {"0.17.1": "0.6.4", "0.20.2": "0.6.8.post1", "0.22.1": "0.6.11.post2", "0.23.0": "0.6.12", "0.24.0": "0.6.12", "0.33.0": "0.7.2.post1"}


def configuration(version: str, config: dict[str, Any], arguments: dict[str, Any], folder: Path, mode: str | None) -> tuple[dict[str, Any], str]:
    flashinfer = PINS[version]
    missing = [path for path in (ENVIRONMENT / "ready", RELEASES / f"vllm-{version}", RELEASES / f"flashinfer-python-{flashinfer}") if not path.exists()]
    if missing:
        pytest.skip(f"not prepared: run `python tests/engines/prepare.py vllm={version} flashinfer-python={flashinfer}`")
    (folder / "config.json").write_text(json.dumps(config))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FUSION_POLICY", "VLLM_"))}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    if mode is not None:
        environment["FUSION_POLICY_MODE"] = mode
    script = Path(__file__).with_name("vllm_configuration.py")
    command = [str(ENVIRONMENT / "bin" / "python"), str(script), version, flashinfer, str(folder), "9.0", json.dumps(arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    assert line is not None, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(line[len("RESULT ") :]), done.stdout + done.stderr


def test_without_a_mode_the_plugin_does_nothing(tmp_path: Path) -> None:
    result, output = configuration(ALWAYS, DENSE, STAGES, tmp_path, None)
    assert result["pass_config"]["fuse_allreduce_rms"] is True
    assert "fusion-policy" not in output


@pytest.mark.parametrize("arguments", [STAGES, {**STAGES, **FORCED}], ids=["unset", "forced"])
def test_enforce_turns_the_hazard_off(tmp_path: Path, arguments: dict[str, Any]) -> None:
    result, output = configuration(ALWAYS, DENSE, arguments, tmp_path, "enforce")
    assert result["pass_config"]["fuse_allreduce_rms"] is False
    assert '"reason": "rendezvous-over-world"' in output


def test_advise_changes_nothing_and_says_so(tmp_path: Path) -> None:
    result, output = configuration(ALWAYS, DENSE, STAGES, tmp_path, "advise")
    assert result["pass_config"]["fuse_allreduce_rms"] is True
    assert '"mode": "advise"' in output
    assert '"value": false' in output


def test_fail_refuses_to_start(tmp_path: Path) -> None:
    result, _ = configuration(ALWAYS, DENSE, STAGES, tmp_path, "fail")
    assert "RefusedLaunchError" in result["error"]


def test_replicas_of_experts(tmp_path: Path) -> None:
    result, _ = configuration(ALWAYS, EXPERTS, REPLICAS, tmp_path, "enforce")
    assert result["pass_config"]["fuse_allreduce_rms"] is False


@pytest.mark.engines
@pytest.mark.parametrize(
    ("version", "config", "arguments", "expected"),
    [
        ("0.17.1", DENSE, {**STAGES, **FORCED}, False),
        ("0.23.0", EXPERTS, REPLICAS, False),
        ("0.24.0", DENSE, STAGES, True),
        ("0.24.0", EXPERTS, REPLICAS, True),
        ("0.33.0", DENSE, STAGES, True),
    ],
)
def test_other_releases(tmp_path: Path, version: str, config: dict[str, Any], arguments: dict[str, Any], expected: bool) -> None:
    result, _ = configuration(version, config, arguments, tmp_path, "enforce")
    assert result["pass_config"]["fuse_allreduce_rms"] is expected
