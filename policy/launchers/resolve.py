"""Decisions back as the launch's own words: the merged command and environment that make the engine do what is decided."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

from policy.decision import Decision, Verdict
from policy.launch import Facts
from policy.launchers.command import Files
from policy.launchers.found import Word
from policy.launchers.read import ReadLaunch
from policy.launchers.rewrite import Rewritten, changes_of, rewritten
from policy.launchers.rewriting import Change
from policy.launchers.variables import BUILDER_VARIABLE, MODE_VARIABLE
from policy.pack import Pack
from policy.records import dataclass, field
from policy.values import Ordered


@dataclass(slots=True)
class Resolution:
    """A launch with what is decided written into it: the changes, each with the fusion it is for, and the new command.
    `version` is the engine's where it is known. `held_back` names fusions that stay as they are, with the one whose way
    out takes the same setting."""

    read: ReadLaunch
    verdict: Verdict
    engine: str = ""
    version: str | None = None
    changes: list[tuple[str, Change]] = field(default_factory=list)
    held_back: dict[str, str] = field(default_factory=dict)
    result: Rewritten = field(default_factory=lambda: Rewritten([]))
    companions: dict[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything has to be written."""
        return bool(self.changes)

    @property
    def flags(self) -> list[Change]:
        """The changes of settings."""
        return [change for _, change in self.changes if not change.variable]

    @property
    def environment(self) -> dict[str, str]:
        """The variables to set, those of the command first."""
        return {**self.result.environment, **self.companions}

    @property
    def given(self) -> dict[str, str]:
        """The variables that the launch has already."""
        return {name: word.text for name, word in self.read.found.environment.items()} if self.read.found is not None else {}

    @property
    def name(self) -> str:
        """How a person finds the launch again."""
        return self.read.found.name if self.read.found is not None else ""

    def command(self) -> str:
        """The command as a shell takes it, with its environment in front."""
        found = self.read.found
        given = found.environment if found else {}
        kept = {name: quoted(word.text, word) for name, word in given.items() if name not in self.environment}
        variables = {**kept, **{name: shlex.quote(value) for name, value in self.environment.items()}}
        from_file = next((word for word in found.words if word.origin.file), None) if found else None
        return " ".join([*(f"{name}={value}" for name, value in variables.items()), *(quoted(word, from_file) for word in self.result.words)])


def quoted(text: str, word: Word | None = None) -> str:
    """A word for a shell. A variable that a file leaves open (`$TP`) is one for the shell that runs the command as well."""
    if word is not None and word.origin.file and re.search(r"\$(\{\w+\}|[A-Za-z_]\w*)", text) and not re.search(r"\$\(|[`!]|\$\{\w*[^\w}]", text):
        return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
    return shlex.quote(text)


def resolve(pack: Pack, read: ReadLaunch, verdict: Verdict, files: Files | None = None, mode: str | None = None) -> Resolution:
    """What has to change so that the engine does what is decided. `files` gives the text of files that the command names."""
    facts = Facts(pack, read.launch)
    found = read.found
    words = [word.text for word in found.words] if found else []
    resolution = Resolution(read, verdict, result=Rewritten(list(words)))
    engine = facts.engine()
    if engine is None or found is None:
        return resolution
    single = facts.values(engine.version_fact).single()
    resolution.engine, resolution.version = engine.name, str(single) if single is not None else None
    resolution.changes, resolution.held_back = changes_wanted(engine.name, resolution.version, verdict.decisions)
    resolution.result = rewritten(engine.name, resolution.version, words, [change for _, change in resolution.changes], files or found.files)
    resolution.companions = companions(pack, facts, mode, {name: word.text for name, word in found.environment.items()})
    return resolution


def changes_wanted(engine: str, version: str | None, decisions: Sequence[Decision]) -> tuple[list[tuple[str, Change]], dict[str, str]]:
    """What the decisions change, each change once with its fusion, and the fusions that are held back: what turns a fusion
    off is its way out of a hazard, so that no other fusion sets the same to something else."""
    asked = {decision.fusion: changes_of(engine, version, wanted_switches(decision)) for decision in decisions}
    ways_out = {change.path: (decision.fusion, change) for decision in decisions if decision.state == "off" for change in asked[decision.fusion]}
    held_back = {
        fusion: ways_out[change.path][0]
        for fusion, changes in asked.items()
        for change in changes
        if change.path in ways_out and ways_out[change.path][1].value != change.value
    }
    changes: list[tuple[str, Change]] = []
    for fusion, wanted in asked.items():
        if fusion not in held_back:
            changes.extend((fusion, change) for change in wanted if all(change != other for _, other in changes))
    return changes, held_back


def wanted_switches(decision: Decision) -> Iterable[tuple[str, str]]:
    """The switches of a decision as (kind, words)."""
    return ((switch.kind, switch.text) for switch in decision.switches if switch.kind in ("flag", "env", "config"))


def companions(pack: Pack, facts: Facts, mode: str | None, given: dict[str, str]) -> dict[str, str]:
    """Variables that go with the plug-in: its mode, that the adapter builds, and what carries it to workers that somebody else starts. A list that
    the launch has already (`given`) is added to."""
    engine = facts.engine()
    adapter = pack.fact("runtime.builder") is not None and facts.values("runtime.builder").single() == "adapter"
    if adapter and mode is None:
        mode = given.get(MODE_VARIABLE, "enforce")
    if mode is None:
        return {}
    variables = {} if given.get(MODE_VARIABLE) == mode else {MODE_VARIABLE: mode}
    if adapter and given.get(BUILDER_VARIABLE) != "adapter":
        variables[BUILDER_VARIABLE] = "adapter"
    if engine is None:
        return variables
    versions = facts.values(engine.version_fact)
    for switch in engine.switches:
        if switch.turn == "carry" and switch.kind == "env" and switch.when.truth(facts) is True and isinstance(versions, Ordered) and switch.covers(versions):
            name, _, value = switch.text.partition("=")
            held = [part for part in given.get(name, "").split(",") if part]
            if value not in held:
                variables[name] = ",".join([*held, value])
    return variables
