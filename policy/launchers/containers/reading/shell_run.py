"""Running a script on paper: variables, functions, files it writes, and the engine commands it comes to.

A test that the script does not settle is a `Condition`; the run takes the branch that `choices` says (else what the
script's own defaults come to) and notes the condition, so that the caller can run again with another choice."""

from __future__ import annotations

import re

from policy.launchers.containers.reading.programs import Started, find_program
from policy.launchers.containers.reading.shell_conditions import Condition, test
from policy.launchers.containers.reading.shell_expand import Field, Place, Value, Variables, text_of
from policy.launchers.containers.reading.shell_scope import Files, Held, Scope, assign, assigned, declare, fed, value_of
from policy.launchers.containers.reading.shell_tree import Case, Command, Function, Group, If, Loop, Sequence, Tree, parse
from policy.launchers.yaml_places import Places
from policy.records import dataclass, field, replace

_DECLARING = {"export", "declare", "local", "readonly", "typeset"}
_OPTION_LOOP = re.compile(r"\$\{?(?:1|opt\w*|arg\w*|key|param\w*|OPTARG)\b", re.IGNORECASE)
_ENDING = {"exit", "return", "true", "continue", "break"}
_PACKAGES = re.compile(r"^(vllm|sglang|tensorrt[-_]llm)(?:\[[^\]]*\])?\s*((?:[=<>~!]=?=?|===)\s*[\w.*+!-]+(?:\s*,\s*[=<>~!]=?\s*[\w.*+!-]+)*)$", re.IGNORECASE)
_INSTALLER = re.compile(r"(?:.*/)?(?:pip[\d.]*|uv|pipx)")
MAX_STEPS = 40_000  # words expanded and constructs entered
MAX_NESTING = 12
MAX_VALUES = 16  # of a `for` loop that is run value by value


@dataclass(slots=True)
class Reached:
    """An engine command that the run came to. `lost` is the line of an option that stands behind a comment and so
    belongs to no command."""

    started: Started
    environment: dict[str, Field]
    files: dict[str, str]
    place: Place
    conditions: Held
    lost: int | None = None


