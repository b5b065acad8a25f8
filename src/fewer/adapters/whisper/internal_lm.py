"""The decoder under a context, seen as any other language model over Whisper's labels."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.adapters.whisper.contexts import cross_sequence
from fewer.adapters.whisper.decoder import WhisperDecoder
from fewer.models.context import Context
from fewer.models.encoded import Encoded


class WhisperLm(nn.Module):
    """P(y) of Whisper's decoder under a context: an internal LM, or the recogniser if the context listens.

    The decoder is frozen and in evaluation mode; only the context may learn.
    """

    def __init__(self, decoder: WhisperDecoder, context: Context, prompt: Sequence[int]):
        super().__init__()
        self.decoder = decoder.requires_grad_(False)
        self.context = context
        self.vocab_size = decoder.vocab_size
        self.register_buffer("prompt", torch.tensor(prompt), persistent=False)
        self.prompt: Tensor
        self.eval()

    def train(self, mode: bool = True) -> "WhisperLm":
        return super().train(False)

    def log_probs(self, labels: Tensor, encoded: Encoded | None = None) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v; `encoded` where the context hears the utterance.

        (B, N) -> (B, N, V)
        """
        return functional.log_softmax(self.decoder.logits(self.hidden(labels, encoded)), dim=-1)

    def hidden(self, labels: Tensor, encoded: Encoded | None = None) -> Tensor:
        """What the output layer reads at each label. (B, N) -> (B, N, D)"""
        prompt = self.prompt.expand(len(labels), -1)
        embedded = self.decoder.embed(torch.cat([prompt, labels[:, :-1]], dim=1))  # (B, prompt + N − 1, D)
        cross = cross_sequence(self.context, self._memory(encoded), embedded)
        return self.decoder.teacher_forced(embedded, cross)[:, len(self.prompt) - 1 :]

    def _memory(self, encoded: Encoded | None) -> Any:
        if not self.context.needs_encoder:
            return None
        if encoded is None:
            raise ValueError("this context hears the utterance: give its encoder states")
        return self.context.prepare(encoded)
