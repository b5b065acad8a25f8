"""States are trees (dicts, lists, tuples, None) of tensors whose first dimension is the row."""

from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn


def select_rows(tree: Any, rows: Tensor) -> Any:
    """index_select on the first dimension of every tensor of a tree: the default way to reorder or select. (…)"""
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows.flatten())
    if isinstance(tree, dict):
        return {key: select_rows(value, rows) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(select_rows(value, rows) for value in tree))
    if hasattr(tree, "select_rows"):  # a leaf of its own kind
        return tree.select_rows(rows)
    if isinstance(tree, list | tuple):
        return type(tree)(select_rows(value, rows) for value in tree)
    if tree is None:
        return None
    raise TypeError(f"a state is a tree of tensors, not {type(tree).__name__}")


def free_to_ask(tensor: Tensor) -> bool:
    """Whether the value of a tensor is known at once. On a GPU each question makes this process wait, so a search asks
    one at every step and otherwise computes what may turn out to be needless."""
    return tensor.device.type == "cpu"


def device_of(model: Any) -> torch.device:
    """Where the numbers of a model are; the CPU for one that is no module or has none."""
    tensors = chain(model.parameters(), model.buffers()) if isinstance(model, nn.Module) else iter(())
    return next((tensor.device for tensor in tensors), torch.device("cpu"))


def exact(device: torch.device) -> torch.dtype:
    """What long sums are formed in: float64, which Apple's GPUs lack."""
    return torch.float32 if device.type == "mps" else torch.float64


@dataclass(frozen=True)
class Parents:
    """The part of a state that all continuations of a hypothesis share, kept once for each hypothesis that has any: a
    leaf of the tree. A beam has fewer parents than rows, so products are taken of the parents and then given to rows.
    """

    tree: Any  # (parents, …)
    of_row: Tensor | None = None  # (rows,) the place of each row's parent; None: every row has its own

    def select_rows(self, rows: Tensor) -> "Parents":
        rows = rows.flatten() if self.of_row is None else self.of_row[rows.flatten()]
        if not free_to_ask(rows):
            return Parents(select_rows(self.tree, rows))
        parents, of_row = rows.unique(return_inverse=True)
        return Parents(select_rows(self.tree, parents), of_row)

    def to_rows(self, values: Tensor) -> Tensor:
        """What was computed for each parent, for each row; the same tensor if every row has its own. (parents, …)"""
        return values if self.of_row is None else values.index_select(0, self.of_row)


class TreeState:
    """Gives a scorer the default `reorder` and `select`, for states and memories that are trees of tensors."""

    def reorder(self, state: Any, rows: Tensor) -> Any:
        return select_rows(state, rows)

    def select(self, memory: Any, utterances: Tensor) -> Any:
        return select_rows(memory, utterances)
