"""A decision as text, Markdown, or one line: formats what the evaluation recorded and decides nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from policy.decision import Because, Decision, Finding, LaunchState, PlanState, Verdict
from policy.pack import Pack, Place
from policy.records import dataclass, field

#: What an engine that is left alone comes to, as a verb.
BUILT = {"hang": "hangs", "crash": "crashes", "wrong_numbers": "gives wrong numbers", "partly_fused": "is only partly fused", "slower": "is slower"}
WORDS = {"refuse": "refused", "warn": "warning", "note": "note"}
MARKS = {"on": "green", "off": "red", "undetermined": "yellow"}
CODES = {"green": "32", "red": "31", "yellow": "33", "bold": "1", "dim": "2"}


@dataclass(slots=True)
class Section:
    """A heading with rows of cells; a row with one cell is a line of text. `indent` nests rows under a line."""

    title: str
    rows: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    def line(self, text: str, indent: int = 0) -> None:
        """Add a line of text."""
        self.rows.append((indent, (text,)))

    def cells(self, *cells: str, indent: int = 0) -> None:
        """Add a row of cells."""
        self.rows.append((indent, cells))


Paint = Callable[[str, str], str]


def plain_paint(text: str, colour: str) -> str:
    """No colour."""
    return text


def colour_paint(text: str, colour: str) -> str:
    """Colour by escape codes."""
    return f"\033[{CODES[colour]}m{text}\033[0m"


def wants_colour(is_terminal: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: NO_COLOR forbids, FORCE_COLOR and CLICOLOR_FORCE demand (unless they are 0), else a terminal decides."""
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return is_terminal and environment.get("TERM") != "dumb" and environment.get("CLICOLOR") != "0"


def shown_place(place: Place | None, pack: Pack) -> str:
    """A place of the pack as a path from here, with its line."""
    if place is None or not place.file:
        return ""
    path = os.path.join(pack.folder, place.file)
    relative = os.path.relpath(path)
    return f"{path if relative.startswith('..') else relative}:{place.line}"


# --- headlines ---


def headline(decision: Decision) -> str:
    """One sentence: the state and what decided it."""
    reason = decision.reason
    name = decision.fusion
    if decision.posture == "audit" and decision.audit == "hazard":
        built = decision.left_alone.built
        return f"{name} is on and {BUILT.get(built, 'comes out ' + built.replace('_', ' '))} because of {reason.id}: {reason.title}"
    if decision.state == "on":
        plan = decision.chosen
        how = ", ".join(part for part in (plan.backend or plan.library, plan.scope.replace("_", " ")) if part) if plan else ""
        tail = f": {how}" if how else ""
        provisional = f" (provisional: presumes {', '.join(decision.provisional)})" if decision.provisional else ""
        switch = f", by {', '.join(switch.text for switch in decision.switches)}" if decision.switches else ""
        better = f"; better with {' or '.join(decision.better)}, if {few(decision.unknown_facts, 3) or 'it can be built'}" if decision.better else ""
        return f"{name} is on{tail}{switch}{provisional}{better}"
    if decision.state == "undetermined":
        return f"{name} is undetermined: {reason.title}" + (f"; not known: {few(likeliest(decision), 4)}" if decision.unknown_facts else "")
    because = {
        "asked": "because you asked for it",
        "needs": "because something it needs is missing",
        "gate": f"by the engine's own gate {reason.id}".rstrip(),
        "requires": f"because of {reason.id}",
        "unwanted": "because it is not worth having here",
        "unknown": "because",
    }.get(reason.kind, f"because of {reason.id}")
    missed = " (it could be on: --posture fast)" if decision.audit == "missed" and decision.posture == "safe" else ""
    detail = _detail(reason.findings) if reason.kind in ("gate", "needs", "unwanted") else reason.title
    conflict = " (conflict: it was asked for)" if decision.conflict else ""
    evidence = f" [{reason.evidence}]" if reason.evidence else ""
    return f"{name} is off {because}{' ' if reason.kind == 'unknown' else ': '}{detail or reason.title}{evidence}{conflict}{missed}"


