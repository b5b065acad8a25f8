"""Reading RETURNN's configurations without running them: they are Python, and may come from anywhere.

Assignments at the top level are evaluated as far as they are literals, names of earlier ones, and simple operations on
them. What is not becomes UNKNOWN.
"""

import ast
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewer.errors import FewerError


class Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = Unknown()
OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}


def read_returnn_config(path: str | Path) -> dict[str, Any]:
    """The names that a configuration assigns, with their values."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FewerError(f"cannot read {path}: {error.strerror}") from error
    except (SyntaxError, ValueError) as error:
        raise FewerError(f"{path} is not a RETURNN configuration, which is Python: {error}") from error
    values: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    values[target.id] = evaluated(statement.value, values)
    return values


def evaluated(node: ast.expr, names: dict[str, Any]) -> Any:
    """The value of an expression, UNKNOWN where it would have to be run."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names.get(node.id, UNKNOWN)
    if isinstance(node, ast.Dict):
        pairs = [(key and evaluated(key, names), evaluated(value, names)) for key, value in _items(node)]
        return {key: value for key, value in pairs if isinstance(key, str | int | tuple)}
    if isinstance(node, ast.List | ast.Tuple):
        values = [evaluated(one, names) for one in node.elts]
        return tuple(values) if isinstance(node, ast.Tuple) else values
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = evaluated(node.operand, names)
        return -value if isinstance(value, int | float) else UNKNOWN
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        left, right = evaluated(node.left, names), evaluated(node.right, names)
        divides = isinstance(node.op, ast.Div | ast.FloorDiv)
        if isinstance(left, int | float) and isinstance(right, int | float) and (right or not divides):
            return OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.IfExp):
        test = evaluated(node.test, names)
        if isinstance(test, bool | int):
            return evaluated(node.body if test else node.orelse, names)
    return UNKNOWN


def _items(node: ast.Dict) -> list[tuple[ast.expr | None, ast.expr]]:
    return list(zip(node.keys, node.values, strict=True))
