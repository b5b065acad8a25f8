"""A scorer is anything that says the next label's log-probabilities.

Rows are hypotheses, utterance-major: with B utterances and K hypotheses each, row b·K + k is hypothesis k of
utterance b, so that a scorer can view any row tensor as (B, K, …) with K = rows / B. A search starts with one row
for each utterance and reorders to more.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from fewer.models.tree import TreeState, select_rows

__all__ = ["NOTHING", "Memory", "Scorer", "State", "TreeState", "first_labels", "select_rows"]

NOTHING = -1  # the label before the first one

State = Any  # a tree (dict, list, tuple, None) of tensors whose first dimension is the row
Memory = Any  # what a scorer keeps of the utterances; read-only, never copied per row


class Scorer(Protocol):
    """Scores every possible next label of every row. Holds no state of its own between calls.

    One whose numbers are no log-probabilities over all labels (rewards, scores of whole words) says so by an attribute
    `normalised = False`; they are then left as they are where some labels never come. Rewards, which are positive, also
    say `rewards = True`, so that length is not paid for with them (`fewer.search.beam`).
    """

    terms: Sequence[str]  # names of what it scores; an AED and its ILM can be one scorer with two terms
    vocab_size: int

    def start(self, encoded: Any) -> tuple[Memory, State]:
        """Memory for `len(encoded)` utterances and the state of one row each, before any label."""
        ...

    def step(self, memory: Memory, state: State, labels: Tensor) -> tuple[Tensor, State]:
        """Read `labels` (rows,), NOTHING at first; give log-probabilities (terms, rows, V) of the next label.

        Rules of the search change them in place, so they are a new tensor."""
        ...

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state in which row i is what row `rows[i]` was; whole utterances may be missing. rows: (B, K)"""
        ...

    def select(self, memory: Memory, utterances: Tensor) -> Memory:
        """The memory of the given utterances only."""
        ...


def first_labels(utterances: int, device: torch.device | str = "cpu") -> Tensor:
    """NOTHING for one row of each utterance."""
    return torch.full((utterances,), NOTHING, dtype=torch.long, device=device)
