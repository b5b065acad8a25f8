"""States are trees (dicts, lists, tuples, None) of tensors whose first dimension is the row."""

from typing import Any

from torch import Tensor


def select_rows(tree: Any, rows: Tensor) -> Any:
    """index_select on the first dimension of every tensor of a tree: the default way to reorder or select."""
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows)
    if isinstance(tree, dict):
        return {key: select_rows(value, rows) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(select_rows(value, rows) for value in tree))
    if isinstance(tree, list | tuple):
        return type(tree)(select_rows(value, rows) for value in tree)
    if tree is None:
        return None
    raise TypeError(f"a state is a tree of tensors, not {type(tree).__name__}")


class TreeState:
    """Gives a scorer the default `reorder` and `select`, for states and memories that are trees of tensors."""

    def reorder(self, state: Any, rows: Tensor) -> Any:
        return select_rows(state, rows)

    def select(self, memory: Any, utterances: Tensor) -> Any:
        return select_rows(memory, utterances)
