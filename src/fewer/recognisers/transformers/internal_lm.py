"""The decoder under a context, seen as any other language model over the recogniser's labels."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from fewer.models.context import Context, context_memory
from fewer.models.decoder import InternalLm
from fewer.models.encoded import Encoded
from fewer.recognisers.transformers.contexts import cross_sequence, cross_step
from fewer.recognisers.transformers.decoder import AttentionDecoder, join_heads, split_heads


class LmState(NamedTuple):
    """A tree of tensors with the row as first dimension, as every LM's state."""

    past: Tensor  # (rows, layers, n, 2 · W): keys and values of all positions so far
    context: Any  # the context's own state


class AttentionLm(InternalLm):
    """P(y) of the decoder under a context: an internal LM, or the recogniser if the context listens."""

    decoder: AttentionDecoder
    prompt: Tensor

    def __init__(self, decoder: AttentionDecoder, context: Context, prompt: Sequence[int]):
        super().__init__(decoder, context)
        self.register_buffer("prompt", torch.tensor(prompt, device=decoder.embedding.weight.device), persistent=False)

    def hidden(self, labels: Tensor, encoded: Encoded | None = None) -> Tensor:
        """What the output layer reads at each label. (B, N) -> (B, N, D)"""
        embedded = self._inputs(labels)
        cross = cross_sequence(self.context, context_memory(self.context, encoded), embedded)
        return self.decoder.teacher_forced(embedded, cross)[:, len(self.prompt) - 1 :]

    def contexts(self, labels: Tensor, encoded: Encoded) -> Tensor:
        """What the cross-attention blocks of all layers add at each label. (B, N) -> (B, N, layers · D)"""
        embedded, said = self._inputs(labels), list[Tensor]()
        cross = cross_sequence(self.context, context_memory(self.context, encoded), embedded)

        def recorded(layer: int, hidden: Tensor) -> Tensor:
            said.append(cross(layer, hidden))
            return said[-1]

        self.decoder.teacher_forced(embedded, recorded)
        return torch.cat(said, dim=-1)[:, len(self.prompt) - 1 :]

    def _inputs(self, labels: Tensor) -> Tensor:
        """Embeddings of the prompt and all labels but the last. (B, N) -> (B, prompt + N − 1, D)"""
        prompt = self.prompt.expand(len(labels), -1)
        return self.decoder.embed(torch.cat([prompt, labels[:, :-1]], dim=1))

    def start(self, rows: int) -> LmState:
        """A context that hears the utterance has no place here: search with `AttentionScorer`."""
        like = self.decoder.embedding.weight.new_empty(rows, 0)
        _, own = self.context.start(context_memory(self.context, None), like)
        past = like.new_empty(rows, len(self.decoder.layers), 0, 2 * self.decoder.width)
        state = LmState(past, own)
        for label in self.prompt[:-1]:
            _, state = self._read(state, label.expand(rows))
        return state

    def step(self, state: LmState, labels: Tensor) -> tuple[Tensor, LmState]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        hidden, state = self._read(state, torch.where(labels < 0, self.prompt[-1], labels))
        return functional.log_softmax(self.decoder.next_logits(hidden), dim=-1), state

    def _read(self, state: LmState, labels: Tensor) -> tuple[Tensor, LmState]:
        """(rows,) -> (rows, D)"""
        embedded = self.decoder.embed(labels)
        cross, own = cross_step(self.context, None, state.context, embedded)
        grown: list[Tensor] = []

        def attend(layer: int, qkv: Tensor) -> Tensor:
            query, new = qkv[:, None].split([self.decoder.width, 2 * self.decoder.width], dim=-1)
            grown.append(torch.cat([state.past[:, layer], new], dim=1))  # (rows, n + 1, 2 · W)
            queries, keys, values = (
                split_heads(part, self.decoder.heads) for part in (query, *grown[-1].chunk(2, dim=-1))
            )
            return join_heads(functional.scaled_dot_product_attention(queries, keys, values, scale=1.0))[:, 0]

        place = state.past.shape[2]
        hidden = self.decoder(self.decoder.placed(embedded, place), place, attend, cross)
        return hidden, LmState(torch.stack(grown, dim=1), own)
