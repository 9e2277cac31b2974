"""`engine_kwargs` and variables of a Ray Serve LLM application, made from decisions.

python examples/ray_serve/application.py 0.22.1
"""

from __future__ import annotations

import json
import sys
from typing import Any

from policy import decide

MODEL = "meta-llama/Llama-3.1-70B-Instruct"


def configuration(version: str) -> dict[str, Any]:
    """The arguments of `ray.serve.llm.LLMConfig` for two pipeline stages of two H200 each."""
    verdict = decide({
        "engine": {"name": "vllm", "version": version, "executor": "ray"},
        "parallel": {"tensor_parallel_size": 2, "pipeline_parallel_size": 2, "nodes": 1},
        "device": {"platform": "cuda", "compute_capability": "9.0", "interconnect": "nvswitch", "gpus_per_node": 8},
    })  # fmt: skip
    decision = verdict["allreduce_rms"]
    keywords: dict[str, Any] = {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}
    if decision.state == "off" and decision.against_engine == "narrower":
        keywords["compilation_config"] = {"pass_config": {"fuse_allreduce_rms": False}}
    variables = {"FUSION_POLICY_MODE": "enforce", "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY": "FUSION_POLICY_"}
    variables.update(switch.text.split("=", 1) for switch in decision.switches if switch.kind == "env")
    return {"model_loading_config": {"model_id": "llama", "model_source": MODEL}, "engine_kwargs": keywords, "runtime_env": {"env_vars": variables}}


if __name__ == "__main__":
    # ray.serve.run(build_openai_app({"llm_configs": [LLMConfig(**configuration(vllm.__version__))]}))
    print(json.dumps(configuration(sys.argv[1]), indent=1))
