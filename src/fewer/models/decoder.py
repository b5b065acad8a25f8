"""Decoders of the paper: an LSTM (plain or zoneout) or a feed-forward state, and the maxout readout (SPEC §1).

A decoder does not own its attention: it is given a `Context`. So the recogniser, each of its internal LMs, and the
decoder-like LM are this one class with different contexts.
"""

from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from fewer.config import Config
from fewer.models.context import Context, ZeroContext, context_memory
from fewer.models.encoded import Encoded
from fewer.models.lstm import Lstm, LstmState, ZoneoutLstm, glorot_, init_linear, normal_
from fewer.models.shared import ManySteps


class DecoderConfig(Config):
    state: Literal["lstm", "zoneout_lstm", "feed_forward"] = "lstm"
    size: int = Field(default=1000, ge=1)  # units of s_i; a feed-forward state is as wide as the attention's energy
    embedding: int = Field(default=621, ge=1)
    readout: int = Field(default=1000, ge=1, multiple_of=2)  # before maxout, which halves it
    dropout: float = Field(default=0.3, ge=0, lt=1)  # on the output layer's input
    cell_zoneout: float = Field(default=0.15, ge=0, lt=1)  # zoneout_lstm only
    output_zoneout: float = Field(default=0.05, ge=0, lt=1)  # zoneout_lstm only
    history: int = Field(default=3, ge=1)  # k, feed_forward only: how many labels the state sees
    joint_initial: bool = False  # an LSTM's first weights are drawn as those of one matrix; the authors: true


class LstmDecoderState(nn.Module):
    """s_i = LSTM(s_{i-1}, [y_{i-1}; c_{i-1}]) (paper eq. 3), forget bias +1."""

    def __init__(self, config: DecoderConfig, context_size: int):
        super().__init__()
        inputs = config.embedding + context_size
        if config.state == "lstm":
            self.lstm: Lstm = Lstm(inputs, config.size, forget_bias=1.0)
        else:
            self.lstm = ZoneoutLstm(inputs, config.size, 1.0, config.cell_zoneout, config.output_zoneout)
        if config.joint_initial:
            self.lstm.reset_parameters(joint=True)

    def start(self, like: Tensor) -> LstmState:
        return self.lstm.start(like.shape[0])

    def step(self, embedded: Tensor, context: Tensor, state: LstmState) -> tuple[Tensor, LstmState]:
        new = self.lstm.step(torch.cat([embedded, context], dim=-1), state)
        return new[0], self.lstm.zone(new, state) if isinstance(self.lstm, ZoneoutLstm) else new

    def many_steps(self) -> AbstractContextManager[None]:
        return self.lstm.many_steps()

    def sequence(self, embedded: Tensor, previous_contexts: Tensor) -> Tensor:
        """All s_i at once for known contexts. (B, N, E), (B, N, D_enc) -> (B, N, size)"""
        inputs = torch.cat([embedded, previous_contexts], dim=-1)
        if not isinstance(self.lstm, ZoneoutLstm):
            return self.lstm(inputs)[0]
        state, outputs = self.lstm.start(inputs.shape[0]), []
        with self.lstm.many_steps():
            for step in inputs.unbind(1):
                new = self.lstm.step(step, state)
                outputs.append(new[0])
                state = self.lstm.zone(new, state)
        return torch.stack(outputs, dim=1)


