"""A launch as it was found to facts: the engine's own settings, its environment, the model's configuration, what is
installed, and a device profile, each with its origin."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any

from policy.facts import ValueProblem
from policy.launch import Facts, Launch
from policy.launchers.found import LOST_KINDS, RELEASE_KINDS, FoundLaunch, LaunchNotice, Word
from policy.launchers.installed import engine_traits, flashinfer_traits, installed_versions
from policy.launchers.machine import hints, machine_facts
from policy.launchers.model_config import draft_facts, file_facts, find_config, origin_over
from policy.launchers.settings import Settings
from policy.launchers.variables import BUILDER_VARIABLE, MODE_VARIABLE, adapter_builds
from policy.origin import Origin
from policy.pack import Pack, Product, did_you_mean
from policy.records import dataclass, field, replace

_PLACEHOLDER = re.compile(r"<[A-Za-z][\w./:\- ]*>")
#: The command reader of each engine; an engine without one is read by what its container states.
READERS = {"vllm": "policy.launchers.vllm_command", "sglang": "policy.launchers.sglang_command"}
PYTHON_MODULES = {"vllm.entrypoints": "vllm", "sglang.launch_server": "sglang", "sglang.launch": "sglang"}
PROGRAMS = {"vllm": "vllm", "sglang": "sglang", "trtllm-serve": "tensorrt_llm"}


@dataclass(slots=True)
class ReadLaunch:
    """A launch as facts, with what the user should know about the reading. `errors` are what the engine refuses."""

    launch: Launch
    found: FoundLaunch | None = None
    settings: Settings | None = None
    errors: list[LaunchNotice] = field(default_factory=list)
    notices: list[LaunchNotice] = field(default_factory=list)
    probed: bool = False


def engine_of(words: Iterable[str]) -> str | None:
    """The engine that a command starts, by its program; None for another program."""
    listed = list(words)
    for position, word in enumerate(listed[:4]):
        name = word.rsplit("/", 1)[-1]
        if name in PROGRAMS:
            return PROGRAMS[name]
        if word == "-m" and position + 1 < len(listed):
            return next((engine for prefix, engine in PYTHON_MODULES.items() if listed[position + 1].startswith(prefix)), None)
    return None


def launch_in(words: Sequence[str]) -> int | None:
    """Where among the words of a command the start of an engine begins; None where there is none."""
    starts = {*PROGRAMS, "python", "python3", "env", "uv", "torchrun", "srun"}
    return next((start for start, word in enumerate(words) if word.rsplit("/", 1)[-1] in starts and engine_of(words[start:]) is not None), None)


def from_command(words: list[str]) -> FoundLaunch:
    """A command line as the shell hands it over; assignments in front of the program are its environment."""
    environment: dict[str, Word] = {}
    start = 0
    if words[:1] == ["env"]:
        start = 1
    for word in words[start:]:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            break
        start += 1
        environment[name] = Word(value, Origin("environment", word, argument=start))
    placed = tuple(Word(word, Origin("argument", word, argument=number)) for number, word in enumerate(words[start:], start=start + 1))
    return FoundLaunch(engine_of(words[start:]) or "", placed, environment)


def read_launch(
    pack: Pack,
    found: FoundLaunch,
    version: str | None = None,
    files: Callable[[str], str | None] | None = None,
    probe: bool | None = None,
    environment: Mapping[str, str] | None = None,
) -> ReadLaunch:
    """Every fact that a found launch states. `version` overrules what it says of the engine's version; `files` gives the
    text of a file that the command names, None where it may not be read; `probe` asks for this machine's packages (left
    out: only where the engine is installed here); `environment` is that of the process where the command would run."""
    result = ReadLaunch(Launch(), found)
    reading = _Reading(pack, result)
    if found.engine:
        reading.state("engine.name", found.engine, found.words[0].origin if found.words else Origin("file", found.name))
    product = pack.engine(found.engine)
    local = _installed(product) if probe is not False and product is not None else None
    result.probed = bool(probe) or (probe is None and local is not None and found.image is None)
    reading.versions(found, version, product, local if result.probed else None)
    if product is not None:
        reading.settings(product, found, files)
        reading.environment(product, {**_inherited(environment, product, result.probed), **found.environment})
    for name, stated in found.stated.items():
        reading.state(name, stated.value, stated.origin)
    if result.probed:
        reading.packages(found.engine)
    reading.model(environment)
    return result


def _stands_alone(found: FoundLaunch) -> bool:
    """Whether the launch is a configuration file by itself, whose command, and often its model, stand elsewhere."""
    return bool(found.files) and any(word.text == "--config" for word in found.words) and len(found.words) <= 6


def unsettled(text: str) -> bool:
    """Whether something outside the file fills in a part of the text: a variable, a template, a reader (`<port>`)."""
    return "$" in text or "{{" in text or "{%" in text or _PLACEHOLDER.search(text) is not None


def _near(error: LaunchNotice, found: FoundLaunch) -> tuple[int, ...]:
    """The words, counted from 1, that an error about an option may be about: the option and its value."""
    start = error.origin.argument
    if start is None:
        start = next((number for number, word in enumerate(found.words, 1) if word.origin == error.origin), None)
    return () if start is None else (start, start + 1)


def _inherited(environment: Mapping[str, str] | None, product: Product, probed: bool) -> dict[str, Word]:
    """The variables of this process that the engine would read, by allow-list."""
    if environment is None or not probed:
        return {}
    return {name: Word(environment[name], Origin("environment", name)) for name in (*product.environment, MODE_VARIABLE) if name in environment}


def _installed(product: Product) -> tuple[str, str] | None:
    return installed_versions().get(product.package.replace("_", "-"))


class _Reading:
    """States facts, and turns values that a fact cannot have into notices."""

    def __init__(self, pack: Pack, result: ReadLaunch) -> None:
        self.pack, self.result = pack, result

    def state(self, name: str, value: Any, origin: Origin) -> None:
        if self.pack.fact(name) is None or (isinstance(value, str) and unsettled(value) and name != "model.name"):
            return
        try:
            self.result.launch.state(self.pack, name, value, origin)
        except ValueProblem as problem:
            self.result.errors.append(LaunchNotice("bad-value", str(problem), origin, problem.help))

    def versions(self, found: FoundLaunch, version: str | None, product: Product | None, local: tuple[str, str] | None) -> None:
        if version is not None:
            self.state("engine.version", version, Origin("set", "engine.version"))
        elif found.version is not None:
            self._named_version(found.version)
        elif found.image is not None and product is not None:
            tag = image_version(found.image.text)
            if tag is not None:
                self.state("engine.version", tag, Origin("image", found.image.text, found.image.origin.file, found.image.origin.line))
        elif local is not None:
            self.state("engine.version", local[0], Origin("probe", f"installed metadata {local[1].rsplit('/', 1)[-1]}"))

    def _named_version(self, version: Word) -> None:
        """A version that the file names; a word such as `nightly` names none."""
        fact = self.pack.fact("engine.version")
        try:
            if fact is not None and not unsettled(version.text):
                self.result.launch.state(self.pack, "engine.version", version.text, version.origin)
        except ValueProblem:
            text = f"`{version.text}` names no release, so the engine's version is not known"
            self.result.notices.append(LaunchNotice("version-unknown", text, version.origin, "give the version"))

    def settings(self, product: Product, found: FoundLaunch, files: Callable[[str], str | None] | None) -> None:
        if product.name not in READERS or not found.words:
            return
        held = self.result.launch.given.get("engine.version")
        single = held.values.single() if held else None
        reader = import_module(READERS[product.name])
        settings: Settings = reader.read_command(found.words, str(single) if single is not None else None, files or (lambda name: found.files.get(name)))
        self.result.settings = settings
        open_words = {number for number, word in enumerate(found.words, 1) if unsettled(word.text)}
        for error in settings.errors:
            if any(part in open_words for part in _near(error, found)):
                # the value is set by something else than this file, so that it is not known here
                continue
            if single is None and error.kind in RELEASE_KINDS:
                self.result.notices.append(replace(error, message=f"{error.message}, in the release that is assumed"))
            elif error.kind == "config-file-unreadable" and any(word.origin.file for word in found.words):
                self.result.notices.append(error)
            elif error.kind != "missing-model" or not _stands_alone(found):
                self.result.errors.append(error)
        alternatives = found.templated or any("{{" in word.text for word in found.words)  # of which a template takes one
        self.result.notices.extend(notice for notice in settings.notices if not (alternatives and notice.kind in LOST_KINDS))
        for name, maps in product.settings.items():
            setting = settings.get(name)
            if setting is None:
                continue
            for one in maps:
                value = one.fact_value(setting.value)
                if value is not None:
                    self.state(one.fact, value, setting.origin)

    def environment(self, product: Product, variables: Mapping[str, Word]) -> None:
        words = {name: word.text for name, word in variables.items()}
        for name, maps in product.environment.items():
            # a plug-in that only advises leaves the engine to build
            word = variables.get(name) if name != BUILDER_VARIABLE or adapter_builds(words) else None
            for one in maps if word is not None else ():
                assert word is not None
                value = one.fact_value(word.text)
                if value is not None:
                    origin = (
                        word.origin
                        if word.origin.kind == "environment"
                        else Origin("environment", name, word.origin.file, word.origin.line, word.origin.column)
                    )
                    self.state(one.fact, value, origin)

    def _trait(self, name: str, value: Any, origin: Origin) -> None:
        """State what a source shows; it overrules the table, and a disagreement is reported."""
        if self.pack.fact(name) is None:
            return
        table = Facts(self.pack, self.result.launch).get(name)
        self.state(name, value, origin)
        stated = self.result.launch.given.get(name)
        if stated is not None and table.origin.kind == "derived" and table.values.outside(stated.values):  # type: ignore[arg-type]
            fact = self.pack.fact(name)
            assert fact is not None
            shown, said = fact.show(stated.values), fact.show(table.values)
            message = f"the installed source shows `{name}` {shown}, but the table says {said} for {table.origin.detail}"
            self.result.notices.append(
                LaunchNotice("trait-disagreement", message, origin, "the source is believed; a build of your own, or a table to correct")
            )

    def packages(self, engine: str) -> None:
        versions = installed_versions()
        wanted = sorted(
            {fact.removeprefix("packages.") for fact in self.pack.facts if fact.startswith("packages.")}
            | {"torch", "flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"}
        )
        for name in wanted:
            held = versions.get(name)
            origin = Origin("probe", f"installed metadata {held[1].rsplit('/', 1)[-1]}" if held else "not installed here")
            self.state(f"packages.{name}", held[0] if held else "absent", origin)
        for fact, value, file in (*flashinfer_traits(), *engine_traits(engine)):
            self._trait(fact, value, Origin("probe", "source", file))
        for fact, value, origin in machine_facts():
            self.state(fact, value, origin)
        if "parallel.nodes" not in self.result.launch.given:
            for variable, message, remedy in hints(os.environ):
                self.result.notices.append(LaunchNotice("surroundings", message, Origin("environment", variable), remedy))

    def model(self, environment: Mapping[str, str] | None) -> None:
        held, given = self.result.launch.given.get("model.name"), self.result.launch.given
        name, draft = (given[fact].values.single() if fact in given else None for fact in ("model.name", "model.draft_name"))
        path = find_config(name, environment) if isinstance(name, str) else None
        if path is not None and isinstance(name, str):
            facts, trouble = file_facts(path, name)
            if trouble:
                self.result.notices.append(LaunchNotice("unreadable-model-config", trouble, held.origin if held else Origin("model_config")))
            for fact, value, origin in facts:
                self.state(fact, value, origin_over(given.get(fact), fact, value, origin))
        path = find_config(draft, environment) if isinstance(draft, str) else None
        for fact, value, origin in draft_facts(path) if path is not None else ():
            self.state(fact, value, origin)


def image_version(image: str) -> str | None:
    """The engine's version that an image tag names (`vllm/vllm-openai:v0.22.1`, `lmsysorg/sglang:v0.5.14-cu130`); None for
    a digest, a custom image or a tag that is no version."""
    name, _, tag = image.partition("@")[0].rpartition(":")
    if (
        "/" in tag
        or not name
        or not re.search(r"(^|/)(vllm-openai\w*|vllm|sglang|lws-vllm\w*)$", name)
        or not re.match(r"^(docker\.io/|registry[\w.-]*/)?(vllm|lmsysorg|rocm|sglang)/", name)
    ):
        return None
    match = re.fullmatch(r"v?(\d+\.\d+(\.\d+)?((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?)(-.*)?", tag)
    return match[1] if match else None


def device_facts(pack: Pack, launch: Launch, name: str) -> None:
    """State a named device profile's facts. Raises `ValueProblem` for an unknown name."""
    device = pack.devices.get(name)
    if device is None:
        raise ValueProblem(f"no device is named `{name}`", did_you_mean(name, pack.devices) or f"known: {', '.join(sorted(pack.devices))}")
    for fact, value in device.facts.items():
        launch.state(pack, fact, value, Origin("device_profile", name))
