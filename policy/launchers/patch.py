"""Edits of a command as edits of the file that holds it: comments and layout stay, the result is read again.

Words are found at their place in the text. New words follow the style of the word before them: a further item of a list,
a further element of a flow sequence, or a further word of a shell line. Variables become an entry of the container's
`env`, or an `export` above the command.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from policy.launchers.found import FoundLaunch, Word
from policy.launchers.rewrite import Edit


class PatchProblem(ValueError):
    """The file cannot be changed by hand of this program; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Token:
    """Where a word stands: line and columns from 0, and the quote around it (empty for none)."""

    line: int
    start: int
    end: int
    quote: str


def patched(text: str, found: FoundLaunch, edits: Sequence[Edit], variables: Mapping[str, str]) -> str:
    """The text with the command's edits and the variables. Raises `PatchProblem`."""
    lines = text.split("\n")
    tokens = [_token(lines, word) for word in found.words]
    changes: list[tuple[int, int, int, str]] = []  # line, start, end, new text
    new_lines: list[tuple[int, list[str]]] = []  # after this line, these lines
    for edit in edits:
        if edit.kind == "insert":
            _insert(lines, tokens, edit, changes, new_lines)
        else:
            token = tokens[edit.index]
            if token is None:
                raise PatchProblem(f"`{found.words[edit.index].text}` does not stand in the file as it is")
            if edit.kind == "remove":
                _remove(lines, token, changes)
            else:
                changes.append((token.line, token.start, token.end, " ".join(_quoted(word, lines, token) for word in edit.words)))
    missing = {name: value for name, value in variables.items() if name not in found.environment or found.environment[name].text != value}
    if missing:
        _variables(lines, tokens, found, missing, changes, new_lines)
    return _applied(lines, changes, new_lines)


def _applied(lines: list[str], changes: list[tuple[int, int, int, str]], new_lines: list[tuple[int, list[str]]]) -> str:
    made = list(lines)
    for line, start, end, new in sorted(changes, reverse=True):
        made[line] = made[line][:start] + new + made[line][end:]
    removed = {line for line, _, _, new in changes if new == "" and not made[line].strip()}
    result: list[str] = [*(added for after, group in new_lines if after < 0 for added in group)]
    for number, line in enumerate(made):
        if number not in removed:
            result.append(line)
        for after, group in new_lines:
            if after == number:
                result.extend(group)
    return "\n".join(result)


def _token(lines: Sequence[str], word: Word) -> Token | None:
    """Where a word stands in the text; None where it does not stand there literally."""
    origin = word.origin
    if origin.line is None or not 0 < origin.line <= len(lines):
        return None
    number, line = origin.line - 1, lines[origin.line - 1]
    column = max(0, (origin.column or 1) - 1)
    written = [(quote + body + quote, quote) for quote in ('"', "'") for body in _bodies(word.text, quote)] + [(word.text, "")]
    for start in (column, column + 1, *_later(line, column, word.text)):
        for form, quote in written:
            if form and line.startswith(form, start):
                return Token(number, start, start + len(form), quote)
    return None


def _bodies(text: str, quote: str) -> list[str]:
    return [text, text.replace('"', '\\"')] if quote == '"' else [text, text.replace("'", "''")]


def _later(line: str, column: int, text: str) -> list[int]:
    """Further places of the text in the line, where the place given is that of something around it."""
    found = []
    start = line.find(text, column)
    while start >= 0:
        found.extend((start - 1, start) if start else (start,))
        start = line.find(text, start + 1)
    return found


def _insert(lines: list[str], tokens: list[Token | None], edit: Edit, changes: list[tuple[int, int, int, str]], new_lines: list[tuple[int, list[str]]]) -> None:
    token = next((token for token in reversed(tokens[: edit.index + 1]) if token is not None), None)
    if token is None:
        raise PatchProblem("no word of the command stands in the file as it is")
    line = lines[token.line]
    before, after = line[: token.start].strip(), line[token.end :].strip()
    if before in ("-", "- -") and (not after or after.startswith("#")):
        indent = line[: len(line) - len(line.lstrip())]
        new_lines.append((token.line, [f"{indent}{before} {_list_item(word)}" for word in edit.words]))
    elif after[:1] in (",", "]") and token.quote:
        changes.append((token.line, token.end, token.end, "".join(f", {json.dumps(word)}" for word in edit.words)))
    else:
        changes.append((token.line, token.end, token.end, "".join(f" {_quoted(word, lines, token)}" for word in edit.words)))


def _list_item(word: str) -> str:
    """A word as an item of a YAML list; in quotes where YAML would read something else."""
    return word if re.fullmatch(r"-{1,2}[A-Za-z][\w.,/=+-]*", word) and not word.endswith(":") else json.dumps(word)


def _quoted(word: str, lines: Sequence[str], token: Token) -> str:
    """A word as its surroundings take it: an element of a list of the file, or a word of a shell line."""
    line = lines[token.line]
    before, after = line[: token.start].strip(), line[token.end :].strip()
    if before in ("-", "- -") or (after[:1] in (",", "]") and token.quote):
        return _list_item(word)
    return shlex.quote(word)


def _remove(lines: list[str], token: Token, changes: list[tuple[int, int, int, str]]) -> None:
    line = lines[token.line]
    if line[: token.start].strip() == "-":
        changes.append((token.line, 0, len(line), ""))
        return
    end = token.end
    if line[end:].lstrip()[:1] == ",":
        end += line[end:].index(",") + 1
    while end < len(line) and line[end] == " ":
        end += 1
    changes.append((token.line, token.start, end, ""))


# --- variables ---


