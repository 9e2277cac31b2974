"""What an image name says about the engine inside it."""

from __future__ import annotations

import re

#: Parts of names of images that stand beside an engine and hold none.
_BESIDE = re.compile(
    r"router|gateway|\bmock|-mock|proxy|sidecar|endpoint-picker|\bepp\b|inference-sim|simulator|lora-syncer|scheduler|frontend|runtime:|download|"
    r"exporter|grafana|prometheus|nginx|envoy|busybox|curl|redis|\betcd\b|\bnats\b|controller|operator|benchmark|-bench\b|genai-perf|dashboard|webui",
    re.IGNORECASE,
)
_ENGINES = (
    ("tensorrt_llm", re.compile(r"tensorrt-?_?llm|trt-?_?llm", re.IGNORECASE)),
    ("sglang", re.compile(r"sglang", re.IGNORECASE)),
    ("vllm", re.compile(r"vllm|/llm-d(?:-(?:cuda|rocm|xpu|gaudi|cpu|aws|tpu|hpu|gb200))?(?:-dev)?(?=[:@]|$)|ray-llm|huggingfaceserver", re.IGNORECASE)),
)
_DYNAMO = re.compile(r"(vllm|sglang|tensorrtllm|trtllm)-runtime", re.IGNORECASE)


def engine_of_image(image: str) -> str | None:
    """`vllm`, `sglang` or `tensorrt_llm`, or None where the name does not tell or names something beside an engine."""
    name = image.rpartition("/")[2]
    if _DYNAMO.search(image) is None and (_BESIDE.search(name) or _BESIDE.search(image.split("@")[0].rpartition("/")[2])):
        return None
    for engine, pattern in _ENGINES:
        if pattern.search(image):
            return engine
    return None


def stands_in(image: str) -> bool:
    """Whether an image only plays an engine: a simulator, a mock."""
    return re.search(r"\bsim\b|-sim\b|simulat|mock|fake", image.rpartition("/")[2], re.IGNORECASE) is not None


def serves_by_itself(image: str) -> bool:
    """Whether the image's own entry point is the engine's server, so that it starts without a command."""
    return re.search(r"/vllm-openai(?:-\w+)?(?=[:@]|$)", image, re.IGNORECASE) is not None


_SERVERS = {"vllm": ("vllm", "serve"), "sglang": ("python3", "-m", "sglang.launch_server"), "tensorrt_llm": ("trtllm-serve",)}
_API_SERVER = ("python3", "-m", "vllm.entrypoints.openai.api_server")


def server_of_image(image: str, engine: str) -> tuple[str, ...]:
    """The program that an engine's image starts. Before 0.11.1 vLLM's images, which are documented with `--model`, start
    the API server's module: `vllm serve` of those releases refuses that option."""
    tag = re.search(r"/vllm-openai:v?(\d+)\.(\d+)(?:\.(\d+))?(?:[.-]|$)", image.partition("@")[0]) if engine == "vllm" else None
    early = tag is not None and tuple(int(part or 0) for part in tag.groups()) < (0, 11, 1)
    return _API_SERVER if early else _SERVERS[engine]
