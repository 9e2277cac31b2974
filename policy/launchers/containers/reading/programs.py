"""Which engine a command starts, and where its own words begin behind wrappers (`exec`, `srun`, `docker run`, ...)."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.images import engine_of_image, server_of_image
from policy.launchers.containers.reading.shell_expand import Field
from policy.records import dataclass, field

MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.grpc_server": "vllm",
    "dynamo.vllm": "vllm",
    "dynamo.vllm.main": "vllm",
    "huggingfaceserver": "vllm",
    "sglang.launch_server": "sglang",
    "sglang.srt.entrypoints.http_server": "sglang",
    "dynamo.sglang": "sglang",
    "dynamo.sglang.main": "sglang",
    "dynamo.sglang.worker": "sglang",
    "dynamo.sglang.decode_worker": "sglang",
    "sglang_router.launch_server": "sglang",
    "dynamo.trtllm": "tensorrt_llm",
    "dynamo.trtllm.main": "tensorrt_llm",
    "tensorrt_llm.commands.serve": "tensorrt_llm",
}
#: Modules and programs that start an engine only with `serve` behind them.
_WITH_SERVE = {
    "vllm": "vllm",
    "vllm-omni": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "vllm.scripts": "vllm",
    "sglang": "sglang",
    "sglang.cli.main": "sglang",
}
_SCRIPTS = (
    (re.compile(r"vllm/entrypoints/(?:openai/)?api_server\.py$"), "vllm"),
    (re.compile(r"sglang/(?:srt/)?launch_server\.py$"), "sglang"),
)
_NOT_ENGINES = {"disaggregated", "disaggregated_mpi_worker", "mm_embedding_serve"}
#: Commands whose words are talked about, searched for, installed or measured, not run.
_TALKERS = re.compile(
    r"^(?:echo|printf|e?grep|rg|pkill|pgrep|killall|kill|ps|cat|less|which|type|man|pip3?|conda|apt|apt-get|git|sed|awk|curl|wget|alias|test|\[|\[\[|"
    r"(?:log|write|record|save|dump|show|print|store|describe|emit|warn|wait)\w*|info|error|die|usage|help|read|cd|rm|mkdir|touch|ls|cp|mv|chmod|"
    r"hash|unset|trap|true|false|jq|yq|tee|py-spy|lm_eval|genai-perf)$"
)
_INTERPRETER = re.compile(r"^(?:python|pypy)[\d.]*$")
_SHELL = re.compile(r"^(?:ba|da|z|k)?sh$")
_ASSIGNMENT = re.compile(r"^([A-Za-z_]\w*)=(.*)$", re.DOTALL)
_CONTAINER_TOOLS = {"docker", "podman", "nerdctl", "docker-compose"}
_CONTAINER_OPTIONS = {
    "-e",
    "--env",
    "-v",
    "--volume",
    "-p",
    "--publish",
    "--name",
    "--gpus",
    "--shm-size",
    "--ipc",
    "--network",
    "--net",
    "--runtime",
    "--entrypoint",
    "-w",
    "--workdir",
    "--ulimit",
    "--device",
    "--mount",
    "--env-file",
    "-u",
    "--user",
    "-h",
    "--hostname",
    "--memory",
    "-m",
    "--cpus",
    "--cap-add",
    "--cap-drop",
    "--security-opt",
    "--label",
    "-l",
    "--restart",
    "--pull",
    "--platform",
    "--log-driver",
    "--log-opt",
    "--add-host",
    "--group-add",
    "--cpuset-cpus",
    "--pid",
    "--uts",
    "--expose",
    "--dns",
    "--tmpfs",
    "--annotation",
    "--cgroupns",
    "--init-path",
    "--stop-timeout",
}  # options of `docker run` that take a value


@dataclass(slots=True)
class Started:
    """What a command starts: an engine (`words` from its program on) or another shell (`script`)."""

    engine: str = ""
    words: list[Field] = field(default_factory=list)
    wrapper: list[Field] = field(default_factory=list)
    environment: dict[str, Field] = field(default_factory=dict)
    image: Field | None = None
    script: Field | None = None
    positional: list[Field] = field(default_factory=list)  # $0, $1, ... of `script`
    script_file: str = ""


def base(text: str) -> str:
    """The last part of a path."""
    return text.rstrip("/").rpartition("/")[2]


def find_program(fields: list[Field]) -> Started | None:
    """The engine, or the nested shell, that `fields` starts."""
    texts = [item.text for item in fields]
    if texts and _TALKERS.match(base(texts[0])):
        return None
    for index in range(len(fields)):
        if index and _TALKERS.match(base(texts[index - 1])) and not texts[index - 1].startswith("-"):
            return None
        found = _engine_at(texts, index)
        if found is not None:
            engine, start, rest = found
            program = [fields[index]] if start == index else fields[start : start + 1] or [fields[index]]
            words = program + fields[rest:]
            return _wrapped(Started(engine, words, fields[:start]))
        nested = _shell_at(fields, texts, index)
        if nested is not None:
            nested.wrapper = fields[:index]
            return _wrapped(nested)
        if texts[index] in _CONTAINER_TOOLS and "run" in texts[index + 1 : index + 3]:
            return _container(fields, texts, index)
    return None


def _engine_at(texts: list[str], index: int) -> tuple[str, int, int] | None:
    """(engine, index of the program, index behind it where its words go on) for an engine's program at `index`."""
    text, following = texts[index], texts[index + 1] if index + 1 < len(texts) else ""
    name = base(text)
    if following == "serve" and (name in {"vllm", "vllm-omni", "sglang"} or re.fullmatch(r"\$\{?\w*(?:vllm|sglang)\w*\}?", name, re.IGNORECASE)):
        return ("sglang" if "sglang" in name.lower() else "vllm"), index, index + 1
    if name == "trtllm-serve":
        return None if following in _NOT_ENGINES else ("tensorrt_llm", index, index + 1)
    if text == "-m" and following:
        engine = MODULES.get(following)
        if engine is None and following in _WITH_SERVE and texts[index + 2 : index + 3] == ["serve"]:
            engine = _WITH_SERVE[following]
        if engine is not None:
            start = next((at for at in range(index - 1, -1, -1) if _INTERPRETER.match(base(texts[at]))), index)
            return engine, start, index
    if name.endswith(".py"):
        for pattern, engine in _SCRIPTS:
            if pattern.search(text):
                start = index - 1 if index and _INTERPRETER.match(base(texts[index - 1])) else index
                return engine, start, index if start < index else index + 1
        if index and _INTERPRETER.match(base(texts[index - 1])) and _serves_tensorrt_llm(texts[index:]):
            return "tensorrt_llm", index - 1, index
    return None


