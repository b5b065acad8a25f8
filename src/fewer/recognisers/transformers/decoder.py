"""The Transformer decoder of an encoder-decoder recogniser, from the weights of transformers' model.

It does not own its attention: what each layer's cross-attention block adds is asked of a `Cross`, and what its
self-attention sees of a `SelfAttention`. So teacher-forced passes, cached steps, the recogniser and its internal LMs
are one decoder. What differs between families is declared in `families.py`: where the weights are, and positions.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.compute.precision import Int8Linear, reduced
from fewer.errors import FewerError
from fewer.models.largest import largest

EXACT = 16  # best labels of a row whose logits are computed in float32, whatever the precision

Cross = Callable[[int, Tensor], Tensor]  # (layer, hidden (…, D)) -> what the cross-attention block adds, (…, D)
SelfAttention = Callable[[int, Tensor], Tensor]  # (layer, queries, keys and values (…, 3·W)) -> (…, W)


@dataclass(frozen=True)
class Layout:
    """What the modules of a decoder of pre-norm layers are called."""

    self_norm: str
    cross_norm: str
    feed_forward_norm: str
    out: str  # of an attention
    feed_forward: str  # module of fc1, activation_fn and fc2; "": the layer itself
    norm: str  # of the decoder


BART = Layout("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm", "out_proj", "", "layer_norm")
LLAMA = Layout("input_layernorm", "post_attention_layernorm", "final_layernorm", "o_proj", "mlp", "norm")


class Positions(NamedTuple):
    """How a decoder knows positions: a vector that is added to each embedding, or a rotation of queries and keys."""

    added: Tensor | None = None  # (positions, D)
    rotation: Tensor | None = None  # (2, positions, R): cosines and sines, by which the first R of a head are rotated


class Heard(NamedTuple):
    """What one layer's cross-attention keeps of the encoder states of some utterances, computed once."""

    keys: Tensor  # (B, heads, T, head)
    values: Tensor  # (B, heads, T, head)
    mask: Tensor | None = None  # (B, 1, 1, T) True where attention sees a state; None: it sees all


class DecoderLayer(nn.Module):
    """Pre-norm self-attention, cross-attention and feed-forward blocks. Queries carry the scale 1/√head.

    W = heads · head, which is D in most models.
    """

    def __init__(self, given: Any, layout: Layout):
        """given: a decoder layer of transformers. Its weights are copied, in float32."""
        super().__init__()
        attention, cross = given.self_attn, given.encoder_attn
        self.heads, self.head = attention.q_proj.out_features // attention.head_dim, attention.head_dim
        self.self_norm = _copied(getattr(given, layout.self_norm))
        self.self_qkv = _stacked(*_projections(attention))  # rows: all queries, all keys, all values
        self.self_out = _copied(getattr(attention, layout.out))
        self.cross_norm = _copied(getattr(given, layout.cross_norm))
        query, *key_value = _projections(cross)
        self.cross_query, self.cross_key_value = _stacked(query), _stacked(*key_value)
        self.cross_out = _copied(getattr(cross, layout.out))
        self.norm = _copied(getattr(given, layout.feed_forward_norm))
        feed_forward = getattr(given, layout.feed_forward) if layout.feed_forward else given
        self.inner, self.outer = _copied(feed_forward.fc1), _copied(feed_forward.fc2)
        self.activation = feed_forward.activation_fn
        self.gated = self.inner.out_features == 2 * self.outer.in_features
        self.kept_as = torch.float32  # type of keys and values of encoder states, which every step reads

    def hear(self, states: Tensor, mask: Tensor | None = None) -> Heard:
        """Keys and values of encoder states. (B, T, D)"""
        keys, values = self.cross_key_value(states).to(self.kept_as).chunk(2, dim=-1)
        return Heard(split_heads(keys, self.heads).contiguous(), split_heads(values, self.heads).contiguous(), mask)

    def attend(self, hidden: Tensor, heard: Sequence[Heard]) -> Tensor:
        """The cross-attention block at M positions of each utterance. heard: parts of the B. (B, M, D) -> (B, M, D)"""
        queries = split_heads(self.cross_query(self.cross_norm(hidden)), self.heads)
        parts = queries.to(self.kept_as).split([len(part.keys) for part in heard])
        attended = [
            functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask, scale=1.0)
            for query, (keys, values, mask) in zip(parts, heard, strict=True)
        ]
        return self.cross_out(join_heads(torch.cat(attended)).to(hidden.dtype))

    def hear_only(self, state: Tensor) -> Tensor:
        """What the block adds, whatever is asked, when there is only one encoder state. (…, D) -> (…, D)"""
        return self.cross_out(self.cross_key_value(state).chunk(2, dim=-1)[1])

    def feed_forward(self, hidden: Tensor) -> Tensor:
        inner = self.inner(self.norm(hidden))
        if not self.gated:
            return self.outer(self.activation(inner))
        values, gate = inner.chunk(2, dim=-1)
        return self.outer(self.activation(gate) * values)


