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
from fewer.recognisers.transformers.decoder import AttentionDecoder, split_heads

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

    def __init__(self, decoder: AttentionDecoder, prompt: Sequence[int], heads: Sequence[tuple[int, int]]):
        self.decoder, self.prompt, self.heads = decoder, list(prompt), list(heads)
        self.attention = Listening(decoder)

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
            found[index] = (queries @ memory[0][index].keys.transpose(2, 3)).softmax(-1)[0]  # (all heads, N, T)
            return self.attention.cross(memory, index, hidden)

        self.decoder.teacher_forced(embedded, cross)
        return torch.stack([found[layer][head] for layer, head in self.heads]).cpu()


def smoothed(weights: Tensor) -> Tensor:
    """Standardised over labels, smoothed over time, averaged over heads. (heads, N, T) -> (N, T)"""
    deviation = weights.std(dim=1, keepdim=True, unbiased=False)
    weights = (weights - weights.mean(dim=1, keepdim=True)) / deviation.clamp_min(1e-10)
    if weights.shape[2] > MEDIAN // 2:
        weights = functional.pad(weights, (MEDIAN // 2, MEDIAN // 2), mode="reflect")
        weights = weights.unfold(2, MEDIAN, 1).median(dim=-1).values
    return weights.mean(0)


def warp(cost: np.ndarray) -> np.ndarray:
    """The first frame of each label on the cheapest monotone path through all labels and frames. (N, T) -> (N,)

    Cells of one antidiagonal depend on earlier ones only, so each is computed at once.
    """
    labels, frames = cost.shape
    total = np.full((labels + 1, frames + 1), np.inf)
    total[0, 0] = 0.0
    for diagonal in range(2, labels + frames + 1):
        i = np.arange(max(1, diagonal - frames), min(labels, diagonal - 1) + 1)
        j = diagonal - i
        before = np.minimum(np.minimum(total[i - 1, j - 1], total[i - 1, j]), total[i, j - 1])
        total[i, j] = cost[i - 1, j - 1] + before
    starts = np.zeros(labels, dtype=np.int64)
    i, j = labels, frames
    while i > 0 and j > 0:
        starts[i - 1] = j - 1
        both, label, frame = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        if both < label and both < frame:
            i, j = i - 1, j - 1
        elif label < both and label < frame:
            i -= 1
        else:
            j -= 1
    return starts
