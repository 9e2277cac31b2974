"""Integer arithmetic of the shell, for the little of it that sizes are computed with."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

_OPERATIONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def arithmetic(expression: str, look_up: Callable[[str], str | None]) -> int | None:
    """The value of `$((...))` where every name in it is a known integer; `look_up` gives a name's text."""
    if len(expression) > 200:
        return None

    def known(match: re.Match[str]) -> str:
        text = look_up(match.group(1) or match.group(2))
        return text if text is not None and re.fullmatch(r"-?\d{1,12}", text) else "unknown"

    text = re.sub(r"\$?\{?([A-Za-z_]\w*)\}?|\$(\d)", known, expression).strip()
    ternary = re.fullmatch(r"(.+?)\?(.+):(.+)", text)
    if ternary is not None:
        text = f"({ternary[2]}) if ({ternary[1]}) else ({ternary[3]})"
    try:
        return _number(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _number(node: ast.AST) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) < 10**15:
        return int(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return int(_OPERATIONS[type(node.op)](_number(node.left), _number(node.right)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return -_number(node.operand) if isinstance(node.op, ast.USub) else _number(node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATIONS:
        return int(_OPERATIONS[type(node.ops[0])](_number(node.left), _number(node.comparators[0])))
    if isinstance(node, ast.IfExp):
        return _number(node.body if _number(node.test) else node.orelse)
    raise ValueError("not a number")
