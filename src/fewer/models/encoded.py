"""What an encoder says of a batch of utterances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Remembering(Protocol):
    """What a memory of utterances is kept for."""

    def select(self, memory: Any, utterances: Tensor) -> Any:
        """The memory of the given utterances only."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Encoded:
    """Encoder states h_1..h_T of each utterance; frames from `lengths` on are padding and hold zeros."""

    states: Tensor  # (B, T, D_enc)
    lengths: Tensor  # (B,) int64
    heard: Tensor | None = None  # (B,) how many states attention sees, if more than those of the speech
    memories: "dict[Remembering, Any] | None" = field(default=None, repr=False, compare=False)  # None: none is kept

    def __len__(self) -> int:
        return self.states.shape[0]

    @property
    def mask(self) -> Tensor:
        """True on valid frames. (B, T)"""
        return length_mask(self.lengths, self.states.shape[1])

    @property
    def attended(self) -> Tensor:
        """How many states attention sees. (B,)"""
        return self.lengths if self.heard is None else self.heard

    def tensors(self) -> dict[str, Tensor]:
        """By the names of the fields."""
        named = {"states": self.states, "lengths": self.lengths, "heard": self.heard}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    @classmethod
    def of(cls, tensors: Mapping[str, Any], device: torch.device) -> "Encoded":
        """From what `tensors` gave."""
        return cls(**{name: tensor.to(device) for name, tensor in tensors.items()})

    def select(self, utterances: Tensor) -> "Encoded":
        """The given utterances only, cut to the longest of them."""
        utterances = utterances.to(self.states.device)
        longest = int(self.attended[utterances].max()) if len(utterances) else 0
        heard = None if self.heard is None else self.heard[utterances]
        selected = Encoded(self.states[utterances, :longest], self.lengths[utterances], heard)
        if self.memories is None:
            return selected
        return replace(selected, memories={one: one.select(kept, utterances) for one, kept in self.memories.items()})

    def remembering(self) -> "Encoded":
        """The same, which keeps what contexts prepare of it, for those who ask again: it takes memory."""
        return replace(self, memories={})


def joined(parts: Sequence[Encoded]) -> Encoded:
    """The utterances of all parts, padded to the longest."""
    if len(parts) == 1:
        return parts[0]
    longest = max(part.states.shape[1] for part in parts)
    states = [functional.pad(part.states, (0, 0, 0, longest - part.states.shape[1])) for part in parts]
    lengths = torch.cat([part.lengths for part in parts])
    heard = None if parts[0].heard is None else torch.cat([part.attended for part in parts])
    return Encoded(torch.cat(states), lengths, heard)


def length_mask(lengths: Tensor, longest: int) -> Tensor:
    """True where a position lies inside its sequence. (B,) -> (B, longest)"""
    return torch.arange(longest, device=lengths.device) < lengths[:, None]