class AttentionDecoder(nn.Module):
    """Token embedding, positions, layers, and the output, which may be tied to the token embedding."""

    added: Tensor | None
    rotation: Tensor | None

    def __init__(self, model: Any, layout: Layout, positions: Positions, scaled: bool = False):
        """model: a …ForConditionalGeneration of transformers, whose weights are copied, in float32; embeddings are
        shared with it. scaled: they are multiplied by its `embed_scale`."""
        super().__init__()
        given, output = model.model.decoder, model.get_output_embeddings()
        self.embedding = nn.Embedding.from_pretrained(given.embed_tokens.weight.detach().float())
        self.scale = float(given.embed_scale) if scaled else 1.0
        self.register_buffer("added", positions.added, persistent=False)
        self.register_buffer("rotation", positions.rotation, persistent=False)
        self.embedding_norm = _copied(getattr(given, "embedding_layernorm", nn.Identity()))
        layers = [DecoderLayer(layer, layout) for layer in given.layers]
        if not layers:
            raise FewerError("config.json describes a decoder without layers")
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = _copied(getattr(given, layout.norm))
        tied = output.weight is given.embed_tokens.weight
        shared = {id(output.weight): self.embedding.weight} if tied else {}
        self.output = copy.deepcopy(output, shared).float()
        self.rough: nn.Module | None = None  # the output layer in fewer bits
        self.vocab_size, self.size = self.output.out_features, self.embedding.embedding_dim
        self.heads, self.head = layers[0].heads, layers[0].head
        self.width = self.heads * self.head
        known = positions.added if positions.added is not None else positions.rotation
        assert known is not None
        self.positions = known.shape[-2]
        self.eval().requires_grad_(False)

    def hear_only(self, state: Tensor) -> Tensor:
        """What the blocks of all layers add when there is only one encoder state. (…, D) -> (…, layers · D)

        Where all encoder states are alike, so are all attention weights, and it is the same whatever is asked.
        """
        return torch.cat([layer.hear_only(state) for layer in self.layers], dim=-1)

    def embed(self, labels: Tensor) -> Tensor:
        """(…) -> (…, D), without positions"""
        embedded = self.embedding(labels)
        return embedded if self.scale == 1 else self.scale * embedded

    def placed(self, embedded: Tensor, place: int | slice) -> Tensor:
        """What the first layer reads of embeddings at these positions. (rows, D), or (B, N, D) -> the same"""
        return self.embedding_norm(embedded if self.added is None else embedded + self.added[place])

    def forward(self, hidden: Tensor, place: int | slice, self_attention: SelfAttention, cross: Cross) -> Tensor:
        """From placed embeddings to what the output layer reads. (rows, D), or (B, N, D) -> the same"""
        for index, layer in enumerate(self.layers):
            qkv = layer.self_qkv(layer.self_norm(hidden))
            attended = self_attention(index, qkv if self.rotation is None else self._rotated(qkv, place))
            hidden = hidden + layer.self_out(attended)
            hidden = hidden + cross(index, hidden)
            hidden = hidden + layer.feed_forward(hidden)
        return self.norm(hidden)

    def _rotated(self, qkv: Tensor, place: int | slice) -> Tensor:
        """Queries and keys rotated by their positions, each pair of neighbouring numbers in its plane. (…, 3·W)"""
        assert self.rotation is not None
        cosines, sines = self.rotation[:, place].unsqueeze(-2).unsqueeze(-2)  # (1, 1, R), or (N, 1, 1, R)
        parts = qkv.unflatten(-1, (3, self.heads, self.head)).clone()
        turned = parts[..., :2, :, : cosines.shape[-1]]
        across = torch.stack([-turned[..., 1::2], turned[..., ::2]], dim=-1).flatten(-2)
        parts[..., :2, :, : cosines.shape[-1]] = turned * cosines + across * sines
        return parts.flatten(-3)

    def teacher_forced(self, embedded: Tensor, cross: Cross) -> Tensor:
        """All positions from 0 on at once. (B, N, D) -> (B, N, D)"""
        if embedded.shape[1] > self.positions:
            raise FewerError(
                f"a text with its prompt has {embedded.shape[1]} labels, but this decoder reads at most "
                f"{self.positions}; cut it into shorter segments"
            )

        def causal(index: int, qkv: Tensor) -> Tensor:
            queries, keys, values = (split_heads(part, self.heads) for part in qkv.chunk(3, dim=-1))
            attended = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, scale=1.0)
            return join_heads(attended)

        place = slice(0, embedded.shape[1])
        return self(self.placed(embedded, place), place, causal, cross)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, V)"""
        return self.output(hidden)

    def next_logits(self, hidden: Tensor) -> Tensor:
        """The same for a search. In fewer bits, only labels that hardly matter differ. (…, D) -> (…, V)"""
        if self.rough is None:
            return self.output(hidden)
        logits: Tensor = self.rough(hidden)
        _, best = largest(logits, min(EXACT, self.vocab_size))  # (…, EXACT)
        exact = (self.output.weight[best] @ hidden.unsqueeze(-1)).squeeze(-1)
        if self.output.bias is not None:
            exact += self.output.bias[best]
        return logits.scatter_(-1, best, exact)

    def for_search(self, precision: str) -> "AttentionDecoder":
        """In 8 bits, another that shares what stays exact with this one, which can be differentiated; else itself."""
        if precision != "int8":
            return self
        shared = [*self.parameters(), *self.buffers()]
        quick = copy.deepcopy(self, {id(tensor): tensor for tensor in shared})
        for layer in quick.layers:
            reduced(layer, precision)
            layer.kept_as = torch.bfloat16  # half the memory to read
        quick.rough = Int8Linear(self.output)
        return quick


def split_heads(values: Tensor, heads: int) -> Tensor:
    """(B, N, W) -> (B, heads, N, head)"""
    return values.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(values: Tensor) -> Tensor:
    """(B, heads, N, head) -> (B, N, W)"""
    return values.transpose(1, 2).flatten(2)


def _copied(module: Any) -> Any:
    return copy.deepcopy(module).float()


def _projections(attention: Any) -> list[nn.Linear]:
    """Of queries, which take up the scale, keys and values; those of shared heads once for each head of the queries."""
    query, key, value = (_copied(getattr(attention, name)) for name in ("q_proj", "k_proj", "v_proj"))
    with torch.no_grad():
        for parameter in query.parameters():
            parameter.mul_(attention.head_dim**-0.5)
    return [query, *(_repeated(part, attention.head_dim, query.out_features) for part in (key, value))]


def _repeated(linear: nn.Linear, head: int, size: int) -> nn.Linear:
    """Each head several times, so that there are `size` outputs."""
    if linear.out_features != size:
        rows = torch.arange(linear.out_features).view(-1, 1, head).expand(-1, size // linear.out_features, -1).flatten()
        linear.weight = nn.Parameter(linear.weight.detach()[rows])
        linear.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach()[rows])
        linear.out_features = size
    return linear


def _stacked(*linears: nn.Linear) -> nn.Linear:
    """One layer for several with the same input; a missing bias is zero."""
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases: list[Tensor] = [
        weight.new_zeros(linear.out_features) if linear.bias is None else linear.bias for linear in linears
    ]
    stacked = nn.Linear(weight.shape[1], weight.shape[0], device=weight.device)
    with torch.no_grad():
        stacked.weight.copy_(weight)
        stacked.bias.copy_(torch.cat(biases))
    return stacked
