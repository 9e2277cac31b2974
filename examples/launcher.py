"""Ask before a server is started: ten lines for a launcher.

python examples/launcher.py 0.22.1 2 2
"""

from __future__ import annotations

import shlex
import sys

from policy import decide


def command(version: str, tensor_parallel_size: int, pipeline_parallel_size: int) -> list[str]:
    """The words of `vllm serve` with what is decided about all-reduce + RMSNorm on eight H200."""
    words = ["vllm", "serve", "meta-llama/Llama-3.1-70B-Instruct", "-tp", str(tensor_parallel_size), "-pp", str(pipeline_parallel_size)]
    verdict = decide({
        "engine": {"name": "vllm", "version": version},
        "parallel": {"tensor_parallel_size": tensor_parallel_size, "pipeline_parallel_size": pipeline_parallel_size, "nodes": 1},
        "device": {"platform": "cuda", "compute_capability": "9.0", "interconnect": "nvswitch", "gpus_per_node": 8},
    })  # fmt: skip
    decision = verdict["allreduce_rms"]
    print(f"{decision.fusion} is {decision.state}: {decision.reason.title or decision.reason.id}", file=sys.stderr)
    return words + [word for switch in decision.switches if switch.kind == "flag" for word in shlex.split(switch.text)]


if __name__ == "__main__":
    print(shlex.join(command(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
