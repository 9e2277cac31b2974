"""Tests of a script: their truth where the script settles them, else the words for "when"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from policy.launchers.containers.reading.shell_expand import Variables, arithmetic, evaluate, text_of
from policy.launchers.containers.reading.shell_tree import Command
from policy.launchers.shell_words import ShellWord

#: Which node of a launch a process is: not a condition on the launch.
_PLACE = re.compile(r"RANK|NODE|HOST|PROC|LEADER|INDEX|MASTER|HEAD|POD|ROLE|LOCAL|WORKER", re.IGNORECASE)
_NUMERIC = {"-eq": "is", "-ne": "is not", "-gt": ">", "-ge": ">=", "-lt": "<", "-le": "<="}
_OPPOSITE = {"is": "is not", "is not": "is", ">": "<=", ">=": "<", "<": ">=", "<=": ">", "is set": "is not set", "is not set": "is set"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A test that the script does not settle. `subject relation value` where it is that simple, else `subject` is the
    test as written. `places` means it asks where a process runs."""

    subject: str
    relation: str = ""
    value: str = ""

    @property
    def places(self) -> bool:
        return bool(_PLACE.search(self.subject)) or not re.search(r"[A-Za-z]", self.subject)

    def words(self, holds: bool) -> str:
        if self.relation:
            relation = self.relation if holds else _OPPOSITE.get(self.relation, f"not {self.relation}")
            return f"{self.subject} {relation} {self.value}".strip()
        return self.subject if holds else f"not ({self.subject})"


def test(command: Command, variables: Variables) -> bool | Condition | None:
    """The truth of a `[ ]`, `[[ ]]`, `test` or `(( ))` command; a Condition where it depends on what is not known; None
    where the command is not a test."""
    words = list(command.words)
    negated = False
    if words and words[0].bare == "!":
        negated, words = True, words[1:]
    if not words:
        return None
    if not words[0].parts:  # ((...))
        return _negate(_arithmetic(words[1:], variables), negated)
    first = words[0].bare
    if first in {"true", ":", "false"}:
        return (first != "false") != negated
    if first not in {"[", "[[", "test"}:
        return None
    words = words[1:-1] if first != "test" else words[1:]
    if any(not word.parts or word.bare in {"-a", "-o", "&&", "||"} for word in words):
        return _negate(Condition(" ".join(word.written for word in words if word.parts)), negated)
    while words and words[0].bare == "!":
        negated, words = not negated, words[1:]
    return _negate(_simple(words, variables), negated)


def _negate(truth: bool | Condition, negated: bool) -> bool | Condition:
    if not negated:
        return truth
    if isinstance(truth, bool):
        return not truth
    if truth.relation in _OPPOSITE:
        return Condition(truth.subject, _OPPOSITE[truth.relation], truth.value)
    return Condition(f"! {truth.subject}")


def _simple(words: list[ShellWord], variables: Variables) -> bool | Condition:
    written = " ".join(word.written for word in words)
    if len(words) == 1:
        return _is_set(words[0], variables)
    if len(words) == 2:
        if words[0].bare == "-n":
            return _is_set(words[1], variables)
        if words[0].bare == "-z":
            return _negate(_is_set(words[1], variables), True)
        return Condition(written)
    if len(words) != 3:
        return Condition(written)
    left, right = (_known(words[index], variables) for index in (0, 2))
    relation = words[1].written
    if left is not None and right is not None:
        if relation in {"==", "="}:
            return left == right if "*" not in right else left.startswith(right.rstrip("*")) if right.endswith("*") else Condition(written)
        if relation == "!=":
            return left != right if "*" not in right else Condition(written)
        if relation in _NUMERIC and re.fullmatch(r"-?\d+", left) and re.fullmatch(r"-?\d+", right):
            difference = int(left) - int(right)
            return {"-eq": difference == 0, "-ne": difference != 0, "-gt": difference > 0, "-ge": difference >= 0, "-lt": difference < 0, "-le": difference <= 0}[relation]
    subject, value = _subject(words[0]), right if right is not None else words[2].written
    if subject is not None:
        if relation in {"==", "="}:
            return Condition(subject, "is", value)
        if relation == "!=":
            return Condition(subject, "is not", value)
        if relation in _NUMERIC:
            return Condition(subject, _NUMERIC[relation], value)
    return Condition(written)


def _subject(word: ShellWord) -> str | None:
    if len(word.parts) == 1 and word.parts[0].kind == "parameter":
        match = re.match(r"\$\{?([A-Za-z_]\w*)", word.parts[0].text)
        return match.group(1) if match else None
    return None


def _known(word: ShellWord, variables: Variables) -> str | None:
    """The text of a word all of whose parts are known."""
    for part in word.parts:
        if part.kind != "literal":
            value = evaluate(part, variables, 0)
            if value is None or "$" in value.text:
                return None
    return text_of(word, variables)


def _is_set(word: ShellWord, variables: Variables) -> bool | Condition:
    known = _known(word, variables)
    if known is not None:
        return bool(known)
    return Condition(_subject(word) or word.written, "is set")


def _arithmetic(words: list[ShellWord], variables: Variables) -> bool | Condition:
    written = " ".join(word.written for word in words)
    value = arithmetic(written, variables)
    if value is not None:
        return value.text != "0"
    match = re.fullmatch(r"\$?\{?([A-Za-z_]\w*)\}?\s*(==|!=|>=|<=|>|<)\s*(\S+)", written)
    if match is None:
        return Condition(written)
    return Condition(match[1], {"==": "is", "!=": "is not"}.get(match[2], match[2]), match[3])
