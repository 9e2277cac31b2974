"""The noun `Fact`: one leaf of a launch, with its type, domain and what is done where nobody says its value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from policy.records import dataclass, field
from policy.values import ABSENT, EVERYTHING, Discrete, Interval, Ordered, Values
from policy.versions import Version, is_placeholder, line_start, neighbours, parse, shown, without_local

TYPES = ("integer", "number", "version", "boolean", "text", "set")
FOLDS = ("all", "any", "min", "max", "same")
#: What it costs to change a fact, cheapest first. A fact without a cost cannot be changed for a given launch.
COSTS = ("flag", "package", "machine")
#: Texts whose values a fact remembers: traits and defaults are read for every launch.
MOST_READ = 256


class ValueProblem(ValueError):
    """A value that a fact cannot have. `help` says what would be right."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True, slots=True)
class Fact:
    """One leaf of a launch.

    `name` is dotted (`parallel.tensor_parallel_size`); `choices` closes a text domain; `minimum` and `maximum` bound
    numbers, in `unit`; `optional` admits `absent`; `assume` is used where nothing is known, `presume` only where a
    provisional answer is accepted; `fold` joins the values of several ranks; `change` is one of `COSTS` or None."""

    name: str
    type: str
    description: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    unit: str = ""
    optional: bool = False
    assume: Any = None
    presume: Any = None
    presume_when: Any = None
    fold: str = "same"
    change: str | None = None
    find_out: str = ""
    source: str = ""
    derived: bool = False
    _domain: list[Values] = field(default_factory=list, repr=False, compare=False)
    _read: dict[tuple[bool, Any], Values] = field(default_factory=dict, repr=False, compare=False)

    @property
    def domain(self) -> Values:
        """Every value the fact can have."""
        if not self._domain:
            self._domain.append(self._make_domain())
        return self._domain[0]

    def _make_domain(self) -> Values:
        if self.type == "boolean":
            return Discrete(frozenset((True, False)), False, self.optional)
        if self.type == "text" and self.choices:
            return Discrete(frozenset(self.choices), False, self.optional)
        if self.type in ("text", "set"):
            return Discrete(frozenset(), True, self.optional)
        low, high = self.minimum, self.maximum
        interval = Interval(low, low is not None, high, high is not None) if self.type in ("integer", "number") else EVERYTHING
        return Ordered.of((interval,), self.optional, self.step)

    @property
    def step(self) -> int:
        """1 for integers, whose intervals are kept closed."""
        return 1 if self.type == "integer" else 0

    @property
    def ordered(self) -> bool:
        """Whether `<` and `>` mean something for this fact."""
        return self.type in ("integer", "number", "version")

    def known(self, values: Values) -> bool:
        """Whether exactly one value is left."""
        return values.single() is not None

    # --- reading values ---

    def value(self, raw: Any) -> Any:
        """One value of the fact's type from YAML, JSON or a command line. Raises `ValueProblem`."""
        if raw is ABSENT or raw == "absent":
            if not self.optional:
                raise ValueProblem(f"`{self.name}` cannot be `absent`", self.expected())
            return ABSENT
        read = getattr(self, f"_read_{self.type}")
        value = read(raw)
        if value not in self.domain:
            raise ValueProblem(f"`{raw}` is outside the domain of `{self.name}`", self.expected(str(raw)))
        return value

    def values(self, raw: Any, releases: Sequence[Version] = ()) -> Values:
        """The set of possible values: one value, a list of possible values, a range such as `>=0.6.8,<0.7`, `absent`,
        or `unknown` for the whole domain. `releases` are the known releases of a version fact: a development build
        counts as anything between the final releases around it. Raises `ValueProblem`."""
        if isinstance(raw, Ordered | Discrete):
            return raw
        if releases or not isinstance(raw, str | bool):
            return self._values(raw, releases)
        key = (isinstance(raw, bool), raw)
        held = self._read.get(key)
        if held is None:
            held = self._values(raw, ())
            if len(self._read) < MOST_READ:
                self._read[key] = held
        return held

    def _values(self, raw: Any, releases: Sequence[Version]) -> Values:
        if raw is None or raw == "unknown":
            return self.domain
        if self.type == "set":
            return self._values_of_set(raw)
        if isinstance(raw, list | tuple | set | frozenset):
            if not raw:
                raise ValueProblem(f"`{self.name}` is given an empty list of possible values", self.expected())
            joined = self.values(next(iter(raw)), releases)
            for element in raw:
                joined = joined | self.values(element, releases)  # type: ignore[operator]
            return joined
        if self.ordered and isinstance(raw, str) and raw.lstrip()[:1] in ("<", ">", "=", "!"):
            return self.range(raw)
        if self.type == "version" and isinstance(raw, str):
            return self._values_of_version(raw, releases)
        return self._exactly(self.value(raw))

    def range(self, text: str) -> Ordered:
        """The set a conjunction of comparisons accepts (`>=0.6.10,<0.6.15`), within the domain. Raises `ValueProblem`."""
        accepted = Ordered.of((EVERYTHING,), False, self.step)
        for part in text.split(","):
            accepted = accepted & self._comparison(part.strip())
        met: Ordered = accepted & self.domain  # type: ignore[operator]
        return met

    def _comparison(self, text: str) -> Ordered:
        operator = next((sign for sign in ("<=", ">=", "==", "!=", "<", ">") if text.startswith(sign)), None)
        if operator is None:
            raise ValueProblem(f"`{text}` is no comparison", "write one of `< <= > >= == !=` and a value, joined by commas")
        operand = self.value(text[len(operator) :].strip())
        if self.type == "version":
            if operator == ">":
                raise ValueProblem(f"`{text}`: post-releases are above this", f"write `>={operand}.post1` or the next release with `>=`")
            if operator in (">=", "<"):
                operand = line_start(operand)
        exact = Ordered.exactly(operand, self.step)
        if operator == "==":
            return exact
        if operator == "!=":
            return Ordered.of((~exact).intervals, False, self.step)
        interval = {
            ">=": Interval(operand, True, None, False),
            ">": Interval(operand, False, None, False),
            "<=": Interval(None, False, operand, True),
            "<": Interval(None, False, operand, False),
        }[operator]
        return Ordered.of((interval,), False, self.step)

    def _values_of_version(self, raw: str, releases: Sequence[Version]) -> Values:
        if raw == "absent":
            return self._exactly(self.value(raw))
        if is_placeholder(raw):
            return Ordered.of((EVERYTHING,))
        return builds_between(self._exactly(self.value(raw)), releases)  # type: ignore[arg-type]

    def _values_of_set(self, raw: Any) -> Values:
        if raw is ABSENT or raw == "absent":
            return self._exactly(self.value(raw))
        if isinstance(raw, dict) and set(raw) == {"any_of"}:
            if not isinstance(raw["any_of"], list | tuple) or not raw["any_of"]:
                raise ValueProblem("`any_of` takes a list of sets", "write `{any_of: [[NAME, …], [NAME, …]]}`")
            return Discrete(frozenset(self._read_set(element) for element in raw["any_of"]))
        return self._exactly(self._read_set(raw))

    def _exactly(self, value: Any) -> Values:
        if self.ordered:
            return Ordered((), True, self.step) if value is ABSENT else Ordered.exactly(value, self.step)
        return Discrete(frozenset(), False, True) if value is ABSENT else Discrete.exactly(value)

    def _read_integer(self, raw: Any) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise ValueProblem(f"`{self.name}` takes a whole number, not `{plain(raw)}`", self.expected())
        try:
            return int(raw)
        except ValueError:
            raise ValueProblem(f"`{self.name}` takes a whole number, not `{raw}`", self.expected()) from None

    def _read_number(self, raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueProblem(f"`{self.name}` takes a number, not `{plain(raw)}`", self.expected())
        try:
            number = float(raw)
        except ValueError:
            raise ValueProblem(f"`{self.name}` takes a number, not `{raw}`", self.expected()) from None
        if number != number or number in (float("inf"), float("-inf")):
            raise ValueProblem(f"`{self.name}` takes a finite number, not `{raw}`", self.expected())
        return int(number) if number.is_integer() else number

    def _read_version(self, raw: Any) -> Version:
        if not isinstance(raw, str):
            raise ValueProblem(
                f"`{self.name}` takes a version in quotes, not the number `{plain(raw)}`",
                f'write it in quotes, as in `"{plain(raw)}"` (YAML reads 0.10 as the number 0.1)',
            )
        version = parse(raw.strip())
        if version is None:
            raise ValueProblem(f"`{raw}` is no version that `{self.name}` can have", "write it as PEP 440 does: `0.6.10.post1`, or a range such as `>=0.6.10`")
        return without_local(version)

    def _read_boolean(self, raw: Any) -> bool:
        if isinstance(raw, bool):
            return raw
        if isinstance(raw, str) and raw.lower() in ("true", "false"):
            return raw.lower() == "true"
        raise ValueProblem(f"`{self.name}` takes true or false, not `{plain(raw)}`", self.expected())

    def _read_text(self, raw: Any) -> str:
        if isinstance(raw, bool) and self.choices and {"on", "off"} <= set(self.choices):
            raise ValueProblem(f"`{self.name}` takes `on` or `off` in quotes, not the boolean `{plain(raw)}`", 'write `"on"` or `"off"`')
        if not isinstance(raw, str):
            raise ValueProblem(f"`{self.name}` takes text, not `{plain(raw)}`", self.expected())
        return raw

    def _read_set(self, raw: Any) -> frozenset[str]:
        elements = raw if isinstance(raw, list | tuple | set | frozenset) else [part.strip() for part in str(raw).split(",") if part.strip()]
        for element in elements:
            if not isinstance(element, str) or (self.choices and element not in self.choices):
                raise ValueProblem(f"`{plain(element)}` cannot be in `{self.name}`", self.expected(str(element)))
        return frozenset(elements)

    def expected(self, given: str = "") -> str:
        """What the fact takes, in words, with the nearest choice to `given`."""
        if self.choices:
            import difflib  # only where something is wrong

            near = difflib.get_close_matches(given, self.choices, 1)
            listed = ", ".join(f"`{choice}`" for choice in self.choices)
            return (f"did you mean `{near[0]}`? " if near else "") + f"`{self.name}` is one of {listed}" + (" or `absent`" if self.optional else "")
        words = {
            "integer": "a whole number",
            "number": "a number",
            "version": "a version",
            "boolean": "true or false",
            "text": "text",
            "set": "a list of names",
        }[self.type]
        bounds = f" of at least {self.minimum:g}" if self.minimum is not None and self.maximum is None else ""
        if self.minimum is not None and self.maximum is not None:
            bounds = f" from {self.minimum:g} to {self.maximum:g}"
        return f"`{self.name}` is {words}{bounds}{' ' + self.unit if self.unit else ''}" + (" or `absent`" if self.optional else "")

    # --- showing values ---

    def show(self, values: Values) -> str:
        """The set in the words one writes it with; `not known` for the whole domain."""
        if values == self.domain:
            return "not known"
        return show(values)


def plain(raw: Any) -> str:
    """A value as a person would write it in YAML."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if raw is None:
        return "null"
    if isinstance(raw, frozenset | set):
        return "{" + ", ".join(sorted(map(str, raw))) + "}"
    return str(raw)


def show(values: Values) -> str:
    """A set of values in the words one writes it with in a rule."""
    parts: list[str] = []
    if isinstance(values, Ordered):
        parts = [_show_interval(interval, values.step) for interval in values.intervals]
    elif values.cofinite:
        parts = ["anything but " + ", ".join(plain(item) for item in sorted(values.items, key=str))] if values.items else ["anything"]
    else:
        parts = [plain(item) for item in sorted(values.items, key=str)]
    if values.absent:
        parts.append("absent")
    return " or ".join(parts) if parts else "nothing"


def _show_interval(interval: Interval, step: int) -> str:
    low, low_closed, high, high_closed = interval
    if low is not None and low == high:
        return plain(low)
    if low is None and high is None:
        return "anything"
    parts = []
    if low is not None:
        parts.append((">=" if low_closed else ">") + _show_point(low))
    if high is not None:
        parts.append(("<=" if high_closed else "<") + _show_point(high))
    return ",".join(parts)


def _show_point(point: Any) -> str:
    return shown(point) if isinstance(point, Version) else plain(point)


def builds_between(versions: Ordered, releases: Sequence[Version]) -> Ordered:
    """The set with every development build in it read as anything between the final releases around it."""
    if not any(interval.low is not None and interval.low == interval.high and interval.low.dev is not None for interval in versions.intervals):
        return versions
    widened = []
    for interval in versions.intervals:
        below, above = (
            neighbours(interval.low, releases) if interval.low is not None and interval.low == interval.high and interval.low.dev is not None else (None, None)
        )
        widened.append(Interval(below, below is not None, above, above is not None) if below or above else interval)
    return Ordered.of(widened, versions.absent, versions.step)


PACKAGE_PREFIX = "packages."


def package_fact(name: str) -> Fact:
    """The fact `packages.DISTRIBUTION` for any distribution: its version, or `absent`."""
    distribution = name[len(PACKAGE_PREFIX) :]
    return Fact(
        name=name,
        type="version",
        description=f"version of the distribution {distribution}, or absent",
        optional=True,
        fold="same",
        change="package",
        find_out=f"python -m pip show {distribution}",
    )


def fold(fact: Fact, of_ranks: Iterable[Values]) -> Values:
    """One set for all ranks. `all`: true only where every rank says true; `any`: true where one does; `min` and `max`:
    the smallest, the largest; `same`: every value that some rank has, so that ranks that differ leave it open."""
    sets = list(of_ranks)
    if not sets:
        return fact.domain
    joined = sets[0]
    for values in sets[1:]:
        joined = joined | values  # type: ignore[operator]
    points = [values.single() for values in sets]
    if fact.fold in ("all", "any"):
        decisive = fact.fold == "any"
        if decisive in points:
            return Discrete.exactly(decisive)
        return joined
    if fact.fold in ("min", "max") and all(point is not None and point is not ABSENT for point in points):
        return Ordered.exactly((min if fact.fold == "min" else max)(points), fact.step)
    return joined
