"""JSON text with some values changed and everything else, spaces and order too, as it was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

_SPACES = " \t\n\r"


def edited_json(text: str, value: Mapping[str, Any]) -> str:
    """The text of an object with the values of `value`: what differs is replaced, what is new is added to its object.
    Raises `ValueError` where the text is no object or a key would have to go."""
    colon = ": " if '": ' in text or ":" not in text else ":"
    comma = ", " if ', "' in text or colon == ": " else ","
    edits: list[tuple[int, int, str]] = []
    _differ(text, _skip(text, 0), value, edits, comma, colon)
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _differ(text: str, start: int, value: Mapping[str, Any], edits: list[tuple[int, int, str]], comma: str, colon: str) -> None:
    members, end = _members(text, start)
    if set(members) - set(value):
        raise ValueError("a key would have to go")
    for key, (begin, stop, held) in members.items():
        if isinstance(held, dict) and isinstance(value[key], Mapping):
            _differ(text, begin, value[key], edits, comma, colon)
        elif held != value[key] or type(held) is not type(value[key]):
            edits.append((begin, stop, json.dumps(value[key], ensure_ascii=False)))
    added = {key: one for key, one in value.items() if key not in members}
    if added:
        new = json.dumps(added, separators=(comma, colon), ensure_ascii=False)[1:-1]
        edits.append((end, end, f"{comma if members else ''}{new}"))


def _members(text: str, start: int) -> tuple[dict[str, tuple[int, int, Any]], int]:
    """The members of the object at `start` (key -> begin and end of the value, and the value), and where the last one ends."""
    if text[start : start + 1] != "{":
        raise ValueError("no object")
    decoder, members, place = json.JSONDecoder(), dict[str, tuple[int, int, Any]](), _skip(text, start + 1)
    end = place
    while text[place : place + 1] == '"':
        key, place = scanstring(text, place + 1, True)
        place = _skip(text, place)
        if text[place : place + 1] != ":":
            raise ValueError("no colon")
        begin = _skip(text, place + 1)
        held, end = decoder.raw_decode(text, begin)
        members[key] = (begin, end, held)
        place = _skip(text, end)
        if text[place : place + 1] == ",":
            place = _skip(text, place + 1)
    if text[place : place + 1] != "}":
        raise ValueError("no end")
    return members, end


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place] in _SPACES:
        place += 1
    return place
