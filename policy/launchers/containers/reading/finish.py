"""The last step for every format: words that the engine's own parser reads, facts of engines without one, names of
variables that hold secrets taken out, parts of one launch put together."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib import resources
from typing import Any

from policy.launchers.containers.reading.launches import merge_parts, role_of_words
from policy.launchers.containers.reading.tensorrt_llm import state_command
from policy.launchers.found import FoundLaunch, Word
from policy.records import replace

_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY", re.IGNORECASE)
#: Module that a wrapper runs -> (the engine's program, whose options are taken out).
_WRAPPERS = (
    (re.compile(r"dynamo\.vllm(?:\..*)?"), ("vllm", "serve"), "dynamo"),
    (re.compile(r"dynamo\.sglang(?:\..*)?"), ("python3", "-m", "sglang.launch_server"), "dynamo"),
    (re.compile(r"huggingfaceserver"), ("vllm", "serve"), "huggingfaceserver"),
    (re.compile(r"sglang_router\.launch_server"), ("python3", "-m", "sglang.launch_server"), "router"),
    (re.compile(r"sglang\.srt\.entrypoints\.http_server"), ("python3", "-m", "sglang.launch_server"), ""),
    (re.compile(r"vllm\.entrypoints\.grpc_server"), ("vllm", "serve"), ""),
    (re.compile(r"vllm\.scripts"), ("vllm", "serve"), ""),
)


def finish(launches: list[FoundLaunch]) -> list[FoundLaunch]:
    """Finishes the launches of one file."""
    for launch in launches:
        texts = [word.text for word in launch.words]
        launch.role = launch.role or role_of_words(texts)
        _normalise(launch, texts)
        if launch.engine == "tensorrt_llm":
            state_command(launch)
        for name in [name for name in launch.environment if _SECRET.search(name)]:
            del launch.environment[name]
    return merge_parts(launches)


@lru_cache(maxsize=1)
def _options() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(resources.files(__package__).joinpath("worker_options.json").read_text(encoding="utf-8"))
    return data


def _normalise(launch: FoundLaunch, texts: list[str]) -> None:
    """`python3 -m dynamo.vllm ...` becomes `vllm serve ...` without Dynamo's own options; other wrappers alike."""
    if texts[:1] == ["vllm-omni"]:
        launch.words = (Word("vllm", launch.words[0].origin), *launch.words[1:])
        return
    if texts[1:2] != ["-m"] or len(texts) < 3:
        return
    for pattern, program, wrapper in _WRAPPERS:
        if pattern.fullmatch(texts[2]) is None:
            continue
        rest = list(launch.words[4:] if texts[3:4] == ["serve"] else launch.words[3:])
        if wrapper:
            rest = _without(rest, _options()[wrapper], keep_mode="sglang" in program[-1])
            launch.notes.append(f"started by `{texts[2]}`, which hands these options to the engine")
        words = [*(Word(text, launch.words[0].origin) for text in program), *rest]
        launch.words = tuple(Word(word.text, replace(word.origin, argument=number)) for number, word in enumerate(words, 1))
        return


def _without(words: list[Word], options: dict[str, Any], keep_mode: bool) -> list[Word]:
    result: list[Word] = []
    at = 0
    renamed = options.get("renamed", {})
    values = set(options["values"]) | (set() if keep_mode else {"disaggregation-mode"})
    while at < len(words):
        word = words[at]
        name, equals, value = word.text.partition("=")
        key = name.lstrip("-").replace("_", "-") if name.startswith("--") else ""
        at += 1
        if not key:
            result.append(word)
        elif key in renamed:
            result.append(Word(f"--{renamed[key]}{equals}{value}", word.origin))
        elif key in options["many"]:
            while at < len(words) and not words[at].text.startswith("-") and not equals:
                at += 1
        elif key in values:
            at += 0 if equals else 1
        elif key.removeprefix("no-") in options["flags"]:
            continue
        elif key.startswith(tuple(options["prefixes"])) and options["prefixes"]:
            if not equals and at < len(words) and not words[at].text.startswith("-"):
                at += 1
        else:
            result.append(word)
    return result