def _variables(
    lines: list[str], tokens: list[Token | None], found: FoundLaunch, variables: Mapping[str, str], changes: list[tuple[int, int, int, str]], new_lines: list[tuple[int, list[str]]]
) -> None:
    for name, value in list(variables.items()):
        held = found.environment.get(name)
        token = _token(lines, held) if held is not None else None
        if held is not None and token is not None:
            changes.append((token.line, token.start, token.end, json.dumps(value) if token.quote == '"' else f"{token.quote}{value}{token.quote}"))
            variables = {one: text for one, text in variables.items() if one != name}
    if not variables:
        return
    first = next((token for token in tokens if token is not None), None)
    if first is None:
        raise PatchProblem("no word of the command stands in the file as it is")
    container = _container("\n".join(lines), first.line)
    if container is None or _is_shell(lines, first):
        _export(lines, first, variables, new_lines)
        return
    env_line, indent, opens = container
    if opens:
        new_lines.append((env_line, [text for name, value in variables.items() for text in (f"{indent}- name: {name}", f"{indent}  value: {json.dumps(value)}")]))
    else:
        new_lines.append((env_line, [f"{indent}env:", *(text for name, value in variables.items() for text in (f"{indent}- name: {name}", f"{indent}  value: {json.dumps(value)}"))]))


def _is_shell(lines: Sequence[str], token: Token) -> bool:
    """Whether the word stands in a shell line, not as an item of a list."""
    line = lines[token.line]
    return line[: token.start].strip() not in ("-", "- -") and not (token.quote and line[token.end :].strip()[:1] in (",", "]"))


def _export(lines: Sequence[str], token: Token, variables: Mapping[str, str], new_lines: list[tuple[int, list[str]]]) -> None:
    start = token.line
    while start > 0 and lines[start - 1].rstrip().endswith("\\"):
        start -= 1
    line = lines[start]
    head = line[: token.start] if start == token.line else line
    if re.match(r"\s*(-\s|[\w.-]+:\s)", head):
        raise PatchProblem("the command stands in one line with its key; put the variables into the environment by hand")
    indent = line[: len(line) - len(line.lstrip())]
    new_lines.append((start - 1, [f"{indent}export {name}={shlex.quote(value)}" for name, value in variables.items()]))


def _container(text: str, line: int) -> tuple[int, str, bool] | None:
    """Where the container's `env` goes: the line to add after, the indent, and whether an `env` list stands there."""
    import yaml

    best: Any = None
    try:
        for document in yaml.compose_all(text, Loader=yaml.SafeLoader):
            for node in _mappings(document):
                keys = {key.value for key, _ in node.value}
                if keys & {"args", "command"} and keys & {"image", "name", "env", "resources"} and node.start_mark.line <= line <= node.end_mark.line:
                    best = node
    except yaml.YAMLError:
        return None
    if best is None:
        return None
    for key, value in best.value:
        if key.value == "env" and isinstance(value, yaml.SequenceNode) and not value.flow_style and value.value:
            item = value.value[0].start_mark
            column = text.split("\n")[item.line].index("-")
            return key.start_mark.line, " " * column, True
    inside = next(key for key, _ in best.value if key.value in ("args", "command"))
    first = best.value[0][0]
    if inside is first:
        return None
    return inside.start_mark.line - 1, " " * inside.start_mark.column, False


def _mappings(node: Any) -> list[Any]:
    import yaml

    found: list[Any] = []
    waiting = [node] if node is not None else []
    while waiting:
        here = waiting.pop()
        if isinstance(here, yaml.MappingNode):
            found.append(here)
            waiting.extend(value for _, value in here.value)
        elif isinstance(here, yaml.SequenceNode):
            waiting.extend(here.value)
    return sorted(found, key=lambda one: one.start_mark.index)


# --- patches of manifests ---


def json_patch(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """The RFC 6902 operations from one document to the other: what was added, removed and replaced."""
    if type(old) is not type(new):
        return [{"op": "replace", "path": path, "value": new}]
    if isinstance(old, dict):
        operations: list[dict[str, Any]] = []
        for key, value in new.items():
            here = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            operations.extend(json_patch(old[key], value, here) if key in old else [{"op": "add", "path": here, "value": value}])
        operations.extend({"op": "remove", "path": f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"} for key in old if key not in new)
        return operations
    if isinstance(old, list):
        return _list_patch(old, new, path)
    return [] if old == new else [{"op": "replace", "path": path, "value": new}]


def _list_patch(old: list[Any], new: list[Any], path: str) -> list[dict[str, Any]]:
    if len(old) == len(new):
        return [operation for number, (one, other) in enumerate(zip(old, new, strict=True)) for operation in json_patch(one, other, f"{path}/{number}")]
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    operations: list[dict[str, Any]] = [{"op": "remove", "path": f"{path}/{head}"} for _ in old[head : len(old) - tail]]
    for number, value in enumerate(new[head : len(new) - tail], head):
        operations.append({"op": "add", "path": f"{path}/{number}", "value": value})
    return operations


def manifest_patches(old: str, new: str, loads: Callable[[str], list[Any]]) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """For each document that differs: what names it (kind, name, namespace, group and version), and its JSON Patch."""
    found = []
    for before, after in zip(loads(old), loads(new), strict=False):
        operations = json_patch(before, after)
        if operations and isinstance(before, dict):
            group, _, version = str(before.get("apiVersion", "")).rpartition("/")
            metadata = before.get("metadata") or {}
            target = {"group": group, "version": version, "kind": before.get("kind"), "name": metadata.get("name"), "namespace": metadata.get("namespace")}
            found.append(({name: value for name, value in target.items() if value}, operations))
    return found
