"""Fields of charts and custom resources, in camel case, that become options of vLLM."""

from __future__ import annotations

from collections.abc import Mapping

from policy.launchers.containers.reading.launches import field_of
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.yaml_places import Node

#: Fields of the production stack's `vllmConfig` and of its VLLMRuntime -> vLLM's option.
OPTIONS = {
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "dataParallelSize": "--data-parallel-size",
    "maxModelLen": "--max-model-len",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "dtype": "--dtype",
    "maxLoras": "--max-loras",
    "enableChunkedPrefill": "--enable-chunked-prefill",
    "enablePrefixCaching": "--enable-prefix-caching",
    "enableLoRA": "--enable-lora",
    "enforceEager": "--enforce-eager",
}
_ON_ONLY = {"enableLoRA", "enforceEager"}


def options_of(holder: Node | None, options: Mapping[str, str], leave_out: frozenset[str] = frozenset()) -> list[Field]:
    """The options that the fields of `holder` become; a false one becomes `--no-...` where vLLM knows that."""
    words: list[Field] = []
    for key, value in holder.items() if holder is not None else ():
        option = options.get(key)
        if option is None or key in leave_out or value.kind != "scalar" or value.value is None:
            continue
        place = field_of(value).place
        if isinstance(value.value, bool):
            if value.value:
                words.append(Field(option, place))
            elif key not in _ON_ONLY:
                words.append(Field("--no-" + option[2:], place))
        else:
            words += [Field(option, place), field_of(value)]
    return words
