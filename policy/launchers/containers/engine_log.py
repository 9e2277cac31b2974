"""Engine logs: what was asked for (`non-default args`, `ServerArgs(...)`, a command line), what runs (the engine line),
and version banners. Prefixes of processes, ranks, pods and Ray actors do not matter; lines may be cut."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from policy.launchers.containers.reading.launches import merge_parts, model_of, role_of_words, words_of
from policy.launchers.containers.reading.option_names import names
from policy.launchers.containers.reading.python_values import Reader
from policy.launchers.containers.reading.scripts import read_script
from policy.launchers.containers.reading.shell_expand import Field
from policy.launchers.found import FoundLaunch, LaunchNotice, Stated, Word
from policy.launchers.yaml_places import Node, Places
from policy.origin import Origin

NAME = "engine log"
LOOKS_FOR = "lines with non-default args, an engine configuration, ServerArgs(...) or a version banner"
YAML = False
MAX_LINE = 200_000
MAX_JOINED = 60  # lines that one printed value may go over

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ASKED = re.compile(r"non-default args:\s*\{")
_ENGINE = re.compile(r"Initializing an? (?:V\d+ )?LLM engine(?: \(v?(?P<version>[^)\s]*)\))?(?: with config:)?")
_RUNS = re.compile(r"LLM engine(?: \(v[^)]*\))?(?: with config:|.{0,40}\w+=)")
_SERVER = re.compile(r"server_args\s*[=:]\s*ServerArgs\(|\bServerArgs\(")
_NAMESPACE = re.compile(r"\bargs: Namespace\(")
_TENSORRT = re.compile(r"\b(?:Torch)?LlmArgs\(|LLM Args:\s")
_VLLM_VERSION = re.compile(r"vLLM (?:API server|engine)?\s*version:?\s+v?(\d[\w.+!-]*)|\u2588.*\bversion\s+v?(\d[\w.+!-]*)")
_OTHER_VERSION = re.compile(r"\b(sglang|tensorrt[-_ ]llm)\b\]?\s*(?:\w+\s)?version\s*[:=]?\s*v?(\d[\w.+!-]*)", re.IGNORECASE)
_COMMAND = re.compile(r"(?:python[\d.]*\s+(?:-\w\s+)*-m\s+(?:vllm|sglang|dynamo)\.\S+|\b(?:vllm|sglang)\s+serve|\btrtllm-serve)\s+\S")
_STREAM = re.compile(r"^\s*(?:\[?pod/\S+\]?\s+|[\w.-]+\s+\|\s+)")
_SIZES = {
    "tensor_parallel_size": "parallel.tensor_parallel_size",
    "pipeline_parallel_size": "parallel.pipeline_parallel_size",
    "data_parallel_size": "parallel.data_parallel_size",
    "tp_size": "parallel.tensor_parallel_size",
    "pp_size": "parallel.pipeline_parallel_size",
    "dp_size": "parallel.data_parallel_size",
    "nnodes": "parallel.nodes",
}


def looks_like(text: str, documents: list[Node], name: str) -> int:
    """How sure the text is of this format."""
    if text.startswith("#!"):
        return 0
    if any(pattern.search(text) for pattern in (_ASKED, _RUNS, _SERVER, _NAMESPACE)):
        return 92
    if re.search(r"vLLM API server version|TensorRT[- ]LLM version", text) or _TENSORRT.search(text):
        return 80
    return 15 if name.endswith(".log") and _COMMAND.search(text) else 0


def read(text: str, documents: list[Node], name: str, problems: list[LaunchNotice]) -> list[FoundLaunch]:
    """The launches in the text."""
    lines = [_ANSI.sub("", line)[:MAX_LINE] for line in text.split("\n")]
    log = _Log(name)
    seen: set[tuple[str, str]] = set()  # ranks and processes print the same value again and again
    for number, line in enumerate(lines):
        stream = _STREAM.match(line)
        log.stream = stream.group(0).strip() if stream else ""
        for pattern, take in log.kinds:
            match = pattern.search(line)
            if match is None or (said := (log.stream, line[match.start() :])) in seen:
                continue
            seen.add(said)
            joined = line[match.end() :] + "".join("\n" + following for following in _continued(lines, number, line))
            take(match, joined, number + 1)
    return merge_parts(log.finished())


def _continued(lines: list[str], number: int, line: str) -> list[str]:
    """Lines that go on with a value whose brackets are open."""
    result: list[str] = []
    depth = sum(line.count(one) for one in "([{") - sum(line.count(one) for one in ")]}")
    while depth > 0 and len(result) < MAX_JOINED and number + 1 + len(result) < len(lines):
        following = lines[number + 1 + len(result)]
        if re.search(r"\b(?:INFO|WARNING|ERROR|DEBUG)\b", following) or not following.strip():
            break
        result.append(following)
        depth += sum(following.count(one) for one in "([{") - sum(following.count(one) for one in ")]}")
    return result


class _Log:
    """The launches of one log, in the order of their first line."""

    def __init__(self, name: str) -> None:
        self.name, self.stream = name, ""
        self.launches: list[tuple[FoundLaunch, str, bool]] = []  # launch, stream, whether what was asked is known
        self.versions: dict[tuple[str, str], Word] = {}
        self.kinds: list[tuple[re.Pattern[str], Callable[[re.Match[str], str, int], None]]] = [
            (_COMMAND, self.command),
            (_ASKED, self.asked),
            (_NAMESPACE, self.namespace),
            (_ENGINE, self.engine),
            (_SERVER, self.server),
            (_TENSORRT, self.tensorrt),
            (_VLLM_VERSION, self.vllm_version),
            (_OTHER_VERSION, self.other_version),
        ]

    def place(self, match: re.Match[str], line: int) -> tuple[str, int, int]:
        return self.name, line, match.start() + 1

    def latest(self, engine: str, model: str | None) -> FoundLaunch | None:
        """The last launch of the engine in this stream that may be the same: same model, or one of them unknown."""
        for launch, stream, _ in reversed(self.launches):
            known = model_of([word.text for word in launch.words])
            if launch.engine == engine and (stream == self.stream or not stream) and (known is None or model is None or known == model):
                return launch
        return None

    def add(self, launch: FoundLaunch, asked: bool) -> None:
        texts = [word.text for word in launch.words]
        for other, _, _ in self.launches:
            if other.engine == launch.engine and [word.text for word in other.words] == texts and other.role == launch.role:
                return  # another rank or process of the same launch, or a restart with the same words
        self.launches.append((launch, self.stream, asked))

    def command(self, match: re.Match[str], rest: str, line: int) -> None:
        whole = match.string[match.start() :]
        if re.search(r"(?:echo|usage|Usage|example)\b[^|;&]*$", match.string[: match.start()]):
            return
        for launch in read_script(whole, self.name, Places([(0, line, match.start() + 1)])):
            self.add(launch, True)

    def asked(self, match: re.Match[str], rest: str, line: int) -> None:
        given = Reader(rest).mapping("}", ":")
        if "pass_config" in given:  # shortened by hand: it belongs to the compilation configuration
            inner = given.pop("pass_config")
            outer = given.setdefault("compilation_config", {})
            if isinstance(outer, dict):
                outer.setdefault("pass_config", inner)
        launch = FoundLaunch("vllm", words_of(_words(["vllm", "serve"], given, self.place(match, line), ("model_tag", "model"))))
        launch.role = role_of_words([word.text for word in launch.words])
        before = self.latest("vllm", model_of([word.text for word in launch.words]))
        if before is None or (any(other is before and asked for other, _, asked in self.launches) and not _from_command(before)):
            self.add(launch, True)

    def namespace(self, match: re.Match[str], rest: str, line: int) -> None:
        given = Reader(rest).mapping(")", "=")
        model = given.get("model_tag") or given.get("model")
        self.sized("vllm", model if isinstance(model, str) else None, given, match, line)

    def engine(self, match: re.Match[str], rest: str, line: int) -> None:
        given = Reader(rest).mapping("", "=")
        model = given.get("model")
        launch = self.sized("vllm", model if isinstance(model, str) else None, given, match, line)
        if match["version"]:
            launch.version = launch.version or Word(_as_written(match, "version"), Origin("file", "engine line", *self.place(match, line)))
        passes = given.get("compilation_config")
        runs = passes.get("pass_config") if isinstance(passes, dict) else given.get("pass_config")
        if isinstance(runs, dict) and runs:
            said = ", ".join(f"{key} {value}" for key, value in runs.items())
            note = f"the engine line says what runs: {said}"
            if note not in launch.notes:
                launch.notes.append(note)

    def sized(self, engine: str, model: str | None, given: dict[str, Any], match: re.Match[str], line: int) -> FoundLaunch:
        """The launch that a line about a running engine belongs to, with the sizes that nothing before it said."""
        launch = self.latest(engine, model)
        place = self.place(match, line)
        if launch is None:
            kept: dict[str, Any] = {key: given[key] for key in ("dtype", "quantization", "enforce_eager") if key in given and given[key] not in {None, False}}
            if str(kept.get("dtype", "")).startswith("torch."):
                kept["dtype"] = str(kept["dtype"]).removeprefix("torch.")
            launch = FoundLaunch(engine, words_of(_words(["vllm", "serve"], {"model": model, **kept}, place, ("model",))))
            self.launches.append((launch, self.stream, False))
        said = " ".join(word.text for word in launch.words)
        for key, fact in _SIZES.items():
            if isinstance(given.get(key), int) and fact not in launch.stated and f"--{key.replace('_', '-')}" not in said:
                launch.stated[fact] = Stated(given[key], Origin("file", key, *place))
        return launch

    def server(self, match: re.Match[str], rest: str, line: int) -> None:
        given = Reader(rest).mapping(")", "=")
        model = given.get("model_path")
        before = self.latest("sglang", model if isinstance(model, str) else None)
        if before is not None:
            place = self.place(match, line)
            for key, fact in _SIZES.items():
                if isinstance(given.get(key), int) and fact not in before.stated and not any(key.split("_")[0] in word.text for word in before.words):
                    before.stated[fact] = Stated(given[key], Origin("file", key, *place))
            return
        known = names()["sglang"]
        kept = {key: value for key, value in given.items() if key.replace("_", "-") in known and value is not False}
        launch = FoundLaunch("sglang", words_of(_words(["python3", "-m", "sglang.launch_server"], kept, self.place(match, line), (), negate=False)))
        launch.role = role_of_words([word.text for word in launch.words])
        self.add(launch, True)

    def tensorrt(self, match: re.Match[str], rest: str, line: int) -> None:
        from policy.launchers.containers.reading.tensorrt_llm import FACTS

        given = Reader(rest).mapping(")" if match.group(0).endswith("(") else "", "=")
        launch = self.latest("tensorrt_llm", None)
        if launch is None:
            launch = FoundLaunch("tensorrt_llm", words_of([Field("trtllm-serve", self.place(match, line))]))
            self.launches.append((launch, self.stream, True))
        for key, value in given.items():
            if key in FACTS and value is not None:
                launch.stated.setdefault(FACTS[key], Stated(value, Origin("file", key, *self.place(match, line))))

    def vllm_version(self, match: re.Match[str], rest: str, line: int) -> None:
        self.version("vllm", match.group(1) or match.group(2), match, line)

    def other_version(self, match: re.Match[str], rest: str, line: int) -> None:
        self.version(re.sub(r"[- ]", "_", match.group(1).lower()), match.group(2), match, line)

    def version(self, engine: str, said: str, match: re.Match[str], line: int) -> None:
        self.versions.setdefault((engine, self.stream), Word(said, Origin("file", "version banner", *self.place(match, line))))

    def finished(self) -> list[FoundLaunch]:
        for launch, stream, _ in self.launches:
            launch.version = self.versions.get((launch.engine, stream)) or launch.version
        for (engine, _), version in self.versions.items():
            if engine == "vllm" and not any(launch.engine == engine for launch, _, _ in self.launches):
                place = (self.name, version.origin.line or 1, version.origin.column or 1)
                self.launches.append((FoundLaunch(engine, words_of([Field("vllm", place), Field("serve", place)]), version=version), "", False))
        return [launch for launch, _, _ in self.launches]


def _from_command(launch: FoundLaunch) -> bool:
    """Whether a launch's words were written as a command: then their columns differ."""
    return len({word.origin.column for word in launch.words}) > 1


def _as_written(match: re.Match[str], group: str) -> str:
    """The version with its `v` where the line has one."""
    return ("v" if match.string[match.start(group) - 1] == "v" else "") + match[group]


def _words(program: list[str], given: dict[str, Any], place: tuple[str, int, int], positional: tuple[str, ...], negate: bool = True) -> list[Field]:
    """Settings as words of a command."""
    words = list(program)
    model = next((given[key] for key in positional if isinstance(given.get(key), str)), None)
    if model is not None:
        words.append(model)
    for key, value in given.items():
        option = "--" + key.replace("_", "-")
        if key in positional or value is None:
            continue
        if isinstance(value, bool):
            if value:
                words.append(option)
            elif negate:
                words.append("--no-" + option[2:])
        elif isinstance(value, dict):
            words += [option, json.dumps(_without_none(value), default=str)]
        elif isinstance(value, list):
            words += [option, *(one if isinstance(one, str) else json.dumps(one, default=str) for one in value)]
        else:
            words += [option, str(value)]
    return [Field(word, place) for word in words]


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return value
