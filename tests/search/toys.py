"""Small scorers for tests of the search."""

from collections.abc import Sequence, Sized

import torch
from torch import Tensor

from fewer.search.scorer import TreeState


class TableScorer(TreeState):
    """log P(label | last two labels) from a random table for each utterance: a search problem one can enumerate."""

    def __init__(self, utterances: int, vocab_size: int, term: str = "aed", seed: int = 0, sharpness: float = 1.0):
        generator = torch.Generator().manual_seed(seed)
        shape = (utterances, vocab_size + 1, vocab_size + 1, vocab_size)
        self.table = (sharpness * torch.randn(shape, generator=generator)).log_softmax(-1)
        self.terms: Sequence[str] = (term,)
        self.vocab_size = vocab_size

    def start(self, encoded: Sized) -> tuple[Tensor, Tensor]:
        return self.table[: len(encoded)], torch.full((len(encoded), 2), -1)

    def step(self, memory: Tensor, state: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.stack([state[:, 1], labels], dim=1)
        utterance = torch.arange(len(labels)) // (len(labels) // len(memory))
        return memory[utterance, state[:, 0], state[:, 1]].unsqueeze(0), state

    def score(self, utterance: int, labels: Sequence[int]) -> list[float]:
        """Log-probability of each label in turn, by looking it up."""
        history = [-1, -1]
        scores = []
        for label in labels:
            scores.append(float(self.table[utterance, history[0], history[1], label]))
            history = [history[1], label]
        return scores
