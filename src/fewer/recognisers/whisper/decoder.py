"""Whisper's Transformer decoder, from the weights of transformers' model.

It does not own its attention: what each layer's cross-attention block adds is asked of a `Cross`, and what its
self-attention sees of a `SelfAttention`. So teacher-forced passes, cached steps, the recogniser and its internal LMs
are one decoder.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.errors import FewerError

Cross = Callable[[int, Tensor], Tensor]  # (layer, hidden (…, D)) -> what the cross-attention block adds, (…, D)
SelfAttention = Callable[[int, Tensor], Tensor]  # (layer, queries, keys and values (…, 3·D)) -> (…, D)


class Heard(NamedTuple):
    """What one layer's cross-attention keeps of the encoder states of some utterances, computed once."""

    keys: Tensor  # (B, heads, T, head)
    values: Tensor  # (B, heads, T, head)


class DecoderLayer(nn.Module):
    """Pre-norm self-attention, cross-attention and feed-forward blocks. Queries carry the scale 1/√head."""

    def __init__(self, size: int, heads: int, inner: int):
        super().__init__()
        self.heads = heads
        self.self_norm = nn.LayerNorm(size)
        self.self_qkv = nn.Linear(size, 3 * size)  # rows: all queries, all keys, all values
        self.self_out = nn.Linear(size, size)
        self.cross_norm = nn.LayerNorm(size)
        self.cross_query = nn.Linear(size, size)
        self.cross_key_value = nn.Linear(size, 2 * size)
        self.cross_out = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.inner = nn.Linear(size, inner)
        self.outer = nn.Linear(inner, size)

    def hear(self, states: Tensor) -> Heard:
        """Keys and values of encoder states. (B, T, D)"""
        keys, values = self.cross_key_value(states).chunk(2, dim=-1)
        return Heard(split_heads(keys, self.heads).contiguous(), split_heads(values, self.heads).contiguous())

    def attend(self, hidden: Tensor, heard: Sequence[Heard]) -> Tensor:
        """The cross-attention block at M positions of each utterance. heard: parts of the B. (B, M, D) -> (B, M, D)"""
        queries = split_heads(self.cross_query(self.cross_norm(hidden)), self.heads)
        attended = [
            functional.scaled_dot_product_attention(query, keys, values, scale=1.0)
            for query, (keys, values) in zip(queries.split([len(part.keys) for part in heard]), heard, strict=True)
        ]
        return self.cross_out(join_heads(torch.cat(attended)))

    def hear_only(self, state: Tensor) -> Tensor:
        """What the block adds, whatever is asked, when there is only one encoder state. (…, D) -> (…, D)"""
        return self.cross_out(self.cross_key_value(state).chunk(2, dim=-1)[1])

    def feed_forward(self, hidden: Tensor) -> Tensor:
        return self.outer(functional.gelu(self.inner(self.norm(hidden))))


class WhisperDecoder(nn.Module):
    """Token and position embeddings, layers, and the output tied to the token embedding."""

    def __init__(self, vocab_size: int, size: int, layers: int, heads: int, inner: int, positions: int):
        super().__init__()
        self.vocab_size, self.size, self.heads, self.positions = vocab_size, size, heads, positions
        self.embedding = nn.Embedding(vocab_size, size)
        self.position = nn.Parameter(torch.empty(positions, size))
        self.layers: Sequence[DecoderLayer] = nn.ModuleList(  # type: ignore[assignment]
            [DecoderLayer(size, heads, inner) for _ in range(layers)]
        )
        self.norm = nn.LayerNorm(size)

    @classmethod
    def from_transformers(cls, model: Any) -> "WhisperDecoder":
        """A copy, in float32, of the decoder of a WhisperForConditionalGeneration."""
        config, source = model.config, model.get_decoder()
        sizes = (config.d_model, config.decoder_layers, config.decoder_attention_heads, config.decoder_ffn_dim)
        with torch.no_grad():
            decoder = cls(config.vocab_size, *sizes, config.max_target_positions)
            decoder.embedding.weight.copy_(model.get_output_embeddings().weight)
            decoder.position.copy_(source.embed_positions.weight)
            decoder.norm.load_state_dict(source.layer_norm.state_dict())
            for layer, given in zip(decoder.layers, source.layers, strict=True):
                _copy_layer(layer, given)
        return decoder.eval().requires_grad_(False)

    def hear_only(self, state: Tensor) -> Tensor:
        """What the blocks of all layers add when there is only one encoder state. (…, D) -> (…, layers · D)

        Where all encoder states are alike, so are all attention weights, and it is the same whatever is asked.
        """
        return torch.cat([layer.hear_only(state) for layer in self.layers], dim=-1)

    def embed(self, labels: Tensor) -> Tensor:
        """(…) -> (…, D), without positions"""
        return self.embedding(labels)

    def forward(self, hidden: Tensor, self_attention: SelfAttention, cross: Cross) -> Tensor:
        """From embeddings with positions to what the output layer reads. (…, D) -> (…, D)"""
        for index, layer in enumerate(self.layers):
            attended = self_attention(index, layer.self_qkv(layer.self_norm(hidden)))
            hidden = hidden + layer.self_out(attended)
            hidden = hidden + cross(index, hidden)
            hidden = hidden + layer.feed_forward(hidden)
        return self.norm(hidden)

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

        return self(embedded + self.position[: embedded.shape[1]], causal, cross)

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, V)"""
        return functional.linear(hidden, self.embedding.weight)


def split_heads(values: Tensor, heads: int) -> Tensor:
    """(B, N, D) -> (B, heads, N, head)"""
    return values.unflatten(-1, (heads, -1)).transpose(1, 2)


def join_heads(values: Tensor) -> Tensor:
    """(B, heads, N, head) -> (B, N, D)"""
    return values.transpose(1, 2).flatten(2)


def _copy_layer(layer: DecoderLayer, given: Any) -> None:
    """Put the weights of a WhisperDecoderLayer into ours: keys have no bias, queries take up the scale."""
    attention, cross = given.self_attn, given.encoder_attn
    scale = (attention.embed_dim // attention.num_heads) ** -0.5
    no_bias = torch.zeros_like(attention.q_proj.bias)
    parts = (scale * attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight)
    layer.self_qkv.weight.copy_(torch.cat(parts))
    layer.self_qkv.bias.copy_(torch.cat([scale * attention.q_proj.bias, no_bias, attention.v_proj.bias]))
    layer.cross_query.weight.copy_(scale * cross.q_proj.weight)
    layer.cross_query.bias.copy_(scale * cross.q_proj.bias)
    layer.cross_key_value.weight.copy_(torch.cat([cross.k_proj.weight, cross.v_proj.weight]))
    layer.cross_key_value.bias.copy_(torch.cat([no_bias, cross.v_proj.bias]))
    for ours, theirs in (
        (layer.self_norm, given.self_attn_layer_norm),
        (layer.self_out, attention.out_proj),
        (layer.cross_norm, given.encoder_attn_layer_norm),
        (layer.cross_out, cross.out_proj),
        (layer.norm, given.final_layer_norm),
        (layer.inner, given.fc1),
        (layer.outer, given.fc2),
    ):
        ours.load_state_dict(theirs.state_dict())
