"""Running a script on paper: variables, functions, files it writes, and the engine commands it comes to.

A test that the script does not settle is a `Condition`; the run takes the branch that `choices` says (the else branch
unless told otherwise) and notes the condition, so that the caller can run again with another choice."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from policy.launchers.containers.reading.programs import Started, find_program
from policy.launchers.containers.reading.shell_conditions import Condition, test
from policy.launchers.containers.reading.shell_expand import Field, Place, Value, Variables, expand, is_default, text_in, text_of
from policy.launchers.containers.reading.shell_tree import Case, Command, Function, Group, If, Loop, Sequence, Tree, parse
from policy.launchers.shell_words import ShellWord, Token
from policy.launchers.yaml_places import Places

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?(\+?)=")
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}
_OPTION_LOOP = re.compile(r"\$\{?(?:1|opt\w*|arg\w*|key|param\w*|OPTARG)\b", re.IGNORECASE)
_PACKAGES = re.compile(r"^(vllm|sglang|tensorrt[-_]llm)(?:\[[^\]]*\])?\s*((?:[=<>~!]=?=?|===)\s*[\w.*+!-]+(?:\s*,\s*[=<>~!]=?\s*[\w.*+!-]+)*)$", re.IGNORECASE)
MAX_STEPS = 20_000
MAX_NESTING = 12


@dataclass(slots=True)
class Reached:
    """An engine command that the run came to. `key` tells commands of the same place in the text apart from others."""

    started: Started
    environment: dict[str, Field]
    files: dict[str, str]
    key: tuple[Place, int]
    conditions: tuple[tuple[Condition, bool], ...]
    lost: int | None = None  # line of an option that stands behind a comment and so belongs to no command


@dataclass(slots=True)
class Run:
    """One run over a script. `places` maps offsets of the text to lines and columns of `name`."""

    name: str
    choices: dict[Condition, bool] = field(default_factory=dict)
    reached: list[Reached] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    scripts: dict[str, tuple[str, Place]] = field(default_factory=dict)
    versions: dict[str, Field] = field(default_factory=dict)  # engine -> version that the script installs
    functions: dict[str, tuple[Sequence, Callable[[int], Place]]] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    steps: int = 0

    def script(self, text: str, places: Places, variables: Variables, depth: int = 0, held: tuple[tuple[Condition, bool], ...] = ()) -> None:
        def place(offset: int) -> Place:
            return (self.name, *places(offset))

        self.sequence(parse(text), variables, place, depth, held)
        if depth == 0:
            for name, (body, where) in list(self.functions.items()):
                if name not in self.called:
                    self.sequence(body, variables.copy(), where, 1, held)
            for name, (body_text, where_written) in list(self.scripts.items()):
                if name not in self.called:
                    self.nested(Field(body_text, where_written), [], variables.copy(), 1, held)

    def nested(self, script: Field, positional: list[Field], variables: Variables, depth: int, held: tuple[tuple[Condition, bool], ...]) -> None:
        if depth > MAX_NESTING:
            return
        file, line, column = script.place
        places = _inside(script.text, line, column)
        inner = Run(file, self.choices, self.reached, self.conditions, self.files, self.scripts, self.versions, self.functions, self.called, self.steps)
        scope = variables.copy()
        scope.positional = positional if positional else None
        inner.script(script.text, places, scope, depth + 1, held)
        self.steps = inner.steps

    def sequence(self, sequence: Sequence, variables: Variables, place: Callable[[int], Place], depth: int, held: tuple[tuple[Condition, bool], ...]) -> bool | Condition | None:
        """Runs the commands; the truth of the last one, where it is a test."""
        truth: bool | Condition | None = None
        last: Reached | None = None
        for before, item in sequence.items:
            inner = held
            if before == "&&" and isinstance(truth, (bool, Condition)):
                holds = self.choose(truth)
                if not holds:
                    continue
                inner = (*held, (truth, True)) if isinstance(truth, Condition) else held
            elif before == "||":
                if isinstance(truth, (bool, Condition)):
                    if self.choose(truth):
                        continue
                    inner = (*held, (truth, False)) if isinstance(truth, Condition) else held
                elif isinstance(item, Command) and item.words and item.words[0].bare in {"exit", "return", "true", "continue", "break"}:
                    continue
            count = len(self.reached)
            if isinstance(item, Command):
                if last is not None and item.words and item.words[0].written.startswith("-"):
                    last.lost = place(item.offset)[1]
                truth = self.command(item, variables, place, depth, inner)
            else:
                truth = None
                self.tree(item, variables, place, depth, inner)
            last = self.reached[-1] if len(self.reached) > count else last if isinstance(item, Command) and item.words and last and last.lost else None
            if self.steps > MAX_STEPS:
                break
        return truth

    def choose(self, truth: bool | Condition) -> bool:
        if isinstance(truth, bool):
            return truth
        if truth not in self.conditions:
            self.conditions.append(truth)
        return self.choices.get(truth, truth.holds)

    def tree(self, item: Tree, variables: Variables, place: Callable[[int], Place], depth: int, held: tuple[tuple[Condition, bool], ...]) -> None:
        self.steps += 1
        if depth > 200 or self.steps > MAX_STEPS:
            return
        if isinstance(item, Sequence):
            self.sequence(item, variables, place, depth, held)
        elif isinstance(item, If):
            self.branch(item, variables, place, depth, held)
        elif isinstance(item, Case):
            self.case(item, variables, place, depth, held)
        elif isinstance(item, Loop):
            self.loop(item, variables, place, depth, held)
        elif isinstance(item, Group):
            self.written(item.body, item.redirections, variables, place)
            self.sequence(item.body, variables, place, depth + 1, held)
        elif isinstance(item, Function):
            self.functions[item.name] = (item.body, place)

    def branch(self, item: If, variables: Variables, place: Callable[[int], Place], depth: int, held: tuple[tuple[Condition, bool], ...]) -> None:
        for condition, body in item.branches:
            truth = self.sequence(condition, variables, place, depth + 1, held)
            if truth is None:  # whether a program succeeds is not on paper
                written = " ".join(word.written for _, one in condition.items if isinstance(one, Command) for word in one.words)
                truth = Condition(written)
            holds = self.choose(truth)
            if isinstance(truth, Condition):
                held = (*held, (truth, holds))
            if holds:
                self.sequence(body, variables, place, depth + 1, held)
                return
        if item.otherwise is not None:
            self.sequence(item.otherwise, variables, place, depth + 1, held)

    def case(self, item: Case, variables: Variables, place: Callable[[int], Place], depth: int, held: tuple[tuple[Condition, bool], ...]) -> None:
        if item.subject is None or _OPTION_LOOP.search(item.subject.written):
            return  # options of the script itself: what they would set is not set here
        value = text_of(item.subject, variables)
        known = "$" not in value and "`" not in value
        name = re.sub(r"[${}\"]", "", item.subject.written)
        for patterns, body in item.arms:
            written = [pattern.written for pattern in patterns]
            if "*" in written:
                self.sequence(body, variables, place, depth + 1, held)
                return
            if known:
                if any(re.fullmatch(re.escape(one).replace(r"\*", ".*").replace(r"\?", "."), value) for one in written):
                    self.sequence(body, variables, place, depth + 1, held)
                    return
                continue
            condition = Condition(name, "is", " or ".join(written))
            if self.choose(condition):
                self.sequence(body, variables, place, depth + 1, (*held, (condition, True)))
                return
            held = (*held, (condition, False))

    def loop(self, item: Loop, variables: Variables, place: Callable[[int], Place], depth: int, held: tuple[tuple[Condition, bool], ...]) -> None:
        if item.condition is not None:
            for _, one in item.condition.items:
                if isinstance(one, Command) and test(one, variables) is None:
                    self.command(one, variables, place, depth, held)
        values: list[Field] = []
        for word in item.values or []:
            values += expand(word, variables, place)
        if not values or len(values) > 16 or any("$" in value.text or "{" in value.text or "*" in value.text for value in values):
            if item.variable:
                variables.values.pop(item.variable, None)
            self.sequence(item.body, variables, place, depth + 1, held)
            return
        for value in values:
            variables.values[item.variable] = Value(value.text, value.place)
            self.sequence(item.body, variables, place, depth + 1, held)

    def command(self, command: Command, variables: Variables, place: Callable[[int], Place], depth: int, held: tuple[tuple[Condition, bool], ...]) -> bool | Condition | None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            return None
        truth = test(command, variables)
        if truth is not None:
            return truth
        words = list(command.words)
        before: dict[str, Field] = {}
        while words and (match := _assigned(words[0])):
            word = words.pop(0)
            if not words:
                self.assign(word, match, variables, place, False)
            elif _assigned(words[0]) and all(_assigned(one) for one in words):
                self.assign(word, match, variables, place, False)
            else:
                value = self.value(word, match, variables, place)
                before[match.group(1)] = Field(value.text, value.place)
        if not words:
            return None
        first = words[0].bare or ""
        if first in _DECLARING:
            self.declare(first, words[1:], variables, place)
            return None
        fields: list[Field] = []
        for word in words:
            fields += expand(word, variables, place)
        if not fields:
            return None
        self.write_files(fields, command.redirections, variables, place)
        body = self.functions.get(fields[0].text)
        if body is not None and depth < MAX_NESTING:
            self.called.add(fields[0].text)
            outer = variables.positional
            variables.positional = fields
            self.sequence(body[0], variables, body[1], depth + 1, held)
            variables.positional = outer
            return None
        self.installed(fields)
        self.program(fields, before, command, variables, place, depth, held)
        return None

    def program(
        self,
        fields: list[Field],
        before: dict[str, Field],
        command: Command,
        variables: Variables,
        place: Callable[[int], Place],
        depth: int,
        held: tuple[tuple[Condition, bool], ...],
    ) -> None:
        started = find_program(fields)
        fed = next((token for token in command.redirections if token.text in {"<<", "<<-"} and token.body), None)
        if started is None:
            if fed is not None and fed.body and re.fullmatch(r"(?:.*/)?(?:ba|z)?sh|ssh", fields[0].text):
                self.nested(Field(fed.body, place(fed.body_offset)), [], variables, depth, held)
            return
        if started.script_file:
            self.called.add(started.script_file)
            written = self.scripts.get(started.script_file)
            if written is not None:
                self.nested(Field(*written), started.positional, variables, depth, held)
            return
        if started.script is not None:
            count = len(self.reached)
            self.nested(started.script, started.positional, variables, depth, held)
            for reached in self.reached[count:]:
                reached.started.image = reached.started.image or started.image
                reached.started.wrapper = started.wrapper + reached.started.wrapper
                reached.environment = {**started.environment, **before, **reached.environment}
            return
        exported = {name: Field(value.text, value.place) for name, value in variables.values.items() if value.exported}
        environment = {**exported, **before, **started.environment}
        key = (place(command.offset), sum(one.key[0] == place(command.offset) for one in self.reached))
        self.reached.append(Reached(started, environment, dict(self.files), key, held))

    def assign(self, word: ShellWord, match: re.Match[str], variables: Variables, place: Callable[[int], Place], exported: bool) -> None:
        name = match.group(1)
        value = self.value(word, match, variables, place)
        old = variables.values.get(name)
        value.exported = exported or (old is not None and old.exported)
        if "[" in match.group(0):
            return
        variables.values[name] = value

    def value(self, word: ShellWord, match: re.Match[str], variables: Variables, place: Callable[[int], Place]) -> Value:
        old = variables.values.get(match.group(1)) if match.group(2) else None
        if word.elements is not None:
            elements = [item for element in word.elements for item in expand(element, variables, place)]
            if old is not None:
                elements = (old.elements if old.elements is not None else [Field(old.text, old.place)] if old.text else []) + elements
            return Value(" ".join(item.text for item in elements), place(word.offset), elements)
        text = text_of(word, variables)[len(match.group(0)) :]
        where = place(word.offset + len(match.group(0)))
        if len(word.parts) <= 2 and "$" in word.written:
            inner = expand(ShellWord(word.parts[1:], word.offset), variables, place) if len(word.parts) == 2 else []
            where = inner[0].place if len(inner) == 1 and inner[0].text == text else where
        if old is not None and old.elements is not None:
            elements = [*old.elements, Field(text, where)]
            return Value(" ".join(item.text for item in elements), old.place, elements)
        return Value(old.text + text if old is not None else text, where, default=is_default(word, variables))

    def declare(self, kind: str, words: list[ShellWord], variables: Variables, place: Callable[[int], Place]) -> None:
        exports = kind == "export" or any((word.bare or "").startswith("-") and "x" in (word.bare or "") for word in words)
        for word in words:
            match = _assigned(word)
            if match is not None:
                self.assign(word, match, variables, place, exports)
            elif exports and word.bare and word.bare in variables.values:
                old = variables.values[word.bare]
                variables.values[word.bare] = Value(old.text, old.place, old.elements, True)

    def written(self, body: Sequence, redirections: list[Token], variables: Variables, place: Callable[[int], Place]) -> None:
        """`{ echo a; echo b; } > file`"""
        target = next((token.word for token in redirections if token.text in {">", ">>"} and token.word is not None), None)
        if target is not None:
            lines = [" ".join(item.text for word in one.words[1:] for item in expand(word, variables, place)) for _, one in body.items if isinstance(one, Command) and one.words and one.words[0].bare == "echo"]
            self.files[text_of(target, variables)] = "\n".join(lines) + "\n"

    def write_files(self, fields: list[Field], redirections: list[Token], variables: Variables, place: Callable[[int], Place]) -> None:
        """`cat > file <<EOF`, `tee file <<EOF`, `echo text > file`."""
        fed = next((token for token in redirections if token.text in {"<<", "<<-"} and token.body is not None), None)
        target = next((token for token in redirections if token.text in {">", ">>", ">|"} and token.word is not None), None)
        name = text_of(target.word, variables) if target is not None and target.word is not None else ""
        if "tee" in {item.text for item in fields[:2]} and fed is not None:
            name = name if name and name != "/dev/null" else next((item.text for item in fields[1:] if not item.text.startswith("-") and item.text != "tee"), "")
        if not name or name == "/dev/null":
            return
        if fed is not None and fed.body is not None and fields[0].text in {"cat", "tee", "sudo"}:
            text = _settled(text_in(fed.body, variables)) if fed.expands else fed.body
            if name.endswith((".sh", ".bash")) or text.startswith("#!"):
                self.scripts[name] = (fed.body if not fed.expands else text, place(fed.body_offset))
        elif fields[0].text in {"echo", "printf"}:
            text = " ".join(item.text for item in fields[1:] if item.text not in {"-e", "-n"}) + "\n"
            text = text.replace("\\n", "\n")
        else:
            return
        appended = target is not None and target.text == ">>" or "-a" in {item.text for item in fields[1:3]}
        self.files[name] = (self.files.get(name, "") if appended else "") + text

    def installed(self, fields: list[Field]) -> None:
        """Versions that `pip install` pins."""
        texts = [item.text for item in fields]
        if "install" not in texts or not any(re.fullmatch(r"(?:.*/)?(?:pip3?|uv|pipx)", text) or text == "pip" for text in texts[: texts.index("install")]):
            return
        for item in fields:
            match = _PACKAGES.match(item.text)
            if match is not None:
                engine = match[1].lower().replace("-", "_")
                version = match[2].strip()
                self.versions[engine] = Field(version.lstrip("=") if version.startswith("==") else version, item.place)


def _assigned(word: ShellWord) -> re.Match[str] | None:
    if not word.parts or word.parts[0].kind != "literal" or word.parts[0].quoted:
        return None
    return _ASSIGNMENT.match(word.parts[0].text)


def _settled(text: str) -> str:
    """What a here-document leaves open, written so that YAML takes it as one value."""
    text = re.sub(r"\$\(\(.{0,300}?\)\)", lambda match: re.sub(r"\s", "", match.group(0)), text)
    text = re.sub(r"\$\((\S+)[^()]{0,300}\)(?!\))", r"$(\1)", text)
    return re.sub(r"\$\{(\w+)[^{}]{0,300}\}", r"$\1", text)


def _inside(text: str, line: int, column: int) -> Places:
    """Places of a text whose first character stands at (line, column); later lines are counted from there."""
    segments = [(0, line, column)]
    for number, match in enumerate(re.finditer("\n", text), 1):
        segments.append((match.end(), line + number, 1))
    return Places(segments)
