"""How the engines' configuration classes take JSON values: the lax rules of pydantic for the few types in use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_TRUE, _FALSE = {"1", "true", "t", "yes", "y", "on"}, {"0", "false", "f", "no", "n", "off"}
_INTEGER = re.compile(r"([+-]?\d+(?:_\d+)*)(?:\.0*)?")
COMPILATION_MODES = ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE")
CUDAGRAPH_MODES = ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")


def boolean(value: Any) -> bool:
    """true, 1, 1.0 and the usual words, whatever their case."""
    if isinstance(value, str) and value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    raise ValueError("a boolean is expected")


def integer(value: Any) -> int:
    """An integer, a whole number, or either as a word."""
    if isinstance(value, str) and (match := _INTEGER.fullmatch(value.strip())):
        return int(match[1])
    if isinstance(value, (bool, int)) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise ValueError("an integer is expected")


def number(value: Any) -> float:
    """A number, or one as a word."""
    if isinstance(value, (bool, int, float, str)):
        try:
            return float(value)
        except (ValueError, OverflowError):
            pass
    raise ValueError("a number is expected")


def string(value: Any) -> str:
    """A word; numbers are not taken for words."""
    if isinstance(value, str):
        return value
    raise ValueError("a string is expected")


def dictionary(value: Any) -> dict[str, Any]:
    """An object."""
    if isinstance(value, dict):
        return value
    raise ValueError("an object is expected")


def _mode(value: Any) -> int:
    if isinstance(value, str):
        if value.upper() in COMPILATION_MODES:
            return COMPILATION_MODES.index(value.upper())
    elif (mode := integer(value)) in range(len(COMPILATION_MODES)):
        return mode
    raise ValueError(f"a mode is expected: 0 to 3, or {', '.join(COMPILATION_MODES)}")


def _cudagraph_mode(value: Any) -> str:
    if isinstance(value, str):
        if value.upper() in CUDAGRAPH_MODES:
            return value.upper()
    elif isinstance(value, (bool, int, float)) and value in (0, 1, 2):
        return CUDAGRAPH_MODES[int(value)]
    raise ValueError(f"the choices are {', '.join(CUDAGRAPH_MODES)}")


def _at_least_zero(value: Any) -> int:
    if (count := integer(value)) >= 0:
        return count
    raise ValueError("an integer of at least 0 is expected")


def _items(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError("a list is expected")
        return [item(element) for element in value]

    return read


def _strings(value: Any) -> dict[str, str]:
    return {key: string(inner) for key, inner in dictionary(value).items()}


_TYPES: dict[str, Callable[[Any], Any]] = {
    "bool": boolean,
    "int": integer,
    "int>=0": _at_least_zero,
    "float": number,
    "str": string,
    "dict": dictionary,
    "dict[str,str]": _strings,
    "list[str]": _items(string),
    "list[int]": _items(integer),
    "list[int|str]": _items(lambda element: element if isinstance(element, str) else integer(element)),
    "mode": _mode,
    "cudagraph_mode": _cudagraph_mode,
}


def read_value(kind: str, value: Any, choices: list[Any] | None = None) -> Any:
    """The value under a type of `objects.json`. Raises `ValueError` with what is expected."""
    if kind.endswith("?"):
        return None if value is None else read_value(kind[:-1], value, choices)
    if kind == "choice":
        if value not in (choices or []):
            raise ValueError(f"the choices are {', '.join(str(choice) for choice in choices or [])}")
        return value
    return _TYPES[kind](value)