@dataclass(slots=True)
class Run:
    """One run. What it gathers is shared with the runs of scripts inside the script."""

    choices: dict[Condition, bool] = field(default_factory=dict)
    reached: list[Reached] = field(default_factory=list)
    conditions: dict[Condition, None] = field(default_factory=dict)  # in the order in which they were met
    files: Files = field(default_factory=lambda: Files({}, {}))
    versions: dict[str, Field] = field(default_factory=dict)  # engine -> version that the script installs
    functions: dict[str, tuple[Sequence, Scope]] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    steps: int = 0

    def script(self, text: str, name: str, places: Places, variables: Variables) -> None:
        """Runs the text of the file `name`; functions and written scripts that nothing calls are run at the end."""
        scope = Scope(variables, lambda offset: (name, *places(offset)))
        self.sequence(parse(text), scope)
        for function, (body, where) in list(self.functions.items()):
            if function not in self.called:
                self.sequence(body, replace(where, variables=variables.copy(), depth=1, held=()))
        for written, script in list(self.files.scripts.items()):
            if written not in self.called:
                self.nested(script, [], scope.deeper())

    def nested(self, script: Field, positional: list[Field], scope: Scope) -> None:
        """Runs a script inside the script, with the variables as they are."""
        if scope.depth > MAX_NESTING:
            return
        file, line, column = script.place
        places = _inside(script.text, line, column)
        variables = scope.variables.copy()
        variables.positional = positional or None
        self.sequence(parse(script.text), Scope(variables, lambda offset: (file, *places(offset)), scope.depth + 1, scope.held))

    def sequence(self, sequence: Sequence, scope: Scope) -> bool | Condition | None:
        """Runs the commands; the truth of the last one, where it is a test."""
        truth: bool | Condition | None = None
        last: Reached | None = None
        for before, item in sequence.items:
            inner = scope
            if before in {"&&", "||"} and truth is not None:
                holds = self.choose(truth)
                if holds != (before == "&&"):
                    continue
                inner = scope.under(truth, holds)
            elif before == "||" and isinstance(item, Command) and item.words and item.words[0].bare in _ENDING:
                continue
            count = len(self.reached)
            if isinstance(item, Command):
                if last is not None and last.lost is None and item.words and item.words[0].written.startswith("-"):
                    last.lost = scope.place(item.offset)[1]
                truth = self.command(item, inner)
            else:
                truth = None
                self.tree(item, inner)
            last = self.reached[-1] if len(self.reached) > count else None
            if self.steps > MAX_STEPS:
                break
        return truth

    def choose(self, truth: bool | Condition) -> bool:
        """The truth that this run goes by."""
        if isinstance(truth, bool):
            return truth
        self.conditions[truth] = None
        return self.choices.get(truth, truth.holds)

    def tree(self, item: Tree, scope: Scope) -> None:
        """Runs one construct."""
        self.steps += 1
        if scope.depth > 200 or self.steps > MAX_STEPS:
            return
        if isinstance(item, Sequence):
            self.sequence(item, scope)
        elif isinstance(item, If):
            self._if(item, scope)
        elif isinstance(item, Case):
            self._case(item, scope)
        elif isinstance(item, Loop):
            self._loop(item, scope)
        elif isinstance(item, Group):
            self.files.write_group(item.body, item.redirections, scope)
            self.sequence(item.body, scope.deeper())
        elif isinstance(item, Function):
            self.functions[item.name] = (item.body, scope)

    def _if(self, item: If, scope: Scope) -> None:
        for condition, body in item.branches:
            truth = self.sequence(condition, scope.deeper())
            if truth is None:  # whether a program succeeds is not on paper
                truth = Condition(" ".join(word.written for _, one in condition.items if isinstance(one, Command) for word in one.words))
            holds = self.choose(truth)
            scope = scope.under(truth, holds)
            if holds:
                self.sequence(body, scope.deeper())
                return
        if item.otherwise is not None:
            self.sequence(item.otherwise, scope.deeper())

    def _case(self, item: Case, scope: Scope) -> None:
        if item.subject is None or _OPTION_LOOP.search(item.subject.written):
            return  # options of the script itself: what they would set is not set here
        value = text_of(item.subject, scope.variables)
        known = "$" not in value and "`" not in value
        name = re.sub(r"[${}\"]", "", item.subject.written)
        for patterns, body in item.arms:
            written = [pattern.written for pattern in patterns]
            truth: bool | Condition = "*" in written
            if not truth and known:
                truth = any(re.fullmatch(re.escape(one).replace(r"\*", ".*").replace(r"\?", "."), value) for one in written)
            elif not truth:
                truth = Condition(name, "is", " or ".join(written))
            holds = self.choose(truth)
            scope = scope.under(truth, holds)
            if holds:
                self.sequence(body, scope.deeper())
                return

    def _loop(self, item: Loop, scope: Scope) -> None:
        for _, one in item.condition.items if item.condition is not None else ():
            if isinstance(one, Command) and test(one, scope.variables) is None:
                self.command(one, scope)
        values = scope.fields(item.values or [])
        if not values or len(values) > MAX_VALUES or any(set("${*") & set(value.text) for value in values):
            scope.variables.values.pop(item.variable, None)
            self.sequence(item.body, scope.deeper())
            return
        for value in values:
            scope.variables.values[item.variable] = Value(value.text, value.place)
            self.sequence(item.body, scope.deeper())

    def command(self, command: Command, scope: Scope) -> bool | Condition | None:
        """Runs a simple command; its truth where it is a test."""
        self.steps += 1 + len(command.words)
        if self.steps > MAX_STEPS:
            return None
        truth = test(command, scope.variables)
        if truth is not None:
            return truth
        words = list(command.words)
        before: dict[str, Field] = {}
        alone = all(assigned(word) for word in words)
        while words and (match := assigned(words[0])):
            word = words.pop(0)
            if alone:
                assign(word, match, scope)
            else:
                value = value_of(word, match, scope)
                before[match[1]] = Field(value.text, value.place)
        if words and words[0].bare in _DECLARING:
            declare(words[0].bare or "", words[1:], scope)
            return None
        fields = scope.fields(words)
        if not fields:
            return None
        self.files.write(fields, command.redirections, scope)
        function = self.functions.get(fields[0].text)
        if function is not None and scope.depth < MAX_NESTING:
            self._call(fields, function, scope)
            return None
        self._installed(fields)
        self._program(fields, before, command, scope)
        return None

    def _call(self, fields: list[Field], function: tuple[Sequence, Scope], scope: Scope) -> None:
        self.called.add(fields[0].text)
        body, where = function
        outer, scope.variables.positional = scope.variables.positional, fields
        self.sequence(body, replace(scope.deeper(), place=where.place))
        scope.variables.positional = outer

    def _program(self, fields: list[Field], before: dict[str, Field], command: Command, scope: Scope) -> None:
        started = find_program(fields)
        if started is None:
            document = fed(command.redirections)
            if document is not None and document.body and re.fullmatch(r"(?:.*/)?(?:ba|z)?sh|ssh", fields[0].text):
                self.nested(Field(document.body, scope.place(document.body_offset)), [], scope)
            return
        if started.script_file:
            self.called.add(started.script_file)
            written = self.files.scripts.get(started.script_file)
            if written is not None:
                self.nested(written, started.positional, scope)
            return
        if started.script is not None:
            count = len(self.reached)
            self.nested(started.script, started.positional, scope)
            for reached in self.reached[count:]:
                reached.started.image = reached.started.image or started.image
                reached.started.wrapper = started.wrapper + reached.started.wrapper
                reached.environment = {**started.environment, **before, **reached.environment}
            return
        exported = {name: Field(value.text, value.place) for name, value in scope.variables.values.items() if value.exported}
        environment = {**exported, **before, **started.environment}
        self.reached.append(Reached(started, environment, dict(self.files.texts), scope.place(command.offset), scope.held))

    def _installed(self, fields: list[Field]) -> None:
        """Versions that `pip install` pins."""
        texts = [item.text for item in fields]
        if "install" not in texts or not any(_INSTALLER.fullmatch(text) for text in texts[: texts.index("install")]):
            return
        for item in fields:
            match = _PACKAGES.match(item.text)
            if match is not None:
                version = match[2].strip()
                self.versions[match[1].lower().replace("-", "_")] = Field(version.lstrip("=") if version.startswith("==") else version, item.place)


def _inside(text: str, line: int, column: int) -> Places:
    """Places of a text whose first character stands at (line, column); later lines are counted from there."""
    return Places([(0, line, column)] + [(match.end(), line + number, 1) for number, match in enumerate(re.finditer("\n", text), 1)])