def few(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def likeliest(decision: Decision) -> list[str]:
    """The unknown facts, those first that most reasons wait for."""
    waiting = Counter(finding.fact for state in decision.able for one in state.because for finding in one.findings if finding.truth is None)
    waiting.update(finding.fact for finding in decision.left_alone.findings if finding.truth is None)
    return sorted(decision.unknown_facts, key=lambda name: (-waiting[name], name))


def _detail(findings: Sequence[Finding]) -> str:
    return "; ".join(_unmet(finding) for finding in findings[:3] if finding.truth is False)


def _unmet(finding: Finding) -> str:
    """A condition that is false, in words; one under a `not` says what may not be."""
    if finding.condition.startswith("not "):
        return f"{finding.fact} is {finding.value}, and may not be {finding.condition[4:]}"
    return f"{finding.fact} is {finding.value}, not {finding.condition}"


def quiet_line(decision: Decision, pack: Pack) -> str:
    """`file:line:id<TAB>fusion=state`; `gate:` in front where a gate decides, `-` where nothing does."""
    reason = decision.reason
    place = shown_place(reason.place, pack)
    where = f"{place}:{reason.id}" if place and reason.id else "-"
    if where != "-" and reason.kind in ("gate", "on"):
        where = f"gate:{where}"
    return f"{where}\t{decision.fusion}={decision.state}"


# --- pages ---


def decision_sections(decision: Decision, pack: Pack, verbose: bool = False) -> list[Section]:
    """Everything about one decision, in the order a reader asks."""
    sections = [_left_alone(decision, pack, verbose), _able(decision, pack, verbose), _answer(decision)]
    changes = (_flips(decision, pack), _paste(decision))
    rest = (*changes, _warnings(decision), _unknown(decision, pack, verbose), _assuming(decision, pack), _evidence(decision, pack))
    sections.extend(section for section in rest if section.rows)
    return sections


def _left_alone(decision: Decision, pack: Pack, verbose: bool) -> Section:
    alone = decision.left_alone
    words = {"on": "on", "off": "off", "dies": "the launch does not start", "unknown": "not known"}[alone.state]
    built = f", built: {alone.built.replace('_', ' ')}" if alone.state == "on" else ""
    plan = f" (plan {alone.engine_plan})" if alone.engine_plan and alone.state == "on" else ""
    section = Section("left alone, the engine")
    section.line(f"{words}{built}{plan}" + (f", by {alone.gate} in {shown_place(alone.place, pack)}" if alone.gate else ""))
    findings = list(dict.fromkeys(alone.findings))
    shown = findings if verbose or alone.state != "unknown" else findings[:6]
    _findings(section, shown, 1)
    if len(shown) < len(findings):
        section.line(f"{len(findings) - len(shown)} more conditions (-v shows them)", 1)
    for note in alone.notes:
        section.line(f"note: {note}", 1)
    return section


def _able(decision: Decision, pack: Pack, verbose: bool) -> Section:
    section = Section("able")
    others = 0
    for state in decision.able:
        if _other_call(state) and not verbose:
            others += 1
            continue
        names = list(dict.fromkeys(_reason_name(one) for one in state.because))
        section.cells(state.plan.id, state.state, ", ".join(names) if verbose else few(names, 4))
        for one in state.because if verbose else _deciding(decision, state):
            section.line((one.title or one.id) + (f" ({one.evidence}; {shown_place(one.place, pack)})" if one.place else ""), 1)
            _findings(section, one.findings, 2)
    if others:
        section.line(f"{others} more that this builder's call does not make (-v shows them)")
    return section


def _deciding(decision: Decision, state: PlanState) -> Sequence[Because]:
    """The reasons worth a line: what excludes a plan, and what hides one where little is not known."""
    sure = [one for one in state.because if one.truth is True]
    return sure[:2] if sure else state.because if len(decision.unknown_facts) <= 3 else ()


def _other_call(state: PlanState) -> bool:
    return state.state == "excluded" and bool(state.because) and state.because[0].id == "call"


def _reason_name(one: Because) -> str:
    tail = "" if one.truth is True else "?"
    return f"{one.id}{tail}" + (f" ({one.consequence.replace('_', ' ')})" if one.consequence and one.id not in ("needs", "call") else "")


def _answer(decision: Decision) -> Section:
    section = Section("answer")
    section.cells("asked", decision.asked or "nothing")
    section.cells("wanted", {True: "yes", False: "no", None: "not known"}[decision.wanted])
    section.cells(
        f"posture {decision.posture}",
        f"{decision.state}, {decision.against_engine} {'as' if decision.against_engine == 'same' else 'than'} the engine"
        if decision.against_engine != "unknown"
        else decision.state,
    )
    for name, limit in decision.limits.items():
        section.cells(name, f"{limit.value} {limit.unit}".strip(), limit.id)
    for note in decision.notes:
        section.line(f"note: {note}")
    return section


def _flips(decision: Decision, pack: Pack) -> Section:
    section = Section("what would turn it on")
    for flip in decision.flips:
        variables = [variable for fact, value in flip.changes.items() if (variable := _variable(decision, pack, fact, value))]
        section.cells(", ".join(f"{fact} {value}" for fact, value in flip.changes.items()), flip.cost, " ".join(variables))
    return section


def _variable(decision: Decision, pack: Pack, fact: str, value: str) -> str:
    """The environment variable of the engine that sets a fact to one value; an empty text where there is none."""
    engine = pack.engine(decision.support.get("engine.name", ""))
    for name, maps in engine.environment.items() if engine is not None else ():
        for one in maps:
            text = next((text for text, meant in one.values.items() if str(meant).lower() == value), value)
            if one.fact == fact and one.given is None and (text in one.only or not (one.only or one.values)):
                return f"{name}={text}"
    return ""


def _paste(decision: Decision) -> Section:
    section = Section("paste")
    for switch in decision.switches:
        section.line(switch.text)
    return section


def _warnings(decision: Decision) -> Section:
    section = Section("warnings")
    for one in decision.warnings:
        section.line(f"{one.id}: {one.title}" + (f" ({one.consequence})" if one.consequence else ""))
        _findings(section, one.findings, 1)
    return section


def _unknown(decision: Decision, pack: Pack, verbose: bool) -> Section:
    section = Section("not known")
    names = likeliest(decision)
    for name in names if verbose else names[:6]:
        fact = pack.fact(name)
        needed = sorted(
            {
                state.plan.id
                for state in decision.able
                for one in state.because
                if one.truth is None and any(finding.fact == name and finding.truth is None for finding in one.findings)
            }
        )
        section.cells(name, fact.find_out if fact else "", f"needed by {few(needed, 3)}" if needed else "")
    if not verbose and len(names) > 6:
        section.line(f"{len(names) - 6} more (-v shows them)")
    if names:
        section.line(
            f"state one with --set {names[0]}=VALUE, the machine with --device NAME, or all with --facts FILE (`policy facts --format json` where it runs)"
        )
    return section


def _assuming(decision: Decision, pack: Pack) -> Section:
    section = Section("assuming")
    for name, value in decision.assuming.items():
        fact = pack.fact(name)
        section.cells(name, value, fact.find_out if fact else "")
    return section


def _evidence(decision: Decision, pack: Pack) -> Section:
    section = Section("evidence")
    reason = pack.rules.get(decision.reason.id)
    if reason is None:
        return section
    if reason.why:
        section.line(reason.why)
    if reason.verified:
        seen = reason.verified
        varied = f"; not varied: {', '.join(seen['not_varied'])}" if seen.get("not_varied") else ""
        flashinfer = seen.get("flashinfer")
        releases = f", FlashInfer {', '.join(flashinfer) if isinstance(flashinfer, list) else flashinfer}" if flashinfer else ""
        section.line(f"measured on {seen['hardware']}{releases}: {seen['saw']}{varied}")
    if reason.fix:
        section.line(f"fix: {reason.fix}")
    if reason.references:
        section.line(f"references: {', '.join(reason.references)}")
    return section


def _findings(section: Section, findings: Iterable[Finding], indent: int) -> None:
    for finding in findings:
        truth = {True: "holds", False: "does not hold", None: "not known"}[finding.truth]
        section.cells(finding.fact, finding.value, finding.condition, truth, finding.origin, indent=indent)


def launch_section(state: LaunchState) -> Section:
    """What is said of the launch as a whole."""
    section = Section("the launch")
    for one in state.findings:
        section.line(f"{WORDS[one.effect]}: {one.id}: {one.title}" + (f" ({one.consequence.replace('_', ' ')})" if one.consequence else ""))
        _findings(section, one.findings, 1)
    return section


# --- rendering ---


def as_text(verdict: Verdict, pack: Pack, details: bool, verbose: bool = False, paint: Paint = plain_paint) -> str:
    """The whole answer for a terminal: a headline a fusion, the interesting first, and details where asked."""
    lines: list[str] = []
    launch = launch_section(verdict.launch)
    if launch.rows:
        lines.extend((paint(f"the launch: {verdict.launch.state}", "bold"), *_rows(launch), ""))
    elsewhere = [] if details or verbose else [decision.fusion for decision in verdict.decisions if _is_elsewhere(decision)]
    for decision in interesting_first(verdict.decisions):
        if decision.fusion in elsewhere:
            continue
        lines.append(_painted_headline(decision, paint))
        if details:
            for section in decision_sections(decision, pack, verbose):
                lines.append("")
                lines.append(paint(section.title, "bold"))
                lines.extend(_rows(section))
            lines.append("")
    if elsewhere:
        lines.append(f"{len(elsewhere)} more do not exist for this engine or platform (-v shows them)")
    return "\n".join(lines).rstrip() + "\n"


def _is_elsewhere(decision: Decision) -> bool:
    """Whether a fusion is nothing that this engine or platform has."""
    if decision.state != "off" or decision.asked is not None or decision.left_alone.state == "on":
        return False
    return not decision.left_alone.gate or (decision.reason.kind == "needs" and any(finding.fact == "device.platform" for finding in decision.reason.findings))


def interesting_first(decisions: Iterable[Decision]) -> list[Decision]:
    """Hazards and conflicts, then missed and undetermined ones, then what runs, then what nobody asked for."""
    weight = {"hazard": 0, "missed": 1, "undetermined": 2, "agreed": 3}
    return sorted(decisions, key=lambda one: (not one.conflict, weight[one.audit], one.state != "on", not one.warnings))


def _painted_headline(decision: Decision, paint: Paint) -> str:
    text = headline(decision)
    head, separator, tail = text.partition(f" is {decision.state}")
    return paint(head, "bold") + " is " + paint(decision.state, MARKS[decision.state]) + tail if separator else text


def _rows(section: Section) -> list[str]:
    lines: list[str] = []
    tables: dict[tuple[int, int], list[int]] = {}
    for indent, cells in section.rows:
        if len(cells) > 1:
            widths = tables.setdefault((indent, len(cells)), [0] * len(cells))
            for position, cell in enumerate(cells):
                widths[position] = max(widths[position], min(len(cell), 60))
    for indent, cells in section.rows:
        pad = "  " * (indent + 1)
        if len(cells) == 1:
            lines.extend(_wrapped(cells[0], pad))
        else:
            widths = tables[(indent, len(cells))]
            lines.append((pad + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))).rstrip())
    return lines


def _wrapped(text: str, pad: str, width: int = 120) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, initial_indent=pad, subsequent_indent=pad, break_long_words=False, break_on_hyphens=False) or [pad]


def as_markdown(verdict: Verdict, pack: Pack, verbose: bool = False) -> str:
    """The whole answer as Markdown."""
    lines: list[str] = []
    launch = launch_section(verdict.launch)
    if launch.rows:
        lines.extend((f"### The launch: {verdict.launch.state}", "", *_markdown_rows(launch), ""))
    for decision in interesting_first(verdict.decisions):
        lines.extend((f"### {headline(decision)}", ""))
        for section in decision_sections(decision, pack, verbose):
            lines.extend((f"**{section.title}**", "", *_markdown_rows(section), ""))
    return "\n".join(lines).rstrip() + "\n"


def _markdown_rows(section: Section) -> list[str]:
    code = section.title == "paste"
    return ["  " * indent + "- " + (f"`{cells[0]}`" if code else " · ".join(_escaped(cell) for cell in cells if cell)) for indent, cells in section.rows]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
