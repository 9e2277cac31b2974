"""Shell scripts, Slurm batch scripts among them: whatever ends in an engine's command line."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.launches import merge_parts
from policy.launchers.containers.reading.scripts import MAX_CHARACTERS, read_script
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated
from policy.launchers.yaml_places import Node
from policy.origin import Origin

NAME = "shell script"
LOOKS_FOR = "a command line that starts vLLM, SGLang or TensorRT-LLM"
YAML = False

_ENGINE = re.compile(r"vllm|sglang|trtllm|tensorrt_llm|huggingfaceserver", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^#SBATCH\s+(--?[\w-]+)(?:[=\s]\s*(\S+))?", re.MULTILINE)


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    if not _ENGINE.search(text):
        return 0
    if text.startswith("#!") or name.endswith((".sh", ".bash", ".slurm", ".sbatch")) or "#SBATCH" in text:
        return 90
    if _FENCE.search(text):
        return 0  # a page about commands
    return 5 if any(document.kind != "scalar" for document in documents) else 20


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    if len(text) > MAX_CHARACTERS:
        message = f"only the first {MAX_CHARACTERS} characters of the script are read"
        problems.append(LaunchNotice("too-large", message, Origin("file", file=name)))
    directives = {match.group(1): (match.group(2) or "", match.start()) for match in _DIRECTIVE.finditer(text)}

    def place(offset: int) -> tuple[str, int, int]:
        return name, text.count("\n", 0, offset) + 1, 1

    variables: dict[str, Field] = {}
    nodes = _given(directives, "--nodes", "-N")
    gpus = _given(directives, "--gpus-per-node", "--gres", "--gpus")
    tasks = _given(directives, "--ntasks-per-node")
    count = re.search(r"(\d+)$", gpus[0]) if gpus else None
    for names, given in ((("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes), (("SLURM_NTASKS_PER_NODE",), tasks)):
        if given is not None:
            variables.update({key: Field(given[0], place(given[1])) for key in names})
    if gpus and count:
        variables.update({key: Field(count.group(1), place(gpus[1])) for key in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE")})
    launches = merge_parts(read_script(text, name, variables=variables))
    commands = {(word.origin.line, word.origin.column) for launch in launches for word in launch.words[:1]}
    for launch in launches:
        if nodes is not None and nodes[0].isdigit() and len(commands) == 1:
            launch.stated["parallel.nodes"] = Stated(int(nodes[0]), Origin("file", "--nodes", *place(nodes[1])))
        if gpus is not None and count is not None:
            launch.stated["device.gpus_per_node"] = Stated(int(count.group(1)), Origin("file", "GPUs of a node", *place(gpus[1])))
    return launches


def _given(directives: dict[str, tuple[str, int]], *names: str) -> tuple[str, int] | None:
    return next((directives[name] for name in names if name in directives), None)
