"""A model's config.json: facts with the keys they come from, what stands beside it, and launch lines that say otherwise.

The configurations are in tests/model_configs, each with every fact that it settles; what is not listed stays unknown."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from policy.launchers.model_config import file_facts, find_config
from policy.launchers.model_facts import config_facts
from policy.launchers.model_quantisation import scheme_of
from policy.launchers.plugins.common import Statement
from policy.launchers.plugins.vllm import _state_model
from policy.launchers.read import from_command, read_launch
from policy.load import read_pack
from policy.origin import Origin
from policy.pack import Pack

HERE = Path(__file__).parent / "model_configs"


def models() -> list[Any]:
    """Every configuration with its expected facts."""
    return [pytest.param(case, id=name) for file in sorted(HERE.glob("*.yaml")) for name, case in yaml.safe_load(file.read_text()).items()]


@pytest.fixture(scope="module")
def pack() -> Pack:
    return read_pack()


@pytest.mark.parametrize("case", models())
def test_every_fact_with_the_key_it_comes_from(pack: Pack, case: dict[str, Any]) -> None:
    stated = list(config_facts(case["config"], "config.json", case.get("whole", False), (case.get("beside"), "hf_quant_config.json")))
    found = {fact: [value, origin.detail] for fact, value, origin in stated}
    assert found == case["expect"]
    assert len(stated) == len(found)
    for fact, value, origin in stated:
        held = pack.fact(fact)
        assert held is not None
        held.values(value)
        assert origin.kind == "model_config"


@pytest.mark.parametrize(
    ("stated", "scheme"),
    [
        ({"quant_method": "fp8", "activation_scheme": "static"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": None}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}}, "nvfp4"),
        ({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION"}}, None),
        ({"quant_method": "mxfp8", "weight_block_size": [1, 32]}, "mxfp8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "bitsandbytes"),
        ({"quant_method": "a-new-one"}, None),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, None),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}}, None),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]},
                        "input_activations": {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128},
                    }
                },
            },
            "fp8_block",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {
                        "weights": {"num_bits": 4, "type": "float", "group_size": 16},
                        "input_activations": {"num_bits": 4, "type": "float", "group_size": 16},
                    }
                },
            },
            "nvfp4",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": None},
                    "group_1": {"weights": {"num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8, "type": "int"}},
                },
            },
            None,
        ),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group"}, "input_tensors": {"dtype": "fp4", "qscheme": "per_group"}},
            },
            "mxfp4",
        ),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "qscheme": "per_group"}, "input_tensors": None}}, None),
    ],
)
def test_the_scheme_of_a_quantisation(stated: dict[str, Any], scheme: str | None) -> None:
    found = scheme_of(stated)
    assert (found[0] if found else None) == scheme


@pytest.mark.parametrize(
    ("config", "fact", "value"),
    [
        ({"hidden_size": 64, "num_experts": 1}, "model.is_moe", None),
        ({"hidden_size": 64, "num_experts": 0}, "model.is_moe", False),
        ({"hidden_size": 64, "model_type": "qwen2_moe", "num_experts": 0}, "model.is_moe", False),
        ({"hidden_size": 64, "model_type": "nemotron_h"}, "model.is_moe", None),
        (
            {"hidden_size": 64, "block_configs": [{"block_type": "moe", "n_routed_experts": 8}, {"block_type": "moe", "n_routed_experts": 4}]},
            "model.moe_layers_differ",
            True,
        ),
        ({"model_type": "mixtral"}, "model.is_moe", True),
        ({"model_type": "minicpm3", "kv_lora_rank": 256, "hidden_size": 2560, "num_attention_heads": 40}, "model.latent_attention", None),
        ({"model_type": "deepseek_v2", "kv_lora_rank": None, "hidden_size": 2048, "num_attention_heads": 16}, "model.latent_attention", False),
        (
            {"model_type": "deepseek_v4", "compress_ratios": [4, 128], "head_dim": 512, "hidden_size": 4096, "num_attention_heads": 64},
            "model.latent_attention",
            True,
        ),
        ({"model_type": "gemma4_text", "head_dim": 256, "hidden_size": 2304, "num_attention_heads": 8}, "model.head_sizes", None),
        (
            {"model_type": "gemma4_text", "head_dim": 256, "per_layer_config": {"5": {"head_dim": 512}}, "hidden_size": 2304, "num_attention_heads": 8},
            "model.head_sizes",
            ["256", "512"],
        ),
        ({"model_type": "nobody-read-it", "hidden_size": 2304, "num_attention_heads": 8}, "model.head_sizes", None),
        ({"model_type": "gpt_neox", "rotary_pct": 1.0, "hidden_size": 64, "num_attention_heads": 1}, "model.partial_rotary", False),
        ({"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 1}, "model.partial_rotary", True),
        ({"model_type": "minimax_m3_vl_text", "use_gemma_norm": False}, "model.norm_style", "standard"),
        ({"hidden_size": 64, "quantization_config": "fp8"}, "model.quantization", None),
        ({"thinker_config": {"text_config": {"hidden_size": 2048}}, "hidden_size": 1}, "model.hidden_size", 2048),
        ({"llm_config": {"hidden_size": 2048}}, "model.hidden_size", 2048),
        ({"language_config": {"hidden_size": 2048}}, "model.hidden_size", 2048),
    ],
)
def test_edges(config: dict[str, Any], fact: str, value: Any) -> None:
    assert {name: held for name, held, _ in config_facts(config, "config.json", whole=True)}.get(fact) == value


def _folder(tmp_path: Path, config: dict[str, Any], beside: dict[str, Any] | None = None) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    if beside is not None:
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    return tmp_path


def _read(pack: Pack, words: list[str]) -> dict[str, tuple[Any, Origin]]:
    given = read_launch(pack, from_command(words), version="0.24.0" if words[0] == "vllm" else "0.5.14", probe=False).launch.given
    return {name: (held.values.single(), held.origin) for name, held in given.items()}


def test_what_modelopt_wrote_beside_is_read_with_its_own_name(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"hidden_size": 64}, {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4"}})
    path = find_config(str(folder))
    assert path is not None
    facts = {name: (value, str(origin)) for name, value, origin in file_facts(path, str(folder))[0]}
    assert facts["model.quantization"] == ("nvfp4", f"{folder}/hf_quant_config.json (`quant_algo`)")


def test_no_quantisation_is_known_of_a_whole_checkpoint_only(tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"hidden_size": 64})
    file = folder / "config.json"
    assert "model.quantization" not in {name for name, _, _ in file_facts(file, str(file))[0]}
    assert ("model.quantization", "none") in [(name, value) for name, value, _ in file_facts(file, str(folder))[0]]
    (folder / "model-00001-of-00001.safetensors").write_bytes(b"")
    assert ("model.quantization", "none") in [(name, value) for name, value, _ in file_facts(file, str(file))[0]]


BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128]}


@pytest.mark.parametrize(
    ("words", "stated", "scheme", "kind"),
    [
        (["vllm", "serve", "FOLDER"], BLOCKS, "fp8_block", "model_config"),
        (["vllm", "serve", "FOLDER", "--quantization", "fp8"], BLOCKS, "fp8_block", "argument"),
        (["vllm", "serve", "FOLDER", "--quantization", "fp8"], None, "fp8", "argument"),
        (["vllm", "serve", "FOLDER", "--quantization", "compressed-tensors"], None, "none", "model_config"),
        (["vllm", "serve", "FOLDER", "--quantization", "awq_marlin"], {"quant_method": "awq"}, "awq", "argument"),
        (["python", "-m", "sglang.launch_server", "--model-path", "FOLDER", "--quantization", "fp8"], BLOCKS, "fp8_block", "argument"),
        (["python", "-m", "sglang.launch_server", "--model-path", "FOLDER", "--quantization", "modelopt_fp4"], None, "nvfp4", "argument"),
        (["python", "-m", "sglang.launch_server", "--model-path", "FOLDER", "--quantization", "modelopt"], {"quant_algo": "FP8"}, "fp8", "model_config"),
    ],
)
def test_a_launch_line_wins_and_leaves_its_details_to_the_checkpoint(
    pack: Pack, tmp_path: Path, words: list[str], stated: dict[str, Any] | None, scheme: str, kind: str
) -> None:
    folder = _folder(tmp_path, {"hidden_size": 64, "torch_dtype": "bfloat16", **({"quantization_config": stated} if stated else {})})
    facts = _read(pack, [str(folder) if word == "FOLDER" else word for word in words])
    value, origin = facts["model.quantization"]
    assert (value, origin.kind) == (scheme, kind)


def test_a_dtype_of_the_launch_line_wins(pack: Pack, tmp_path: Path) -> None:
    folder = _folder(tmp_path, {"hidden_size": 64, "torch_dtype": "bfloat16"})
    assert _read(pack, ["vllm", "serve", str(folder), "--dtype", "half"])["model.dtype"][0] == "float16"
    assert _read(pack, ["vllm", "serve", str(folder), "--dtype", "auto"])["model.dtype"][0] == "bfloat16"


def test_the_width_of_a_draft_model_is_read_from_its_own_file(pack: Pack, tmp_path: Path) -> None:
    for name, size in (("target", 4096), ("draft", 2048)):
        (tmp_path / name).mkdir()
        _folder(tmp_path / name, {"hidden_size": size})
    draft = json.dumps({"model": str(tmp_path / "draft"), "method": "eagle3", "num_speculative_tokens": 3})
    facts = _read(pack, ["vllm", "serve", str(tmp_path / "target"), "--speculative-config", draft])
    assert (facts["model.hidden_size"][0], facts["model.draft_hidden_size"][0]) == (4096, 2048)
    words = ["python", "-m", "sglang.launch_server", "--model-path", str(tmp_path / "target"), "--speculative-algorithm", "EAGLE3"]
    facts = _read(pack, [*words, "--speculative-draft-model-path", str(tmp_path / "draft")])
    assert facts["model.draft_hidden_size"][0] == 2048


@pytest.mark.parametrize(
    ("method", "stated", "scheme"),
    [
        (None, None, "none"),
        ("fp8", None, "fp8"),
        ("fp8", BLOCKS, "fp8_block"),
        ("compressed-tensors", None, None),
        ("modelopt", {"quant_algo": "NVFP4"}, "nvfp4"),
    ],
)
def test_the_plug_in_reads_the_configuration_that_the_engine_has(pack: Pack, method: str | None, stated: dict[str, Any] | None, scheme: str | None) -> None:
    config = {"model_type": "deepseek_v3", "hidden_size": 7168, "kv_lora_rank": 512, **({"quantization_config": stated} if stated else {})}
    model = SimpleNamespace(model="a/b", dtype="torch.bfloat16", enforce_eager=False, quantization=method, hf_config=SimpleNamespace(to_dict=lambda: config))
    statement = Statement(pack)
    _state_model(statement, pack.products["vllm"], model, Origin("argument", "vLLM's configuration"))
    given = {name: held.values.single() for name, held in statement.launch.given.items()}
    assert (given["model.latent_attention"], given["model.is_moe"], given["model.dtype"]) == (True, True, "bfloat16")
    assert given.get("model.quantization") == scheme
