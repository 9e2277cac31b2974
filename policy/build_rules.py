"""Rules of a pack: files, rows of tables, and their limits and cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from policy.build_reading import Reading, Source
from policy.conditions import Condition, Path
from policy.facts import plain
from policy.pack import Case, Place, Rule, did_you_mean


class RuleReading(Reading):
    """Reads rules and tables."""

    def _rule(self, source: Source, raw: Mapping[str, Any], path: Path, table: str) -> None:
        name = raw["id"]
        if name in RESERVED:
            source.complain((*path, "id"), f"`{name}` cannot name a rule", "findings have that name already")
        if name in self.pack.rules:
            source.complain((*path, "id"), f"the rule `{name}` stands twice", f"the other is in {self.pack.rules[name].place}")
            return
        effect, limit = raw["effect"], raw.get("limit")
        if (effect == "limit") != (limit is not None):
            source.complain((*path, "effect"), "a rule with the effect `limit`, and only such a rule, has a `limit`", "")
        for quantity, value in (limit or {}).items():
            self._limit(source, (*path, "limit", quantity), quantity, value)
        if effect in ("exclude", "refuse") and not raw.get("consequence"):
            source.complain(
                (*path, "effect"),
                f"a rule that {effect}s states its `consequence`",
                "what happens when it is ignored: hang, wrong_numbers, crash, partly_fused, unfused, slower",
            )
        plans = self._selector(source, raw["plans"], (*path, "plans")) if raw.get("plans") is not None else None
        if plans is None and effect in ("exclude", "limit"):
            source.complain((*path, "effect"), f"a rule that {effect}s says which `plans`", "")
        if plans is not None and effect == "refuse":
            source.complain((*path, "plans"), "a rule that refuses speaks of the launch, not of plans", "")
        for number, case in enumerate(raw.get("cases", [])):
            for fact_name, value in case["launch"].items():
                self._given(source, (*path, "cases", number, "launch", fact_name), fact_name, value)
        self.pack.rules[name] = Rule(
            name,
            raw["title"],
            effect,
            self._rule_condition(source, raw.get("when"), (*path, "when")),
            plans,
            limit or {},
            raw.get("consequence"),
            raw.get("why", "").strip(),
            raw.get("fix", "").strip(),
            tuple(raw.get("symptoms", ())),
            tuple(raw.get("references", ())),
            raw.get("verified"),
            raw.get("confidence", "read in source"),
            raw.get("settles", False),
            raw.get("asks", False),
            tuple(Case(case["name"], case["launch"], case["expect"]) for case in raw.get("cases", [])),
            raw.get("retired", ""),
            table,
            source.place(path),
        )

    def _rule_condition(self, source: Source, raw: Any, path: Path) -> Condition | Callable[[], Condition]:
        if source.trusted and raw is not None:
            return lambda: self._when(source, raw, path)
        return self._when(source, raw, path)

    def _limit(self, source: Source, path: Path, quantity: str, value: Any) -> None:
        if isinstance(value, str) and self.pack.fact(value) is None:
            source.complain(path, f"no fact is named `{value}`", self.vocabulary.suggest(value))
        if quantity.startswith(("max_", "min_")) == isinstance(value, list):
            source.complain(
                path, f"`{quantity}` takes {'a number or a fact' if quantity.startswith(('max_', 'min_')) else 'a list'}", "name a bound `max_…` or `min_…`"
            )

    def _table(self, source: Source) -> None:
        raw = source.value
        columns = {column for row in raw["rows"] for column in row}
        spoken = {"id", *raw.get("keys", {}), *RULE_FIELDS, *_named_columns([raw["rule"], *raw.get("also", {}).values()], columns)}
        held: list[Any] = []
        for number, row in enumerate(raw["rows"]):
            path: Path = ("rows", number)
            for column in row:
                if column not in spoken:
                    source.complain(
                        (*path, column),
                        f"nothing speaks of the column `{column}`",
                        did_you_mean(column, spoken) or f"name it in `keys`, or as `{{{column}}}` in a text",
                        key=True,
                    )
            keys = {fact: row[column] for column, fact in raw.get("keys", {}).items() if column in row}
            here = [part for part in (keys or None, row.get("when")) if part is not None]
            held.append({"all": here} if here else True)
            name = f"{raw['table']}/{row.get('id', number)}"
            own = {field: value for field, value in row.items() if field not in raw.get("keys", {}) and field in RULE_FIELDS}
            self._table_rule(source, {**_filled(raw["rule"], row, columns), **own}, name, [*here, raw["rule"].get("when")], path)
            for suffix, fields in raw.get("also", {}).items():
                if _named_columns(fields, columns) <= set(row):
                    merged = {**raw["rule"], **fields}
                    self._table_rule(source, _filled(merged, row, columns), f"{name}-{suffix}", [*here, _filled(merged.get("when"), row, columns)], path)
        for name, fields in raw.get("otherwise", {}).items():
            merged = {**raw["rule"], **fields}
            nowhere = {"not": {"any": held}}
            self._table_rule(source, merged, f"{raw['table']}/{name}", [merged.get("when"), nowhere], ("otherwise", name))

    def _table_rule(self, source: Source, fields: Mapping[str, Any], name: str, conditions: list[Any], path: Path) -> None:
        parts = [part for part in conditions if part is not None]
        merged = {**fields, "id": name, "when": None if not parts else parts[0] if len(parts) == 1 else {"all": parts}}
        missing = [one for one in ("title", "effect") if not merged.get(one)]
        for one in missing:
            source.complain(path, f"the row has no `{one}`, and the table gives none", "")
        if not missing and (self.shaped is None or self.shaped(source, path, merged)):
            self._rule(_Row(source, path), merged, path, source.value["table"])


RESERVED = ("call", "needs", "request", "requires")

RULE_FIELDS = (
    "title", "plans", "when", "effect", "limit", "consequence", "why", "fix", "symptoms",
    "references", "verified", "confidence", "settles", "asks", "retired", "cases",
)  # fmt: skip


class _Row:
    """A row of a table as the source of a rule: a defect of what all rows share is reported where it is written, once."""

    def __init__(self, source: Source, path: Path) -> None:
        self.source, self.path = source, path
        self.kind, self.file, self.value, self.trusted = source.kind, source.file, source.value, source.trusted
        self.shared: Mapping[str, Any] = source.value["rule"]
        self.row: Mapping[str, Any] = source.value[path[0]][path[1]]

    def place(self, path: Path) -> Place:
        return self.source.place(path)

    def complain(self, path: Path, message: str, help: str, key: bool = False) -> None:
        inside = path[len(self.path) :]
        column = (
            next((column for column, fact in self.value.get("keys", {}).items() if fact == inside[-1] and column in self.row), None)
            if inside[:1] == ("when",)
            else None
        )
        if column is not None:
            path = (*self.path, column)
        elif inside and inside[0] not in self.row and inside[0] in self.shared:
            path = ("rule", *inside)
        self.source.complain(path, message, help, key)


def _named_columns(value: Any, columns: set[str]) -> set[str]:
    """The columns that the texts of a template name."""
    if isinstance(value, str):
        return set() if "{" not in value else {column for column in columns if "{" + column + "}" in value}
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return {column for one in inner for column in _named_columns(one, columns)}


def _filled(value: Any, row: Mapping[str, Any], columns: set[str]) -> Any:
    """The shared fields of a table's rows with `{column}` replaced by the row's value; a value that is only `{column}`
    keeps its type.
    """
    if isinstance(value, str):
        if "{" not in value:
            return value
        for column in columns:
            if value == "{" + column + "}":
                return row.get(column)
            value = value.replace("{" + column + "}", plain(row[column]) if column in row else "")
        return value
    if isinstance(value, Mapping):
        return {key: _filled(inner, row, columns) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, row, columns) for inner in value]
    return value
