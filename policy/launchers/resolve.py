"""Decisions back as the launch's own words: the merged command and environment that make the engine do what is decided."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from policy.decision import Decision, Verdict
from policy.launch import Facts
from policy.launchers.command import Files
from policy.launchers.read import ReadLaunch
from policy.launchers.rewrite import Change, Rewritten, changes_of, rewritten
from policy.pack import Pack

MODES = ("advise", "enforce", "fail")


@dataclass(slots=True)
class Resolution:
    """A launch with what is decided written into it: the changes, each with the fusion it is for, and the new command."""

    read: ReadLaunch
    verdict: Verdict
    changes: list[tuple[str, Change]] = field(default_factory=list)
    result: Rewritten = field(default_factory=lambda: Rewritten([]))
    companions: dict[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything has to be written."""
        return bool(self.changes)

    @property
    def environment(self) -> dict[str, str]:
        """The variables to set, those of the command first."""
        return {**self.result.environment, **self.companions}

    def command(self) -> str:
        """The command as a shell takes it, with its environment in front."""
        found = self.read.found
        given = {name: word.text for name, word in found.environment.items()} if found else {}
        variables = {**given, **self.environment}
        return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), shlex.join(self.result.words)])


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
    version = str(single) if single is not None else None
    for decision in verdict.decisions:
        for change in changes_of(engine.name, version, wanted_switches(decision)):
            if all(change != other for _, other in resolution.changes):
                resolution.changes.append((decision.fusion, change))
    resolution.result = rewritten(engine.name, version, words, [change for _, change in resolution.changes], files or found.files)
    resolution.companions = companions(pack, facts, mode)
    return resolution


def wanted_switches(decision: Decision) -> Iterable[tuple[str, str]]:
    """The switches of a decision as (kind, words)."""
    return ((switch.kind, switch.text) for switch in decision.switches if switch.kind in ("flag", "env", "config"))


def companions(pack: Pack, facts: Facts, mode: str | None) -> dict[str, str]:
    """Variables that go with the plug-in: its mode, and what carries them to workers that somebody else starts."""
    engine = facts.engine()
    variables = {"FUSION_POLICY_MODE": mode} if mode is not None else {}
    for switch in engine.switches if engine is not None else ():
        if switch.turn == "carry" and switch.kind == "env" and facts_hold(facts, switch.when):
            name, _, value = switch.text.partition("=")
            variables[name] = value
    return variables


def facts_hold(facts: Facts, condition: object) -> bool:
    """Whether a condition certainly holds."""
    return condition.truth(facts) is True  # type: ignore[attr-defined, no-any-return]
