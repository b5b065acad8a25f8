"""The recogniser and its internal LMs as one scorer: one set of weights, one row of products, several terms.

Every term is the same decoder under another context, so a step stacks the terms' states and multiplies each weight
matrix once. What depends on a label alone is a table; what depends on a context is folded into the context
(`Context.project`), so that no product with the D_enc-wide context is left in the loop.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from fewer.models.aed import AED
from fewer.models.context import Context
from fewer.models.decoder import FeedForwardDecoderState
from fewer.models.encoded import Encoded
from fewer.models.lstm import ZoneoutLstm, lstm_pointwise
from fewer.models.tree import Parents, TreeState


class AedScorerState(NamedTuple):
    """A is the number of terms."""

    parents: Parents  # what each context adds to the state's input, (…, 4n or D_dec), and LSTM: h, (…, A, n)
    cell: Tensor  # LSTM: c, (rows, A, n); feed-forward: labels before the last, (rows, k − 1)
    contexts: tuple[Any, ...]  # each context's own state


class AedScorer(TreeState):
    """Terms "aed" (with the recogniser's attention) and any further names with their contexts."""

    def __init__(self, aed: AED, ilms: Mapping[str, Context] | None = None):
        named: dict[str, Context] = {"aed": aed.attention, **(ilms or {})}
        for name, context in named.items():
            if context.size != aed.decoder.context_size:
                raise ValueError(
                    f"{name}: a context of size {context.size} for a decoder of {aed.decoder.context_size}"
                )
        self.terms: Sequence[str] = tuple(named)
        self.vocab_size = aed.vocab_size
        self.decoder = aed.decoder
        with torch.no_grad():
            self._fold()
            self.contexts = [context.project(self.projection) for context in named.values()]

    def _fold(self) -> None:
        """Split the decoder's matrices by what they multiply: label, context, state."""
        decoder, config = self.decoder, self.decoder.config
        sizes = [config.size, config.embedding, decoder.context_size]
        readout_state, readout_label, readout_context = decoder.readout.weight.split(sizes, dim=1)
        self.readout_state = readout_state.T.contiguous()  # (D_dec, R)
        embedding = torch.cat([decoder.embedding.weight, decoder.embedding.weight.new_zeros(1, config.embedding)])
        state = decoder.state
        if isinstance(state, FeedForwardDecoderState):
            history = [config.embedding] * config.history
            *labels, context = state.linear.weight.split([*history, decoder.context_size], dim=1)
            bias: Tensor = state.linear.bias
            self.older = [embedding @ weight.T for weight in labels[1:]]  # (V + 1, D_dec) for y_{i-2} …; last row: none
        else:
            labels = [state.lstm.weight_ih[:, : config.embedding]]
            context = state.lstm.weight_ih[:, config.embedding :]
            bias = state.lstm.bias + state.lstm.offset
            self.recurrent = state.lstm.weight_hh.T.contiguous()  # (n, 4n)
        self.split = context.shape[0]
        self.projection = torch.cat([context, readout_context]).T.contiguous()  # (D_enc, P)
        biases = torch.cat([bias, decoder.readout.bias])
        self.table = embedding @ torch.cat([labels[0], readout_label]).T + biases  # (V + 1, P); last row: no label yet

    @torch.no_grad()
    def start(self, encoded: Encoded) -> tuple[list[Any], AedScorerState]:
        memory = [context.prepare(encoded) for context in self.contexts]
        rows, like = len(encoded), self.table.new_empty(len(encoded), 0)
        first, states = zip(
            *(context.start(kept, like) for context, kept in zip(self.contexts, memory, strict=True)), strict=True
        )
        added = [said[:, : self.split] for said in first]
        if isinstance(self.decoder.state, FeedForwardDecoderState):
            older = torch.full((rows, self.decoder.config.history - 1), -1, device=self.table.device)
            return memory, AedScorerState(Parents((added, None)), older, states)
        zeros = self.table.new_zeros(rows, len(self.terms), self.decoder.config.size)
        return memory, AedScorerState(Parents((added, zeros)), zeros, states)

    @torch.no_grad()
    def step(self, memory: list[Any], state: AedScorerState, labels: Tensor) -> tuple[Tensor, AedScorerState]:
        """(rows,) -> (A, rows, V)"""
        by_label = self.table.index_select(0, labels.remainder(len(self.table)))  # (rows, P); −1 is the last row
        decoder_state, h, cell = self._advance(by_label[:, None, : self.split], state, labels)  # (rows, A, D_dec)
        embedded = self.decoder.embed(labels)
        projected, contexts = [], []
        for index, context in enumerate(self.contexts):
            new, own = context.step(memory[index], state.contexts[index], decoder_state[:, index], embedded)
            projected.append(new)  # (rows, P)
            contexts.append(own)
        said = _stack([new[:, self.split :] for new in projected]) + by_label[:, None, self.split :]  # (rows, A, R)
        readout = said.flatten(0, 1).addmm_(decoder_state.flatten(0, 1), self.readout_state).view_as(said)
        maxout = functional.max_pool1d(readout, 2)  # (rows, A, R / 2)
        log_probs = functional.log_softmax(self.decoder.output(maxout), dim=-1)  # (rows, A, V)
        parents = Parents(([new[:, : self.split] for new in projected], h))
        return log_probs.transpose(0, 1), AedScorerState(parents, cell, tuple(contexts))

    def _advance(self, by_label: Tensor, state: AedScorerState, labels: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """s_i, the new h (None without recurrence), and the new cell."""
        network, parents = self.decoder.state, state.parents
        added, h = _stack(parents.tree[0]), parents.tree[1]  # (parents, A, 4n or D_dec), (parents, A, n)
        if isinstance(network, FeedForwardDecoderState):
            inputs = by_label + parents.to_rows(added)  # (rows, A, D_dec)
            for lag, table in enumerate(self.older):
                inputs = inputs + table[state.cell[:, lag], None]
            older = torch.cat([labels[:, None], state.cell], dim=1)[:, :-1]
            return torch.tanh(inputs), None, older
        summed = torch.addmm(added.flatten(0, 1), h.flatten(0, 1), self.recurrent).view_as(added)
        new_h, new_c = lstm_pointwise(parents.to_rows(summed).add_(by_label), state.cell)
        if isinstance(network.lstm, ZoneoutLstm):
            return new_h, *network.lstm.zone((new_h, new_c), (parents.to_rows(h), state.cell))
        return new_h, new_h, new_c


def _stack(tensors: list[Tensor]) -> Tensor:
    """(rows, n) of each term -> (rows, A, n)"""
    return torch.stack(tensors, dim=1) if len(tensors) > 1 else tensors[0][:, None]
