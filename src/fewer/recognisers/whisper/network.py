"""Whisper's network, read from its files without transformers, which takes longer to import than a short file takes.

The parts have the names that transformers gives them, so files, fingerprints and the decoder's facts are the same.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from fewer.data.whisper_checks import MODEL_FIELDS, check_model
from fewer.files import read_json_object

CONFIG, GENERATION, WEIGHTS = "config.json", "generation_config.json", "model.safetensors"
NAMED = ("suppress_tokens", "begin_suppress_tokens", "alignment_heads")  # in generation_config.json, or None
TIED, EMBEDDING = "proj_out.weight", "model.decoder.embed_tokens.weight"


class Attention(nn.Module):
    def __init__(self, size: int, heads: int):
        super().__init__()
        self.heads, self.head_dim = heads, size // heads
        self.q_proj, self.v_proj, self.out_proj = (nn.Linear(size, size) for _ in range(3))
        self.k_proj = nn.Linear(size, size, bias=False)

    def forward(self, states: Tensor, bias: Tensor | None = None) -> Tensor:
        """Of all to all. bias: of each state. (B, T, D), (1, 1, 1, T) -> (B, T, D)"""
        parts = (self.q_proj(states) * self.head_dim**-0.5, self.k_proj(states), self.v_proj(states))
        queries, keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        attended = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias, scale=1.0)
        return self.out_proj(attended.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, size: int, heads: int, inner: int, cross: bool):
        """cross: of the decoder, which also attends to the encoder."""
        super().__init__()
        self.self_attn, self.self_attn_layer_norm = Attention(size, heads), nn.LayerNorm(size)
        if cross:
            self.encoder_attn, self.encoder_attn_layer_norm = Attention(size, heads), nn.LayerNorm(size)
        self.fc1, self.fc2, self.activation_fn = nn.Linear(size, inner), nn.Linear(inner, size), nn.GELU()
        self.final_layer_norm = nn.LayerNorm(size)

    def forward(self, states: Tensor, bias: Tensor | None = None) -> Tensor:
        """Of the encoder. bias: of each state, for attention. (B, T, D), (1, 1, 1, T) -> (B, T, D)"""
        states = states + self.self_attn(self.self_attn_layer_norm(states), bias)
        states = states + self.fc2(self.activation_fn(self.fc1(self.final_layer_norm(states))))
        if states.dtype == torch.float16:
            most = torch.finfo(states.dtype).max - 1000
            states = states.clamp(-most, most)
        return states


class Encoder(nn.Module):
    """Run by `fewer.data.whisper_encoder`."""

    def __init__(self, config: Any):
        super().__init__()
        size = config.d_model
        self.config = config
        self.conv1 = nn.Conv1d(config.num_mel_bins, size, kernel_size=3, padding=1)
        self.conv2 = nn.Conv1d(size, size, kernel_size=3, stride=2, padding=1)
        self.embed_positions = _table(config.max_source_positions, size)
        options = size, config.encoder_attention_heads, config.encoder_ffn_dim, False
        self.layers = nn.ModuleList(Layer(*options) for _ in range(config.encoder_layers))
        self.layer_norm = nn.LayerNorm(size)


class Decoder(nn.Module):
    """Weights only; `AttentionDecoder` runs them."""

    def __init__(self, config: Any):
        super().__init__()
        size = config.d_model
        self.embed_tokens = _table(config.vocab_size, size)
        self.embed_positions = _table(config.max_target_positions, size)
        options = size, config.decoder_attention_heads, config.decoder_ffn_dim, True
        self.layers = nn.ModuleList(Layer(*options) for _ in range(config.decoder_layers))
        self.layer_norm = nn.LayerNorm(size)


class Parts(nn.Module):
    def __init__(self, config: Any):
        super().__init__()
        self.encoder, self.decoder = Encoder(config), Decoder(config)


class Whisper(nn.Module):
    """What fewer asks of a WhisperForConditionalGeneration."""

    def __init__(self, config: Any, generation_config: Any):
        super().__init__()
        self.config, self.generation_config = config, generation_config
        self.model = Parts(config)
        self.proj_out = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def get_encoder(self) -> nn.Module:
        return self.model.encoder

    def get_output_embeddings(self) -> nn.Linear:
        return self.proj_out


def read_whisper(folder: Path) -> Whisper | None:
    """The Whisper of a folder, in float32; None if its files are not the usual ones, which transformers may know."""
    if not all((folder / name).is_file() for name in (CONFIG, GENERATION, WEIGHTS)):
        return None
    config = read_json_object(folder / CONFIG)
    if not config.keys() >= MODEL_FIELDS or config.get("activation_function") != "gelu":
        return None
    about = SimpleNamespace(**config)
    check_model(about, str(folder))
    if about.d_model % about.encoder_attention_heads or about.d_model % about.decoder_attention_heads:
        return None
    generation = SimpleNamespace(**(dict.fromkeys(NAMED) | read_json_object(folder / GENERATION)))
    try:
        weights = load_file(folder / WEIGHTS)
    except Exception:  # transformers says what is wrong with it
        return None
    weights.setdefault(TIED, weights.get(EMBEDDING, torch.zeros(0)))
    with torch.device("meta"):
        whisper = Whisper(about, generation)
    if {name: tensor.shape for name, tensor in whisper.state_dict().items()} != {
        name: tensor.shape for name, tensor in weights.items()
    }:
        return None
    numbers = {name: tensor.float() for name, tensor in weights.items() if name != TIED}
    whisper.load_state_dict(numbers | {TIED: numbers[EMBEDDING]}, assign=True)
    whisper.proj_out.weight = whisper.model.decoder.embed_tokens.weight
    return whisper.eval().requires_grad_(False)


def _table(rows: int, size: int) -> nn.Embedding:
    """One that is not filled, which would import half of torch's compiler."""
    return nn.Embedding.from_pretrained(torch.empty(rows, size))
