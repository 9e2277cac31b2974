"""What keeps foreign YAML from parsing although a person can read it: tabs, merge conflict markers, template
directives. Each repair gives a text with its lines' old offsets, so that places stay those of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CONFLICT = re.compile(r"^(<{7}|\|{7}|={7}|>{7})(?:\s|$)")
_DIRECTIVE = re.compile(r"^\s*(?:-\s*)?(?:\{\{.*\}\}|\{%.*%\}|\{#.*#\})\s*(?:#.*)?$")
_KEY_VALUE = re.compile(r"^(\s*(?:-\s+)*(?:[\w./-]+|\"[^\"]*\"|'[^']*'):\s+|\s*-\s+)([^\s'\"|>&*#][^#]*\{\{.*\}\}.*|\{\{.*)$")
_KEY = re.compile(r"^(\s*)(\{\{.*?\}\})(\s*:.*)$")


def repairs(text: str) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """(what was changed, new text, [(offset of a line in it, offset in the given text)]), mildest first."""
    lines, offsets = _lines(text)
    numbered = list(zip(lines, offsets, strict=True))
    changed: list[str] = []
    for what, repair in (("tabs", _tabs), ("merge conflict markers", _conflicts), ("template directives", _templates)):
        after = repair(numbered)
        if after == numbered:
            continue
        numbered = after
        changed.append(what)
        position, places = 0, []
        for line, offset in numbered:
            places.append((position, offset))
            position += len(line) + 1
        yield " and ".join(changed), "\n".join(line for line, _ in numbered), places


def _lines(text: str) -> tuple[list[str], list[int]]:
    lines = text.split("\n")
    offsets, position = [], 0
    for line in lines:
        offsets.append(position)
        position += len(line) + 1
    return lines, offsets


def _tabs(numbered: list[tuple[str, int]]) -> list[tuple[str, int]]:
    result = []
    for line, offset in numbered:
        indentation = len(line) - len(line.lstrip())
        result.append((line[:indentation].replace("\t", "  ") + line[indentation:].rstrip("\t \r").replace("\t#", " #"), offset))
    return result


def _conflicts(numbered: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The side above the line of equal signs stays (the checkout's own); a text without `<<<<<<<` is left alone."""
    if not any(line.startswith("<<<<<<<") for line, _ in numbered):
        return numbered
    result, dropping = [], False
    for line, offset in numbered:
        marker = _CONFLICT.match(line)
        if marker is None:
            if not dropping:
                result.append((line, offset))
            continue
        dropping = marker.group(1)[0] in "|="
    return result


def _templates(numbered: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Lines that are only a directive go; `key: {{ value }}` is quoted so that it reads as a string."""
    result = []
    for line, offset in numbered:
        if "{{" not in line and "{%" not in line and "{#" not in line:
            result.append((line, offset))
            continue
        if _DIRECTIVE.match(line) and not line.lstrip().startswith("- {{"):
            continue
        key = _KEY.match(line)
        if key is not None:
            line = key.group(1) + _quoted(key.group(2)) + key.group(3)
        value = _KEY_VALUE.match(line)
        if value is not None:
            line = value.group(1) + _quoted(value.group(2).rstrip())
        result.append((line, offset))
    return result


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
