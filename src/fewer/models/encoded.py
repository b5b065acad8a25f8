"""What an encoder says of a batch of utterances."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Encoded:
    """Encoder states h_1..h_T of each utterance; frames from `lengths` on are padding and hold zeros."""

    states: Tensor  # (B, T, D_enc)
    lengths: Tensor  # (B,) int64

    def __len__(self) -> int:
        return self.states.shape[0]

    @property
    def mask(self) -> Tensor:
        """True on valid frames. (B, T)"""
        return length_mask(self.lengths, self.states.shape[1])

    def select(self, utterances: Tensor) -> "Encoded":
        """The given utterances only, cut to the longest of them."""
        lengths = self.lengths[utterances]
        longest = int(lengths.max()) if len(lengths) else 0
        return Encoded(self.states[utterances, :longest], lengths)


def length_mask(lengths: Tensor, longest: int) -> Tensor:
    """True where a position lies inside its sequence. (B,) -> (B, longest)"""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]
