"""What commands and their environment say about the facts that single hazards depend on."""

from __future__ import annotations

from functools import lru_cache

import pytest

from policy.evaluate import evaluate
from policy.launch import Launch
from policy.launchers.read import from_command, read_launch
from policy.load import read_pack
from policy.pack import Pack, SettingMap


@lru_cache(maxsize=1)
def pack() -> Pack:
    """The pack of this checkout."""
    return read_pack()


VLLM = "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2"
SGLANG = "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --tp 2"


@pytest.mark.parametrize(
    ("command", "fact", "value"),
    [
        (f"{VLLM} --disable-custom-all-reduce", "engine.custom_all_reduce", False),
        (f"{VLLM} --enforce-eager", "engine.cudagraph_mode", "none"),
        (f"{VLLM} -cc.cudagraph_mode=FULL", "engine.cudagraph_mode", "full"),
        (f"{VLLM} -cc.cudagraph_mode=FULL --enforce-eager", "engine.cudagraph_mode", "none"),
        (f"{VLLM} --model-impl transformers", "engine.model_implementation", "transformers"),
        (f"{VLLM} --enable-sleep-mode", "engine.sleep_mode", True),
        (VLLM + ' --speculative-config {"method":"mtp","num_speculative_tokens":2}', "engine.speculative_method", "mtp"),
        (VLLM + ' --speculative-config {"model":"a/draft","num_speculative_tokens":2}', "engine.speculative_method", "unspecified"),
        (f"VLLM_ALLREDUCE_USE_SYMM_MEM=0 {VLLM}", "engine.symm_mem_all_reduce", False),
        (f"VLLM_USE_NCCL_SYMM_MEM=1 {VLLM}", "engine.nccl_symm_mem", True),
        (f"PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True {VLLM}", "engine.expandable_segments", True),
        (f"PYTORCH_ALLOC_CONF=expandable_segments:True {SGLANG}", "engine.expandable_segments", True),
        (f"{SGLANG} --model-impl transformers", "engine.model_implementation", "transformers"),
    ],
)
def test_a_command_states_the_fact(command: str, fact: str, value: object) -> None:
    version = "0.28.0" if "vllm" in command else "0.5.18"
    read = read_launch(pack(), from_command(command.split()), version, None, False, {})
    assert not read.errors
    assert read.launch.given[fact].values.single() == value


def test_an_allocator_without_such_segments_says_nothing() -> None:
    command = f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False {VLLM}"
    assert "engine.expandable_segments" not in read_launch(pack(), from_command(command.split()), "0.28.0", None, False, {}).launch.given


def test_a_part_of_a_value_is_found_in_any_case() -> None:
    said = SettingMap("engine.expandable_segments", given=True, contains="expandable_segments:true")
    assert said.fact_value("a:1,expandable_segments:True") is True
    assert said.fact_value("a:1") is None


def test_what_the_command_switches_off_is_off() -> None:
    """Not the engine's default: the flag itself."""
    read = read_launch(pack(), from_command(f"{VLLM} --disable-custom-all-reduce".split()), "0.28.0", None, False, {})
    assert evaluate(pack(), read.launch, "safe", ["custom_allreduce"])["custom_allreduce"].state == "off"


ON_PCIE = {
    "engine.name": "sglang",
    "device.platform": "cuda",
    "device.p2p": True,
    "packages.flashinfer-python": "0.7.2",
    "model.dtype": "bfloat16",
    "parallel.nodes": 1,
}


@pytest.mark.parametrize(
    ("release", "given", "ranks", "state"),
    [("0.5.21", True, 4, "on"), ("0.5.20", True, 4, "off"), ("0.5.21", False, 4, "off"), ("0.5.23", True, 6, "off"), ("0.5.23", True, 8, "on")],
)
def test_the_all_reduce_for_pcie(release: str, given: bool, ranks: int, state: str) -> None:
    """Asked for by a variable since 0.5.21, for 2, 4 or 8 ranks."""
    launch = Launch.of(pack(), {**ON_PCIE, "engine.version": release, "engine.pcie_ipc_allreduce": given, "parallel.tensor_parallel_size": ranks})
    assert evaluate(pack(), launch, "safe", ["pcie_ipc_allreduce"])["pcie_ipc_allreduce"].state == state


@pytest.mark.parametrize(("ranks", "state"), [(1, "off"), (2, "on")])
def test_the_adapter_builds_nothing_for_one_rank(ranks: int, state: str) -> None:
    asked = {"engine.version": "0.5.23", "runtime.builder": "adapter", "request.pcie_ipc_allreduce": "on", "parallel.tensor_parallel_size": ranks}
    assert evaluate(pack(), Launch.of(pack(), {**ON_PCIE, **asked}), "safe", ["pcie_ipc_allreduce"])["pcie_ipc_allreduce"].state == state
