"""What a command was given (a launch command, files, facts, settings of facts, a device) to launches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from policy.decision import Because, LaunchState
from policy.facts import ValueProblem
from policy.launch import Launch, flat
from policy.launchers.found import NOTE_KINDS, FoundLaunch, LaunchNotice
from policy.launchers.read import ReadLaunch, device_facts, from_command, read_launch
from policy.origin import Origin
from policy.pack import Pack
from policy.problems import LaunchError, Problem, Span, UsageError
from policy.records import dataclass, field
from policy.source import MAX_BYTES, Document, read_json, read_text, read_yaml

#: How a launch is written on the command line.
WRITTEN = "-- vllm serve MODEL -tp 2"
#: Effects of findings about a launch, the gravest first.
EFFECTS = ("refuse", "warn", "note")


@dataclass(slots=True)
class Request:
    """The input options that the commands share."""

    command: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    assignments: list[str] = field(default_factory=list)
    device: str | None = None
    probe: bool | None = None


def launches(pack: Pack, request: Request, given: Launch | None = None) -> list[ReadLaunch]:
    """Every launch of the request, facts and settings applied to each; `given` are those of `stated`, where they were read
    before. Raises `PolicyError`."""
    found: list[FoundLaunch] = []
    notices: list[LaunchNotice] = []
    for name in request.files:
        listed, remarks = _from_file(name)
        found.extend(listed)
        notices.extend(remarks)
    if request.command:
        launch = from_command(request.command)
        if not launch.engine:
            raise UsageError(f"`{' '.join(request.command[:3])}` starts no engine that is known", _what_to_write(request.command))
        found.append(launch)
    given = stated(pack, request) if given is None else given
    version = given.given.get("engine.version")
    single = version.values.single() if version else None
    read = [read_launch(pack, one, str(single) if single is not None else None, _files_of(one), request.probe, os.environ) for one in found]
    if not read:
        read = [_only_facts(pack, request)]
    if read and notices:
        read[0].notices.extend(notices)
    for one in read:
        if request.device is not None:
            _profile(pack, one.launch, request.device)
        for name, held in given.given.items():
            present = one.launch.given.get(name)
            if present is None or held.origin.rank <= present.origin.rank:
                one.launch.given[name] = held
    return read


def _what_to_write(command: Sequence[str]) -> str:
    """What to do about a command that starts no engine itself."""
    if len(command) == 1 and " " in command[0]:
        return f"leave out the quotes: `-- {command[0]}`"
    if any(word.rsplit("/", 1)[-1] in ("docker", "podman", "bash", "sh", "kubectl", "sbatch") for word in command[:1]):
        return "what starts the engine elsewhere is read from a file: write the command into one, as `run.sh`, and name it"
    return f"write the launch after `--`, as in `{WRITTEN}`"


def _only_facts(pack: Pack, request: Request) -> ReadLaunch:
    if not (request.facts or request.assignments or request.device or request.probe):
        raise UsageError("there is no launch to look at", "write one after `--`, name a file, or give facts with --facts FILE or --set FACT=VALUE")
    if request.probe:
        return read_launch(pack, FoundLaunch(""), None, None, True, os.environ)
    return ReadLaunch(Launch())


def _profile(pack: Pack, launch: Launch, name: str) -> None:
    try:
        device_facts(pack, launch, name)
    except ValueProblem as problem:
        raise UsageError(str(problem), problem.help, "--device") from None


def stated(pack: Pack, request: Request) -> Launch:
    """The facts of --facts files and --set, the latter stronger: they hold for every launch. Raises `PolicyError` for them
    and for a device that is not known."""
    launch = Launch()
    if request.device is not None:
        _profile(pack, Launch(), request.device)
    problems: list[Problem] = []
    for name in request.facts:
        problems.extend(state_facts_file(pack, launch, name))
    for assignment in request.assignments:
        fact, equals, value = assignment.partition("=")
        source = f"--set {assignment}"
        if not equals:
            problems.append(Problem("this is no assignment", None, "write --set FACT=VALUE", source=source))
            continue
        try:
            launch.state(pack, fact.strip(), value.strip(), Origin("set", fact.strip()))
        except ValueProblem as problem:
            problems.append(Problem(str(problem), None, problem.help, source=source))
    if problems:
        raise LaunchError(problems)
    return launch


def state_facts_file(pack: Pack, launch: Launch, name: str) -> list[Problem]:
    """State the facts of one file: a mapping of names (nested or dotted) to values, or a report of `policy facts`."""
    text, problems = text_of(name)
    if text is None:
        return problems
    document, defects = (read_json if name.endswith(".json") or text.lstrip()[:1] == "{" else read_yaml)(text, name)
    if defects:
        return defects
    data = document.value
    if not isinstance(data, dict):
        return [document.problem((), "a facts file is a mapping of fact names to values")]
    inside: tuple[str | int, ...] = ()
    if isinstance(data.get("facts"), dict):
        data, inside = data["facts"], ("facts",)
    report = bool(inside) and all(isinstance(one, dict) and "value" in one for one in data.values())
    for fact, raw in [(key, one["value"]) for key, one in data.items()] if report else list(flat(data, pack)):
        try:
            launch.state(pack, fact, raw, Origin("facts", fact, name, _line(document, (*inside, *fact.split("."))) or _line(document, (*inside, fact))))
        except ValueProblem as problem:
            problems.append(_placed(document, inside, fact, problem, pack.fact(fact) is None))
    return problems


def _placed(document: Document, inside: tuple[str | int, ...], fact: str, problem: ValueProblem, key: bool) -> Problem:
    document.span(())  # finds the places of a document that was read without them
    for path in ((*inside, fact), (*inside, *fact.split("."))):
        if path in document.values:
            return document.problem(path, str(problem), problem.help, key)
    return document.problem(inside, str(problem), problem.help)


def _line(document: Document, path: tuple[str | int, ...]) -> int | None:
    span = document.values.get(path)
    return span.line if span is not None else None


def text_of(name: str) -> tuple[str | None, list[Problem]]:
    """The text of a file, or of the standard input for `-`."""
    if name != "-" and Path(name).is_dir():
        return None, [Problem("this is a folder, not a file", Span(name), "name a file in it; `policy audit` searches folders")]
    if name != "-":
        return read_text(Path(name), name)
    held = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None else b""
    if len(held) > MAX_BYTES:
        return None, [Problem(f"the input has more than the {MAX_BYTES} bytes that are read", Span("-"))]
    try:
        return held.decode("utf-8-sig"), []
    except UnicodeDecodeError as error:
        return None, [Problem(f"the input is not UTF-8 (byte {error.start})", Span("-"))]


def _from_file(name: str) -> tuple[list[FoundLaunch], list[LaunchNotice]]:
    from policy.launchers.containers import find_launches

    text, problems = text_of(name)
    if text is None:
        text = _of_long_log(name)
    if text is None:
        raise LaunchError(problems)
    found = find_launches(text, name)
    if not found.launches:
        unread = [Problem(notice.message, _span(notice.origin, name), notice.remedy) for notice in found.problems]
        raise LaunchError(unread or [Problem("no engine launch was found", Span(name))])
    return found.launches, list(found.problems)


def _of_long_log(name: str) -> str | None:
    """The lines about launches of a log that is longer than any other file may be; None for anything else."""
    from policy.launchers.logs import read_log

    path = Path(name)
    if name == "-" or not path.is_file() or path.stat().st_size <= MAX_BYTES:
        return None
    from policy.launchers.containers import engine_log

    log, _ = read_log(name)
    text = log.launch_text() if log is not None else ""
    return text if engine_log.looks_like(text, [], name) else None


def _span(origin: Origin, name: str) -> Span:
    return Span(origin.file or name, origin.line or 1, origin.column or 1)


def _files_of(found: FoundLaunch) -> Callable[[str], str | None]:
    """The files a launch may name: those its container carries, and, for a command line, those of this folder."""

    def read(name: str) -> str | None:
        if name in found.files:
            return found.files[name]
        if any(word.origin.file for word in found.words):
            return None
        text, _ = read_text(Path(name), name)
        return text

    return read


def with_notices(state: LaunchState, read: ReadLaunch) -> LaunchState:
    """The state of the launch with what the reading found: an engine that refuses its command line is a refused launch."""
    extra = [_because(notice, "refuse") for notice in read.errors]
    extra.extend(_because(notice, "note" if notice.kind in NOTE_KINDS else "warn") for notice in read.notices)
    findings = sorted((*state.findings, *extra), key=lambda one: EFFECTS.index(one.effect))
    effects = {one.effect for one in findings}
    return LaunchState("refused" if "refuse" in effects else "warn" if "warn" in effects else "ok", tuple(findings), state.unknown)


def _because(notice: LaunchNotice, effect: str) -> Because:
    remedy = f"; {notice.remedy}" if notice.remedy else ""
    return Because(notice.kind, effect, True, "crash" if effect == "refuse" else None, (), f"{notice.origin}: {notice.message}{remedy}")


def contradictions(pack: Pack, read: Sequence[ReadLaunch]) -> Iterable[Problem]:
    """Derived facts that were given and cannot be true."""
    from policy.launch import Facts

    for one in read:
        for text in Facts(pack, one.launch).contradictions():
            yield Problem(text, None, "drop one of them")
