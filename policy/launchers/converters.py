"""What the engines' parsers turn the words of an option into. A converter raises `ValueError`; its text is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Converter = Callable[[str], Any]

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_SI = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)")
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}
_OBJECT = re.compile(r"(?s)^\s*{.*}\s*$")


def human_int(text: str) -> int:
    """Small suffixes are decimal (8k = 8000) and take fractions, capital ones binary (8K = 8192) and take none."""
    match = _HUMAN.fullmatch(text.strip())
    if match is None:
        return _integer(text)
    number, suffix = match.groups()
    power = _POWER[suffix.lower()]
    if suffix.islower():
        return int(float(number) * float(1000**power))
    if "." in number:
        raise ValueError(f"a fraction cannot take the binary suffix `{suffix}`; `{number}{suffix.lower()}` is decimal")
    return int(number) * int(1024**power)


def human_int_or_auto(text: str) -> int:
    """As `human_int`; `auto` is -1."""
    return -1 if text.strip().lower() == "auto" else human_int(text)


def si_int(text: str) -> int:
    """k, M, G, T are decimal and take fractions; Ki, Mi, Gi, Ti are binary and take none; letters' case counts."""
    match = _SI.fullmatch(text.strip())
    if match is None:
        return _integer(text)
    number, suffix = match.groups()
    power = _POWER[suffix[0].lower()]
    if not suffix.endswith("i"):
        from decimal import Decimal  # rarely needed, and slow to import

        return int(Decimal(number) * 1000**power)
    if "." in number:
        raise ValueError(f"a fraction cannot take the binary suffix `{suffix}`; `{number}{suffix[0].replace('K', 'k')}` is decimal")
    return int(number) * int(1024**power)


def expand_integers(text: str) -> str:
    """JSON text with bare human integers (`{"bytes": 80g}`) written out; strings are left alone."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for position in range(0, len(parts), 2):
        parts[position] = re.sub(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b", lambda match: str(human_int(match.group())), parts[position])
    return "".join(parts)


def json_value(text: str) -> Any:
    """Any JSON."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not valid JSON: {error}") from None


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    value = json_value(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    return value


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("an integer is expected") from None


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is expected") from None


def _json_or_str(text: str) -> Any:
    return json_value(text) if _OBJECT.match(text) else text


def _comma_list(text: str) -> list[int | str]:
    return [int(part) if part.isdigit() else part for part in (piece.strip() for piece in text.split(","))]


def _lora_module(text: str) -> Any:
    """`name=path`, or JSON with a name and a path."""
    if "=" in text and "," not in text:
        return text
    value = json_object(text)
    if not {"name", "path"} <= set(value):
        raise ValueError("`name` and `path` are expected")
    return value


def _lora_path(text: str) -> Any:
    """A path, `name=path`, or JSON with a name and a path."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return text
    value = json_object(text)
    if not {"lora_name", "lora_path"} <= set(value):
        raise ValueError("`lora_name` and `lora_path` are expected")
    return value


CONVERTERS: dict[str, Converter] = {
    "str": str,
    "int": _integer,
    "float": _float,
    "bool": lambda text: text != "",  # Python's bool() of a word: any word at all is true
    "human_int": human_int,
    "human_int_or_auto": human_int_or_auto,
    "si_int": si_int,
    "json": json_value,
    "json_or_str": _json_or_str,
    "object": json_object,
    "lora_module": _lora_module,
    "lora_path": _lora_path,
    "lower_underscore": lambda text: text.lower().replace("-", "_"),
    "comma_list": _comma_list,
    "reasoning_parser": lambda text: "" if text.lower() == "none" else text,
}


def convert(kind: str, text: str, converters: dict[str, Converter]) -> Any:
    """The value of one word under the type of the catalogue; `opt:T` reads "" and "None" as null."""
    if kind.startswith("opt:"):
        return None if text in ("", "None") else converters[kind[4:]](text)
    return converters[kind](text)
