"""A recogniser and its internal LMs as one scorer: one set of weights, one row of products, several terms."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from fewer.models.context import Context
from fewer.models.tree import select_rows
from fewer.recognisers.transformers.cache import BeamCache
from fewer.recognisers.transformers.contexts import Listening, cross_step
from fewer.recognisers.transformers.decoder import AttentionDecoder


class ScorerState(NamedTuple):
    cache: BeamCache
    contexts: tuple[Any, ...]  # each context's own state
    position: int  # of the next label that is read


class AttentionScorer:
    """Each term is the decoder under its context; their rows go through every weight matrix together."""

    def __init__(self, decoder: AttentionDecoder, prompt: Sequence[int], contexts: Mapping[str, Context]):
        """prompt: what the decoder reads before any label. contexts: by the names of the terms."""
        size = len(decoder.layers) * decoder.size
        for name, context in contexts.items():
            if context.size != size:
                raise ValueError(f"{name}: a context of size {context.size} for layers · D = {size}")
        self.decoder, self.prompt = decoder, list(prompt)
        self.terms: Sequence[str] = tuple(contexts)
        self.contexts = list(contexts.values())
        self.vocab_size = decoder.vocab_size

    @torch.no_grad()
    def start(self, encoded: Any) -> tuple[list[Any], ScorerState]:
        """Reads all of the prompt but its last label, which the first step reads."""
        memory = [context.prepare(encoded) for context in self.contexts]
        rows, like = len(encoded), self.decoder.embedding.weight
        states = tuple(
            context.start(kept, like.new_empty(rows, 0))[1] for context, kept in zip(self.contexts, memory, strict=True)
        )
        heads = self.decoder.heads, self.decoder.head
        cache = BeamCache.empty(len(self.decoder.layers), len(self.contexts), rows, *heads, like)
        state = ScorerState(cache, states, 0)
        for label in self.prompt[:-1]:
            _, state = self._read(memory, state, torch.full((rows,), label, device=like.device))
        return memory, state

    @torch.no_grad()
    def step(self, memory: list[Any], state: ScorerState, labels: Tensor) -> tuple[Tensor, ScorerState]:
        """(rows,) -> (A, rows, V)"""
        hidden, state = self._read(memory, state, torch.where(labels < 0, self.prompt[-1], labels))
        return functional.log_softmax(self.decoder.next_logits(hidden), dim=-1), state

    def reorder(self, state: ScorerState, rows: Tensor) -> ScorerState:
        return ScorerState(state.cache.reordered(rows), select_rows(state.contexts, rows), state.position)

    def select(self, memory: list[Any], utterances: Tensor) -> list[Any]:
        return [
            context.select(kept, utterances) if isinstance(context, Listening) else select_rows(kept, utterances)
            for context, kept in zip(self.contexts, memory, strict=True)
        ]

    def _read(self, memory: list[Any], state: ScorerState, labels: Tensor) -> tuple[Tensor, ScorerState]:
        """One more label of every row. (rows,) -> (A, rows, D)"""
        embedded = self.decoder.embed(labels)
        crosses, contexts = zip(
            *(
                cross_step(context, kept, own, embedded)
                for context, kept, own in zip(self.contexts, memory, state.contexts, strict=True)
            ),
            strict=True,
        )

        def cross(layer: int, hidden: Tensor) -> Tensor:
            parts = zip(crosses, hidden.chunk(len(crosses)), strict=True)
            return torch.cat([of_term(layer, part) for of_term, part in parts])

        extension = state.cache.extended()
        hidden = self.decoder.placed(embedded, state.position).repeat(len(crosses), 1)  # (A · rows, D)
        hidden = self.decoder(hidden, state.position, extension.attend, cross)
        state = ScorerState(extension.cache, contexts, state.position + 1)
        return hidden.view(len(crosses), len(labels), -1), state
