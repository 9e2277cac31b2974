"""Changes of launches as changes of the file that holds them: comments and layout stay, and the result is read again.

Several ways of writing are tried, the nearest to the user's own words first; the first one counts whose result, read by
the same readers, is the launch with exactly the wanted changes and leaves every other launch of the file as it was.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from policy.launchers.containers import Found, find_launches
from policy.launchers.found import LOST_KINDS, FoundLaunch
from policy.launchers.patching import homes, variables
from policy.launchers.patching.files import MARK, endings_kept
from policy.launchers.patching.nodes import documents_in
from policy.launchers.patching.options import holds, option_mappings, option_texts
from policy.launchers.patching.text import PatchProblem
from policy.launchers.patching.words import word_texts
from policy.launchers.read import READERS
from policy.launchers.rewrite import OBJECTS, by_hand, difference, read_both, read_words, rewritten
from policy.launchers.rewriting import Change
from policy.records import dataclass, field, replace

__all__ = ["PatchProblem", "Wanted", "patched"]

#: Formats that report a launch and start none.
REPORTS = {"engine log"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one launch of a file is to become: settings, and environment variables. `version` is the engine's where it
    is known."""

    engine: str
    version: str | None = None
    flags: tuple[Change, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def patched(text: str, name: str, wanted: Sequence[Wanted]) -> tuple[str, dict[int, str]]:
    """The text with every launch changed as wanted (in the order of the file), and why the others could not be."""
    mark = MARK if text.startswith(MARK) else ""
    given = text.removeprefix(MARK)
    current = given.replace("\r\n", "\n")
    problems: dict[int, str] = {}
    wanted = [_readable(one, launch) for one, launch in zip(wanted, find_launches(current, name).launches, strict=False)]
    for number, one in enumerate(wanted):
        try:
            if one.flags:
                current = _step(current, name, number, wanted, one.flags, {})
            if one.variables:
                current = _step(current, name, number, wanted, (), one.variables)
        except PatchProblem as problem:
            problems[number] = str(problem)
    return mark + endings_kept(given, current), problems


def _readable(one: Wanted, launch: FoundLaunch) -> Wanted:
    """The wish with the release that takes it: the engine's, or one beside it where that is in no catalogue."""
    if not one.flags or one.engine not in READERS:
        return one
    result = rewritten(one.engine, one.version, _words(launch), one.flags, launch.files)
    return one if result.problem else replace(one, version=result.release)


def _step(text: str, name: str, number: int, wanted: Sequence[Wanted], flags: tuple[Change, ...], new: Mapping[str, str]) -> str:
    """The text with the flags or the variables of one launch written. Raises `PatchProblem`."""
    found = find_launches(text, name)
    if number >= len(found.launches):
        raise PatchProblem("the launch is no longer found")
    launch, one = found.launches[number], wanted[number]
    if _arrived(launch, one, flags, new):
        return text
    reasons: list[str] = []
    tried: set[str] = set()
    if found.format in REPORTS:
        raise PatchProblem("a log tells of a launch and starts none")
    for made in _texts(text, name, found, launch, one, flags, new, reasons):
        if made in tried:
            continue
        tried.add(made)
        reason = _unlike(found, find_launches(made, name), number, wanted, flags, new)
        if not reason:
            return made
        reasons.append(reason)
    if new or any("as it stands" in reason for reason in reasons):
        raise PatchProblem(reasons[-1])
    shared = next((f" ({reason})" for reason in reasons if reason.startswith("another launch")), "")
    raise PatchProblem(f"no place in the file that is known takes the setting and leaves everything else as it is{shared}; {by_hand(flags)}")


def _texts(
    text: str, name: str, found: Found, launch: FoundLaunch, one: Wanted, flags: tuple[Change, ...], new: Mapping[str, str], reasons: list[str]
) -> Iterator[str]:
    """Every way of writing the change, the best first. Those that cannot be written leave their reason."""
    documents = documents_in(text, name)
    if new:
        yield from variables.variable_texts(text, documents, launch, new)
        yield from homes.variable_texts(text, documents, found.format or "", launch, new)
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in new.items())
        reasons.append(f"the file has no place for environment variables; set `{words}` where the engine is started")
        return
    mappings = option_mappings(documents, text, launch)
    objects = OBJECTS.get(one.engine, ())
    if any(holds(mapping, flags) for mapping in mappings):
        yield from option_texts(text, mappings, flags, one.version, objects, found.format or "")
    result = rewritten(one.engine, one.version, _words(launch), flags, launch.files)
    if result.problem:
        reasons.append(result.problem)
        return
    if result.edits:
        try:
            yield from word_texts(text, launch, result.edits)
        except PatchProblem as problem:
            reasons.append(str(problem))
    yield from option_texts(text, mappings, flags, one.version, objects, found.format or "")
    yield from homes.option_texts(text, documents, found.format or "", launch, flags)


