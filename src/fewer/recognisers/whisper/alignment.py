"""When each label was said: dynamic time warping over the cross-attention weights of a few heads.

The way of openai/whisper: weights of the alignment heads, standardised over the labels, smoothed
by a median over time, averaged, and the cheapest monotone path through their negative.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fewer.models.encoded import Encoded
from fewer.recognisers.transformers.contexts import Listening
from fewer.recognisers.transformers.decoder import join_heads, split_heads

MEDIAN = 7  # encoder states over which weights are smoothed
STATE = 0.02  # seconds of an encoder state


def alignment_heads(generation: Any, layers: int, heads: int) -> list[tuple[int, int]]:
    """(layer, head) of those that follow the speech: what the model's generation config names, or the upper half."""
    named = getattr(generation, "alignment_heads", None)
    if named:
        return [(int(layer), int(head)) for layer, head in named]
    return [(layer, head) for layer in range(layers // 2, layers) for head in range(heads)]


class Aligner:
    """Times of a hypothesis's labels."""

    def __init__(self, attention: Listening, prompt: Sequence[int], heads: Sequence[tuple[int, int]]):
        self.attention, self.prompt, self.heads = attention, list(prompt), list(heads)
        self.decoder = attention.decoder[0]

    @torch.inference_mode()
    def times(self, encoded: Encoded, labels: Sequence[int]) -> list[tuple[float, float]]:
        """Start and end in seconds of each label in the one utterance of `encoded`.

        Each ends where the next begins: what is not said, such as punctuation, has the pauses, and so may what is.
        """
        if not labels:
            return []
        speech = int(encoded.lengths[0])
        weights = self.weights(encoded, labels)[:, len(self.prompt) - 1 :, :speech]  # where each is predicted
        starts = (warp(-smoothed(weights).double().numpy()) * STATE).tolist()  # (N + 1,), of the end label as well
        return list(pairwise(starts))

    def weights(self, encoded: Encoded, labels: Sequence[int]) -> Tensor:
        """Cross-attention of the heads when prompt and labels are read. (heads, prompt + N, T)"""
        memory = self.attention.prepare(encoded)
        embedded = self.decoder.embed(torch.tensor([[*self.prompt, *labels]], device=encoded.states.device))
        found: dict[int, Tensor] = {}

        def cross(index: int, hidden: Tensor) -> Tensor:
            layer = self.decoder.layers[index]
            queries = split_heads(layer.cross_query(layer.cross_norm(hidden)), layer.heads)
            keys, values, _ = memory[0][index]
            weights = (queries @ keys.to(queries.dtype).transpose(2, 3)).softmax(-1)  # (1, all heads, N, T)
            found[index] = weights[0]
            return layer.cross_out(join_heads(weights @ values.to(queries.dtype)))

        self.decoder.teacher_forced(embedded, cross)
        return torch.stack([found[layer][head] for layer, head in self.heads]).cpu()


def smoothed(weights: Tensor) -> Tensor:
    """Standardised over labels, smoothed over time, averaged over heads. (heads, N, T) -> (N, T)"""
    weights = weights - weights.mean(dim=1, keepdim=True)
    deviation = weights.square().mean(dim=1, keepdim=True).sqrt_()  # a tenth of the time of `std`
    weights /= deviation.clamp_min(1e-10)
    if weights.shape[2] > MEDIAN // 2:
        weights = functional.pad(weights, (MEDIAN // 2, MEDIAN // 2), mode="reflect")
        by_head = [head.unfold(1, MEDIAN, 1).unbind(-1) for head in weights]
        weights = torch.stack([median(values) for values in by_head])  # one by one, so that caches hold them
    return weights.mean(0)


def median(values: Sequence[Tensor]) -> Tensor:
    """Of an odd number of tensors, element by element: each round puts the smallest of what is left aside, so that
    after half of them the smallest is the median. Much faster than sorting, and the same."""
    rest = list(values)
    for _ in range(len(rest) // 2):
        for place in range(len(rest) - 1, 0, -1):
            low, high = torch.minimum(rest[place - 1], rest[place]), torch.maximum(rest[place - 1], rest[place])
            rest[place - 1], rest[place] = low, high
        rest = rest[1:]
    smallest = rest[0]
    for other in rest[1:]:
        smallest = torch.minimum(smallest, other)
    return smallest


def warp(cost: np.ndarray) -> np.ndarray:
    """The first frame of each label on the cheapest monotone path through all labels and frames. (N, T) -> (N,)

    Cells of one antidiagonal depend on earlier ones only, so each is computed at once: row d of `total` and `skewed`
    has the cells (i, d − i).
    """
    labels, frames = cost.shape
    skewed = np.zeros((labels + frames, labels))
    for label in range(labels):
        skewed[label : label + frames, label] = cost[label]
    total = np.full((labels + frames + 1, labels + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(2, labels + frames + 1):
        low, high = max(1, diagonal - frames), min(labels, diagonal - 1) + 1
        here, row, before = total[diagonal, low:high], total[diagonal - 1], total[diagonal - 2]
        np.minimum(row[low - 1 : high - 1], row[low:high], out=here)
        np.minimum(here, before[low - 1 : high - 1], out=here)
        here += skewed[diagonal - 2, low - 1 : high - 1]
    starts = np.zeros(labels, dtype=np.int64)
    i, j = labels, frames
    while i > 0 and j > 0:
        starts[i - 1] = j - 1
        both, label, frame = total[i + j - 2, i - 1], total[i + j - 1, i - 1], total[i + j - 1, i]
        if both < label and both < frame:
            i, j = i - 1, j - 1
        elif label < both and label < frame:
            i -= 1
        else:
            j -= 1
    return starts