class FeedForwardDecoderState(nn.Module, ManySteps):
    """s_i = tanh(W[y_{i-1}; …; y_{i-k}; c_{i-1}] + b): no recurrence but through the attention (paper eq. 5)."""

    def __init__(self, config: DecoderConfig, context_size: int):
        super().__init__()
        self.history, self.embedding = config.history, config.embedding
        self.linear = init_linear(nn.Linear(config.history * config.embedding + context_size, config.size))

    def start(self, like: Tensor) -> Tensor:
        return like.new_zeros(like.shape[0], self.history - 1, self.embedding)  # y_{i-2} … y_{i-k}

    def step(self, embedded: Tensor, context: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        history = torch.cat([embedded[:, None], state], dim=1)  # (rows, k, E), newest first
        inputs = torch.cat([history.flatten(1), context], dim=-1)
        linear = self.linear(inputs) if self.shared is None else self.shared(inputs) + self.linear.bias
        return torch.tanh(linear), history[:, :-1]

    def step_matrix(self) -> Tensor:
        return self.linear.weight.t()

    def sequence(self, embedded: Tensor, previous_contexts: Tensor) -> Tensor:
        """All s_i at once for known contexts. (B, N, E), (B, N, D_enc) -> (B, N, size)"""
        padded = functional.pad(embedded, (0, 0, self.history - 1, 0))
        windows = padded.unfold(1, self.history, 1).flip(-1).transpose(2, 3).flatten(2)  # (B, N, k·E), newest first
        return torch.tanh(self.linear(torch.cat([windows, previous_contexts], dim=-1)))


class DecoderState(NamedTuple):
    """Everything a row must remember: all tensors have the row as first dimension."""

    cell: Any  # of the state network
    context: Tensor  # c_{i-1}, (rows, D_enc)
    context_state: Any  # of the context


class Decoded(NamedTuple):
    """A teacher-forced pass."""

    decoder: "Decoder"
    hidden: Tensor  # what the output layer reads, (B, N, R / 2)
    states: Tensor  # s_1 … s_N, (B, N, D_dec)
    contexts: Tensor  # c_1 … c_N, (B, N, D_enc)
    context_states: list[Any]  # of every step, () if the contexts came all at once

    @property
    def logits(self) -> Tensor:
        """(B, N, V), computed when asked for."""
        return self.decoder.logits(self.hidden)


class Decoder(nn.Module):
    """P(y_i | y_<i, c) = softmax(linear ∘ maxout ∘ linear [s_i; y_{i-1}; c_i]) (paper eq. 4)."""

    def __init__(self, config: DecoderConfig, vocab_size: int, context_size: int):
        super().__init__()
        self.config, self.vocab_size, self.context_size = config, vocab_size, context_size
        self.embedding = nn.Embedding(vocab_size, config.embedding)
        glorot_(self.embedding.weight, vocab_size, config.embedding)
        state = FeedForwardDecoderState if config.state == "feed_forward" else LstmDecoderState
        self.state: LstmDecoderState | FeedForwardDecoderState = state(config, context_size)
        self.readout = init_linear(nn.Linear(config.size + config.embedding + context_size, config.readout))
        self.output = init_linear(nn.Linear(config.readout // 2, vocab_size))
        self.dropout = nn.Dropout(config.dropout)

    def embed(self, labels: Tensor) -> Tensor:
        """Embeddings; zero where there is no label yet. (…) -> (…, E)"""
        return self.embedding(labels.clamp_min(0)) * (labels >= 0).unsqueeze(-1)

    def hidden(self, decoder_state: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """The readout, which the output layer reads. (…, D_dec), (…, E), (…, D_enc) -> (…, R / 2)"""
        readout = self.readout(torch.cat([decoder_state, embedded, context], dim=-1))
        return readout.unflatten(-1, (-1, 2)).amax(dim=-1)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, R / 2) -> (…, V)"""
        return self.output(self.dropout(hidden))

    def start(self, context: Context, memory: Any, rows: int) -> DecoderState:
        like = self.embedding.weight.new_empty(rows, 0)
        return DecoderState(self.state.start(like), *context.start(memory, like))

    def advance(
        self, context: Context, memory: Any, state: DecoderState, embedded: Tensor
    ) -> tuple[Tensor, DecoderState]:
        """s_i and the new state, which holds c_i. (rows, E) -> (rows, D_dec), state"""
        decoder_state, cell = self.state.step(embedded, state.context, state.cell)
        new_context, context_state = context.step(memory, state.context_state, decoder_state, embedded)
        return decoder_state, DecoderState(cell, new_context, context_state)

    def step(self, context: Context, memory: Any, state: DecoderState, labels: Tensor) -> tuple[Tensor, DecoderState]:
        """Logits of y_i after reading y_{i-1} = `labels` (-1 before the first). (rows,) -> (rows, V), state"""
        embedded = self.embed(labels)
        decoder_state, state = self.advance(context, memory, state, embedded)
        return self.logits(self.hidden(decoder_state, embedded, state.context)), state

    def teacher_forced(self, context: Context, memory: Any, labels: Tensor) -> Decoded:
        """Every label given the true ones before it. (B, N) -> Decoded"""
        inputs = torch.cat([torch.full_like(labels[:, :1], -1), labels[:, :-1]], dim=1)
        embedded = self.embed(inputs)  # (B, N, E)
        contexts = context.sequence(memory, embedded)
        if contexts is not None:
            first, _ = context.start(memory, embedded[:, 0])
            previous = torch.cat([first[:, None], contexts[:, :-1]], dim=1)
            states = self.state.sequence(embedded, previous)
            return Decoded(self, self.hidden(states, embedded, contexts), states, contexts, [])
        state = self.start(context, memory, labels.shape[0])
        steps = []
        with self.state.many_steps():
            for step in embedded.unbind(1):
                decoder_state, state = self.advance(context, memory, state, step)
                steps.append((decoder_state, state.context, state.context_state))
        states, contexts = (torch.stack([step[part] for step in steps], dim=1) for part in (0, 1))
        hidden = self.hidden(states, embedded, contexts)
        return Decoded(self, hidden, states, contexts, [step[2] for step in steps])


class DecoderLikeLmConfig(DecoderConfig):
    kind: Literal["decoder_like_lm"] = "decoder_like_lm"
    vocab_size: int = Field(ge=1)
    initial: Literal["glorot", "normal"] = "glorot"  # first weights; normal: N(0, 0.1), biases too


class ContextLm(nn.Module):
    """A decoder under a context, seen as any other language model."""

    decoder: Any  # that of the paper's models; other recognisers' have classes of their own

    def __init__(self, decoder: Any, context: Context):
        super().__init__()
        self.decoder, self.context, self.vocab_size = decoder, context, decoder.vocab_size

    def log_probs(self, labels: Tensor, encoded: Encoded | None = None) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v; `encoded` where the context hears the utterance.

        (B, N) -> (B, N, V)
        """
        return functional.log_softmax(self.logits(self.hidden(labels, encoded)), dim=-1)

    def hidden(self, labels: Tensor, encoded: Encoded | None = None) -> Tensor:
        """What the output layer reads at each label. (B, N) -> (B, N, R / 2)"""
        memory = context_memory(self.context, encoded)
        hidden: Tensor = self.decoder.teacher_forced(self.context, memory, labels).hidden
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, R / 2) -> (…, V)"""
        logits: Tensor = self.decoder.logits(hidden)
        return logits

    def start(self, rows: int) -> Any:
        return self.decoder.start(self.context, None, rows)

    def step(self, state: Any, labels: Tensor) -> tuple[Tensor, Any]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        logits, state = self.decoder.step(self.context, None, state, labels)
        return functional.log_softmax(logits, dim=-1), state


class InternalLm(ContextLm):
    """P_ILM(y) = P_AED(y | c_i = ĉ_i). The decoder is frozen and in evaluation mode; only the context may learn."""

    def __init__(self, decoder: Any, context: Context):
        super().__init__(decoder.requires_grad_(False), context)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Dropout stays off: the decoder's is not to be trained, and the small contexts have none."""
        return super().train(False)


class DecoderLikeLm(ContextLm):
    """An LM with the decoder's exact topology and no context: what the decoder could learn from transcripts alone."""

    def __init__(self, config: DecoderLikeLmConfig):
        super().__init__(Decoder(config, config.vocab_size, 0), ZeroContext(0))
        self.config = config
        if config.initial == "normal":
            normal_(self)
