"""Tests of a script: their truth where the script settles them, else the words for "when"."""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne

from policy.launchers.containers.reading.shell_expand import Variables, evaluate, is_default, number_of, text_of
from policy.launchers.containers.reading.shell_tree import Command
from policy.launchers.shell_words import ShellWord
from policy.records import dataclass, field

#: Which node of a launch a process is: not a condition on the launch.
_PLACE = re.compile(r"RANK|NODE|HOST|PROC|LEADER|INDEX|MASTER|HEAD|POD|ROLE|LOCAL|WORKER", re.IGNORECASE)
_NUMERIC = {"-eq": "is", "-ne": "is not", "-gt": ">", "-ge": ">=", "-lt": "<", "-le": "<="}
_OPPOSITE = {"is": "is not", "is not": "is", ">": "<=", ">=": "<", "<": ">=", "<=": ">", "is set": "is not set", "is not set": "is set"}


@dataclass(frozen=True, slots=True)
class Condition:
    """A test that the script does not settle. `subject relation value` where it is that simple, else `subject` is the
    test as written."""

    subject: str
    relation: str = ""
    value: str = ""
    holds: bool = field(default=False, compare=False)  # what it comes to with the script's own defaults

    @property
    def places(self) -> bool:
        """Whether the test asks where a process runs."""
        return bool(_PLACE.search(self.subject)) or not re.search(r"[A-Za-z]", self.subject)

    def words(self, holds: bool) -> str:
        """The condition, or its opposite, in words."""
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
    if _operator(words[0]) == "((":
        return _negate(_arithmetic(words[1:], variables), negated)
    first = words[0].bare
    if first in {"true", ":", "false"}:
        return (first != "false") != negated
    if first not in {"[", "[[", "test"}:
        return None
    words = words[1:-1] if first != "test" else words[1:]
    return _negate(_compound(words, variables), negated)


def _operator(word: ShellWord) -> str | None:
    return word.parts[0].text if word.parts and word.parts[0].kind == "operator" else None


def _compound(words: list[ShellWord], variables: Variables) -> bool | Condition:
    """Tests joined by `&&` and `||` (or `-a` and `-o`), without brackets inside."""
    said = [_operator(word) or {"-a": "&&", "-o": "||"}.get(word.bare or "") for word in words]
    if any(one in {"(", ")"} for one in said):
        return Condition(" ".join(word.written for word in words))
    for joint, decides in (("||", True), ("&&", False)):
        if joint not in said:
            continue
        parts: list[list[ShellWord]] = [[]]
        for word, operator in zip(words, said, strict=True):
            if operator == joint:
                parts.append([])
            else:
                parts[-1].append(word)
        truths = [_compound(part, variables) for part in parts if part]
        if any(truth is decides for truth in truths):
            return decides
        open_still = [truth for truth in truths if isinstance(truth, Condition)]
        if len(open_still) == 1:
            return open_still[0]
        return Condition(" ".join(word.written for word in words if _operator(word) != "\n")) if open_still else not decides
    negated = False
    words = [word for word in words if _operator(word) != "\n"]
    while words and words[0].bare == "!":
        negated, words = not negated, words[1:]
    return _negate(_simple(words, variables), negated)


def _negate(truth: bool | Condition, negated: bool) -> bool | Condition:
    if not negated:
        return truth
    if isinstance(truth, bool):
        return not truth
    if truth.relation in _OPPOSITE:
        return Condition(truth.subject, _OPPOSITE[truth.relation], truth.value, not truth.holds)
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
    settled = _settled(words, variables)
    open_still = any(is_default(words[index], variables) for index in (0, 2))
    if settled is not None and not open_still:
        return settled
    right = _known(words[2], variables)
    subject, value, relation = _subject(words[0]), right if right is not None else words[2].written, words[1].written
    named = {"==": "is", "=": "is", "!=": "is not", **_NUMERIC}.get(relation)
    if subject is not None and named is not None:
        return Condition(subject, named, value, bool(settled))
    return settled if settled is not None else Condition(written)


def _settled(words: list[ShellWord], variables: Variables) -> bool | None:
    """The truth of a comparison of two known texts."""
    left, right, relation = _known(words[0], variables), _known(words[2], variables), words[1].written
    if left is None or right is None:
        return None
    if relation in {"==", "=", "!="}:
        if any(sign in right for sign in "*?["):
            if not right.endswith("*") or any(sign in right[:-1] for sign in "*?["):
                return None
            return left.startswith(right[:-1]) == (relation != "!=")
        return (left == right) == (relation != "!=")
    if relation in _NUMERIC and re.fullmatch(r"-?\d{1,12}", left) and re.fullmatch(r"-?\d{1,12}", right):
        comparison: dict[str, Callable[[int, int], bool]] = {"is": eq, "is not": ne, ">": gt, ">=": ge, "<": lt, "<=": le}
        return comparison[_NUMERIC[relation]](int(left), int(right))
    return None


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
    return Condition(_subject(word) or word.written, "is set", holds=False)


def _arithmetic(words: list[ShellWord], variables: Variables) -> bool | Condition:
    written = " ".join(word.written for word in words)
    value = number_of(written, variables)
    if value is not None:
        return value.text != "0"
    match = re.fullmatch(r"\$?\{?([A-Za-z_]\w*)\}?\s*(==|!=|>=|<=|>|<)\s*(\S+)", written)
    if match is None:
        return Condition(written)
    return Condition(match[1], {"==": "is", "!=": "is not"}.get(match[2], match[2]), match[3])