def _words(launch: FoundLaunch) -> list[str]:
    return [word.text for word in launch.words]


def _arrived(launch: FoundLaunch, one: Wanted, flags: Iterable[Change], new: Mapping[str, str]) -> bool:
    settings = read_words(launch.engine, one.version, _words(launch), launch.files) if launch.engine in READERS else None
    there = all(settings is not None and (held := settings.get(change.path)) is not None and held.value == change.value for change in flags)
    return there and all(name in launch.environment and launch.environment[name].text == value for name, value in new.items())


def _unlike(before: Found, after: Found, number: int, wanted: Sequence[Wanted], flags: Sequence[Change], new: Mapping[str, str]) -> str:
    """Why the changed file is not the old one with the change; empty where it is."""
    if len(before.launches) != len(after.launches):
        return f"the changed file would start {len(after.launches)} launches, not {len(before.launches)}"
    if len(after.problems) > len(before.problems):
        return f"the changed file would be read with a problem: {after.problems[-1].message}"
    for position, (old, now) in enumerate(zip(before.launches, after.launches, strict=True)):
        one = wanted[position] if position < len(wanted) else Wanted(old.engine)
        reason = _of_launch(old, now, one, flags if position == number else (), new if position == number else {})
        if reason:
            return reason if position == number else f"another launch of the file, `{old.name or position + 1}`, would change as well"
    return ""


def _of_launch(old: FoundLaunch, now: FoundLaunch, one: Wanted, flags: Sequence[Change], new: Mapping[str, str]) -> str:
    """Why one launch is not what it was with the change; what it wants itself may have come with a shared part."""
    if _rest(old) != _rest(now):
        return "the change would touch more than the command and its environment"
    for name in sorted({*old.environment, *now.environment, *new}):
        if flags and name not in new and _made_of(old if name in old.environment else now, name):
            continue
        held, text = old.environment.get(name), now.environment[name].text if name in now.environment else None
        expected = new.get(name, held.text if held is not None else None)
        if text != expected and (name in new or text != one.variables.get(name)):
            return f"`{name}` would be `{text}`, not `{expected}`"
    if one.engine not in READERS:
        return "" if _words(old) == _words(now) else "the change would touch the command"
    before, after = read_both(old.engine, one.version, (_words(old), old.files), (_words(now), now.files))
    arrived = [change for change in one.flags if change not in flags and (setting := after.get(change.path)) is not None and setting.value == change.value]
    lost = [sum(notice.kind in LOST_KINDS for notice in settings.notices) for settings in (before, after)]
    if lost[1] > lost[0]:
        return next(notice.message for notice in after.notices if notice.kind in LOST_KINDS)
    return difference(before, after, [*flags, *arrived])


def _made_of(launch: FoundLaunch, name: str) -> bool:
    """Whether a variable of the environment holds options that become words of the command."""
    held = launch.environment.get(name)
    parts = held.text.split() if held is not None else []
    if not parts or re.match(r"-{1,2}[A-Za-z]", parts[0]) is None:
        return False
    return {part.strip("'\"") for part in parts if part.startswith("-")} <= set(_words(launch))


def _rest(launch: FoundLaunch) -> tuple[Any, ...]:
    image, version = launch.image.text if launch.image else None, launch.version.text if launch.version else None
    return launch.engine, image, version, {fact: stated.value for fact, stated in launch.stated.items()}, launch.name, launch.role, launch.when
