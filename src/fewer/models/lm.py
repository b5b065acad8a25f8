"""Language models: LSTM (also the density-ratio LM) and Transformer (Irie et al. 2019), SPEC §3.

Every LM reads the end label first and scores the whole vocabulary after each label. Teacher-forced `log_probs` and the
step-by-step scorer give the same numbers.
"""

import copy
import math
from collections.abc import Iterator, Sequence, Sized
from itertools import pairwise
from typing import Any, Literal, Protocol

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional

from fewer.config import Config
from fewer.models.lstm import Lstm, glorot_, init_linear, lstm_pointwise, normal_
from fewer.models.tree import Parents, TreeState

TABLE_NUMBERS = 1 << 24  # the largest label table that a search may keep


class LanguageModel(Protocol):
    """What an LM answers, teacher-forced and step by step."""

    vocab_size: int

    def log_probs(self, labels: Tensor) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v. (B, N) -> (B, N, V)"""
        ...

    def start(self, rows: int) -> Any:
        """The state before any label."""
        ...

    def step(self, state: Any, labels: Tensor) -> tuple[Tensor, Any]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        ...


def shifted(labels: Tensor, end: int) -> Tensor:
    """The input labels of a teacher-forced LM: the end label, then all but the last. (B, N) -> (B, N)"""
    return torch.cat([torch.full_like(labels[:, :1], end), labels[:, :-1]], dim=1)


class LstmLmConfig(Config):
    kind: Literal["lstm_lm"] = "lstm_lm"
    vocab_size: int = Field(ge=1)
    end: int = Field(default=0, ge=0)  # the label that ends a sentence and, read first, starts one
    embedding: int = Field(default=128, ge=1)  # density ratio: 128 (LibriSpeech), 256 (Switchboard)
    size: int = Field(default=1000, ge=1)  # units of each layer
    layers: int = Field(default=1, ge=1)  # the paper does not publish those of the TED-LIUM LM; its recipe: 4 × 2048
    dropout: float = Field(default=0.0, ge=0, lt=1)  # on every layer's input and the output layer's input
    initial: Literal["glorot", "normal"] = "glorot"  # first weights; normal: N(0, 0.1), biases too, as the authors'


class LstmLm(nn.Module):
    """Embedding, LSTM layers, softmax."""

    def __init__(self, config: LstmLmConfig):
        super().__init__()
        self.config, self.vocab_size = config, config.vocab_size
        self.embedding = nn.Embedding(config.vocab_size, config.embedding)
        glorot_(self.embedding.weight, config.vocab_size, config.embedding)
        sizes = [config.embedding] + [config.size] * config.layers
        self.layers = nn.ModuleList([Lstm(a, b) for a, b in pairwise(sizes)])
        self.output = init_linear(nn.Linear(config.size, config.vocab_size))
        if config.initial == "normal":
            normal_(self)
        self.dropout = nn.Dropout(config.dropout)
        self.table: Tensor | None = None

    def log_probs(self, labels: Tensor) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v. (B, N) -> (B, N, V)"""
        hidden = self.embedding(shifted(labels, self.config.end))
        for layer in self.layers:
            hidden, _ = layer(self.dropout(hidden))
        return functional.log_softmax(self.output(self.dropout(hidden)), dim=-1)

    def start(self, rows: int) -> Any:
        return [(Parents(h), c) for h, c in (layer.start(rows) for layer in self.layers)]  # type: ignore[operator]

    @torch.no_grad()
    def for_search(self) -> "LstmLm":
        """The same model, with its weights as they are now, whose steps look up what each label adds to the first
        layer's gates, (V, 4n), instead of multiplying."""
        first: Any = self.layers[0]
        if self.vocab_size * first.bias.numel() > TABLE_NUMBERS:
            return self
        tabled = copy.copy(self)
        tabled.table = functional.linear(self.embedding.weight, first.weight_ih, first.bias + first.offset)
        return tabled

    def step(self, state: Any, labels: Tensor) -> tuple[Tensor, Any]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        labels = torch.where(labels < 0, self.config.end, labels)
        hidden, new = None, []
        layer: Any
        for layer, (parents, c) in zip(self.layers, state, strict=True):
            if hidden is None and self.table is not None:
                inputs = self.table.index_select(0, labels)
            else:
                hidden = self.embedding(labels) if hidden is None else hidden
                inputs = functional.linear(hidden, layer.weight_ih, layer.bias + layer.offset)
            summed = parents.to_rows(functional.linear(parents.tree, layer.weight_hh))
            hidden, c = lstm_pointwise(summed.add_(inputs), c)
            new.append((Parents(hidden), c))
        return functional.log_softmax(self.output(hidden), dim=-1), new


class TransformerLmConfig(Config):
    kind: Literal["transformer_lm"] = "transformer_lm"
    vocab_size: int = Field(ge=1)
    end: int = Field(default=0, ge=0)  # the label that ends a sentence and, read first, starts one
    layers: int = Field(default=6, ge=1)  # 6 (Switchboard), 24 (LibriSpeech)
    size: int = Field(default=1024, ge=1)
    feed_forward: int = Field(default=4096, ge=1)
    heads: int = Field(default=8, ge=1)
    embedding: int = Field(default=128, ge=1, multiple_of=2)  # half of the positions' numbers are sines, half cosines
    dropout: float = Field(default=0.0, ge=0, lt=1)  # on attention and feed-forward outputs and the embedding
    initial: Literal["glorot", "fan_in"] = "glorot"  # first weights; fan_in: variance 1/inputs, as the authors'

    @model_validator(mode="after")
    def _heads_divide_the_size(self) -> "TransformerLmConfig":
        if self.size % self.heads:
            raise ValueError(f"size: {self.size} cannot be divided among {self.heads} heads")
        return self