def _serves_tensorrt_llm(texts: list[str]) -> bool:
    """A script of the Triton backend: it names the backend's repository and a size of the launch."""
    names_backend = any(re.search(r"tensorrt_?llm|trt_?llm", text, re.IGNORECASE) for text in texts)
    return names_backend and any(re.match(r"--(?:tp|pp|tp_size|pp_size|world_size|tensor_parallel_size)\b", text) for text in texts)


def _shell_at(fields: list[Field], texts: list[str], index: int) -> Started | None:
    """`bash -c SCRIPT ARG0 ARG1`, `ssh HOST SCRIPT`, `eval SCRIPT` at `index`."""
    name = base(texts[index])
    if name == "eval" and index + 1 < len(fields):
        joined = " ".join(texts[index + 1 :])
        return Started(script=Field(joined, fields[index + 1].place), positional=[])
    if _SHELL.match(name):
        at = index + 1
        dashed = False
        while at < len(texts) and texts[at].startswith(("-", "+")):
            dashed = dashed or (not texts[at].startswith("--") and "c" in texts[at])
            at += 2 if texts[at] in {"-o", "+o", "-O"} else 1
        if at >= len(texts):
            return None
        if dashed:
            return Started(script=fields[at], positional=fields[at + 1 :] or [Field(name, fields[index].place)])
        return Started(script_file=texts[at], positional=fields[at:])
    if name == "ssh" and len(texts) - index >= 3 and " " in texts[-1]:
        return Started(script=fields[-1])
    return None


def _wrapped(started: Started) -> Started:
    """Environment and image that the wrappers in front give."""
    texts = [item.text for item in started.wrapper]
    for at, item in enumerate(started.wrapper):
        text = item.text
        if text.startswith("--export="):
            text = text.partition("=")[2]
            pairs = [piece for piece in text.split(",") if "=" in piece]
        else:
            pairs = [re.sub(r"^(?:--env=|-e|-x)(?=[A-Za-z_]\w*=)", "", text)]
        for pair in pairs:
            match = _ASSIGNMENT.match(pair)
            if match is not None:
                started.environment.setdefault(match[1], Field(match[2], item.place))
        if text.startswith("--container-image="):
            started.image = started.image or Field(text.partition("=")[2], item.place)
        elif text == "--container-image" and at + 1 < len(texts):
            started.image = started.image or started.wrapper[at + 1]
        elif text in {"apptainer", "singularity"} and started.image is None:
            started.image = next((one for one in started.wrapper[at:] if one.text.endswith((".sif", ".sqsh")) or one.text.startswith("docker://")), None)
    return started


def _container(fields: list[Field], texts: list[str], index: int) -> Started | None:
    """`docker run OPTIONS IMAGE WORDS`: the image, the environment of `-e`, and what runs inside."""
    at = texts.index("run", index) + 1
    environment: dict[str, Field] = {}
    entry: list[Field] = []
    while at < len(texts) and texts[at].startswith("-"):
        option, equals, value = texts[at].partition("=")
        given = Field(value, fields[at].place) if equals else fields[at + 1] if at + 1 < len(fields) else None
        if option in {"-e", "--env"} and given is not None:
            match = _ASSIGNMENT.match(given.text)
            if match is not None:
                environment[match[1]] = Field(match[2], given.place)
        elif option == "--entrypoint" and given is not None and given.text:
            entry = [given]
        at += 2 if not equals and option in _CONTAINER_OPTIONS else 1
    if at >= len(fields):
        return None
    image, rest = fields[at], entry + fields[at + 1 :]
    started = find_program(rest)
    if started is None:
        started = implicit(image.text, rest, image)
    if started is None:
        return None
    started.image = started.image or image
    started.wrapper = fields[: at + 1] + started.wrapper
    started.environment = {**environment, **started.environment}
    return started


def implicit(image: str, rest: list[Field], where: Field) -> Started | None:
    """The server that an engine's image starts by itself, given only arguments."""
    engine = engine_of_image(image)
    if engine is None or not rest or not (rest[0].text.startswith("-") or (engine == "vllm" and "/" in rest[0].text)):
        return None
    return Started(engine, [Field(text, where.place) for text in server_of_image(image, engine)] + rest)