class SelfAttentionBlock(nn.Module):
    """One pre-norm Transformer layer: causal self-attention, then a ReLU feed-forward net."""

    def __init__(self, config: TransformerLmConfig):
        super().__init__()
        size = config.size
        self.heads = config.heads
        self.attention_norm = nn.LayerNorm(size, eps=1e-6)
        self.qkv = init_linear(nn.Linear(size, 3 * size, bias=False))  # rows: all queries, all keys, all values
        self.out = init_linear(nn.Linear(size, size, bias=False))
        self.feed_forward_norm = nn.LayerNorm(size, eps=1e-6)
        self.inner = init_linear(nn.Linear(size, config.feed_forward))
        self.outer = init_linear(nn.Linear(config.feed_forward, size))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`past`: keys and values so far (rows, 2, heads, n, head). Returns the new hidden and the grown past."""
        q, k, v = (self._split(part) for part in self.qkv(self.attention_norm(hidden)).chunk(3, dim=-1))
        present = torch.stack([k, v], dim=1)  # (rows, 2, heads, N, head)
        if past is not None:
            present = torch.cat([past, present], dim=3)
        keys, values = present.unbind(1)
        attended = functional.scaled_dot_product_attention(q, keys, values, is_causal=past is None)
        attended = attended.transpose(1, 2).flatten(2)  # (rows, N, size)
        hidden = hidden + self.dropout(self.out(attended))
        inner = functional.relu(self.inner(self.feed_forward_norm(hidden)))
        return hidden + self.dropout(self.outer(self.dropout(inner))), present

    def _split(self, values: Tensor) -> Tensor:
        return values.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (rows, heads, N, head)


class TransformerLm(nn.Module):
    """Embedding + sine/cosine positions, up-projection, pre-norm layers, final norm, softmax."""

    def __init__(self, config: TransformerLmConfig):
        super().__init__()
        self.config, self.vocab_size = config, config.vocab_size
        self.embedding = nn.Embedding(config.vocab_size, config.embedding)
        glorot_(self.embedding.weight, config.vocab_size, config.embedding)
        self.up = init_linear(nn.Linear(config.embedding, config.size, bias=False))
        self.blocks = nn.ModuleList([SelfAttentionBlock(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.size, eps=1e-6)
        self.output = init_linear(nn.Linear(config.size, config.vocab_size))
        if config.initial == "fan_in":
            self._draw_by_inputs()
        self.dropout = nn.Dropout(config.dropout)

    def _draw_by_inputs(self) -> None:
        """Every matrix uniform with variance 1/inputs; an embedding's inputs are the labels. Biases stay 0."""
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                inputs = module.in_features if isinstance(module, nn.Linear) else module.num_embeddings
                nn.init.uniform_(module.weight, -((3 / inputs) ** 0.5), (3 / inputs) ** 0.5)

    def embed(self, labels: Tensor, first_position: int) -> Tensor:
        """(rows, N) -> (rows, N, size)"""
        positions = torch.arange(first_position, first_position + labels.shape[1], device=labels.device)
        return self.up(self.dropout(self.embedding(labels) + sinusoids(positions, self.config.embedding)))

    def log_probs(self, labels: Tensor) -> Tensor:
        """log P(labels[i] = v | labels[<i]) for every v. (B, N) -> (B, N, V)"""
        hidden = self.embed(shifted(labels, self.config.end), 0)
        for block in self.blocks:
            hidden, _ = block(hidden)
        return functional.log_softmax(self.output(self.norm(hidden)), dim=-1)

    def start(self, rows: int) -> Any:
        config = self.config
        shape = (rows, 2, config.heads, 0, config.size // config.heads)
        return [self.up.weight.new_zeros(shape) for _ in self.blocks]

    def step(self, state: Any, labels: Tensor) -> tuple[Tensor, Any]:
        """Next label's log-probabilities after reading `labels`, -1 before the first. (rows,) -> (rows, V)"""
        labels = torch.where(labels < 0, self.config.end, labels)
        hidden, new = self.embed(labels[:, None], state[0].shape[3]), []
        for block, past in zip(self.blocks, state, strict=True):
            hidden, present = block(hidden, past)
            new.append(present)
        return functional.log_softmax(self.output(self.norm(hidden[:, 0])), dim=-1), new


def sinusoids(positions: Tensor, size: int) -> Tensor:
    """[sin, cos] of positions at rates 10000^(−j/(size/2−1)). (N,) -> (N, size)"""
    half = size // 2
    rates = torch.exp(-math.log(10000.0) / max(half - 1, 1) * torch.arange(half, device=positions.device))
    angles = positions[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def read_along(lm: LanguageModel, labels: Tensor) -> Iterator[Tensor]:
    """Every label's scores at each position in turn, given the labels before it. (B, N) -> (B, V) each"""
    state, previous = lm.start(len(labels)), torch.full_like(labels[:, 0], -1)
    for column in labels.T:
        scores, state = lm.step(state, previous)
        yield scores
        previous = column


class LmScorer(TreeState):
    """A language model as a scorer."""

    def __init__(self, lm: LanguageModel, term: str = "lm"):
        self.lm: LanguageModel = lm.for_search() if isinstance(lm, LstmLm) else lm
        self.terms: Sequence[str] = (term,)
        self.vocab_size: int = lm.vocab_size
        self.normalised: bool = getattr(lm, "normalised", True)
        self.rewards: bool = getattr(lm, "rewards", False)

    def start(self, encoded: Sized) -> tuple[None, Any]:
        return None, self.lm.start(len(encoded))

    def step(self, memory: None, state: Any, labels: Tensor) -> tuple[Tensor, Any]:
        log_probs, state = self.lm.step(state, labels)
        return log_probs.unsqueeze(0), state
