"""The encoder: two convolutions, BLSTM layers, max-pooling over time (SPEC §1).

With no filters and no layers it hands on its input, so that the states of a pretrained encoder can be its features.
Unlike the original's, its output for a sequence does not depend on the rest of the batch (SPEC §8).
"""

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn
from torch.nn import functional

from fewer.config import Config
from fewer.models.encoded import Encoded, length_mask
from fewer.models.lstm import BlstmLayer, glorot_


class EncoderConfig(Config):
    features: int = Field(default=40, ge=1)  # input dimension
    filters: int = Field(default=32, ge=0)  # of each 3×3 convolution; 0: no convolutions
    layers: int = Field(default=6, ge=0)  # BLSTM layers; 0: none
    size: int = Field(default=1024, ge=1)  # units per direction
    input_pool: int = Field(default=1, ge=1)  # max-pooling over time before layer 1; 1 in the paper, more is faster
    input_stack: int = Field(
        default=1, ge=1
    )  # frames joined into one before layer 1; as fast as pooling, loses nothing
    pools: tuple[int, ...] = (3, 2)  # max-pooling over time after layer 1, layer 2, …
    dropout: float = Field(default=0.3, ge=0, lt=1)  # on every BLSTM layer's input

    @field_validator("pools")
    @classmethod
    def _positive(cls, pools: tuple[int, ...]) -> tuple[int, ...]:
        if any(pool < 1 for pool in pools):
            raise ValueError("a pool is a whole number of frames from 1 on")
        return pools

    @model_validator(mode="after")
    def _something_is_left_of_the_features(self) -> "EncoderConfig":
        if not self.convolved:
            raise ValueError(f"features: each convolution halves them, of {self.features} nothing is left")
        return self

    @property
    def output(self) -> int:
        """D_enc."""
        return 2 * self.size if self.layers else self.convolved * self.input_stack

    @property
    def convolved(self) -> int:
        """The convolutions' output dimension: frequency bins × filters."""
        return self.features // 2 // 2 * self.filters if self.filters else self.features

    @property
    def reduction(self) -> int:
        """Input frames per encoder frame."""
        factor = self.input_pool * self.input_stack
        for pool in self.pools[: self.layers]:
            factor *= pool
        return factor


class Encoder(nn.Module):
    """Feature frames -> h_1 … h_T."""

    def __init__(self, config: EncoderConfig):
        super().__init__()
        self.config = config
        self.convolutions = nn.ModuleList()
        if config.filters:
            self.convolutions.extend([_convolution(1, config.filters), _convolution(config.filters, config.filters)])
        sizes = [config.convolved * config.input_stack] + [2 * config.size] * config.layers
        self.layers = nn.ModuleList([BlstmLayer(inputs, config.size) for inputs in sizes[: config.layers]])
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> Encoded:
        """(B, T, F), (B,) -> Encoded"""
        hidden, lengths = max_pool_time(self.convolve(features, lengths), lengths, self.config.input_pool)
        hidden, lengths = stack_time(hidden, lengths, self.config.input_stack)
        for index, layer in enumerate(self.layers):
            hidden = layer(self.dropout(hidden), lengths)
            pool = self.config.pools[index] if index < len(self.config.pools) else 1
            hidden, lengths = max_pool_time(hidden, lengths, pool)
        return Encoded(hidden, lengths)

    def convolve(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, F) -> (B, T, bins·filters), bins major"""
        mask = length_mask(lengths, features.shape[1])
        # with the strides of channels_last, which a single channel leaves open: else pooling takes ten times as long
        hidden = (features * mask[:, :, None]).unsqueeze(-1).permute(0, 3, 1, 2)  # (B, filters, T, bins)
        for convolution in self.convolutions:
            hidden = functional.max_pool2d(convolution(hidden), (1, 2)) * mask[:, None, :, None]
        return hidden.permute(0, 2, 3, 1).flatten(2)


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, 3, padding=1)
    glorot_(layer.weight, 9 * inputs, 9 * outputs)
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    weight = layer.weight.detach().contiguous(memory_format=torch.channels_last)
    layer.weight = nn.Parameter(weight)  # whose order the results follow: less than half of the time on a CPU
    return layer


def stack_time(hidden: Tensor, lengths: Tensor, stack: int) -> tuple[Tensor, Tensor]:
    """Windows of `stack` frames, one behind the other, the last one filled up by zeros. (B, T, D) -> (B, ⌈T/n⌉, n·D)"""
    if stack == 1:
        return hidden, lengths
    hidden = hidden * length_mask(lengths, hidden.shape[1])[:, :, None]
    hidden = functional.pad(hidden, (0, 0, 0, -hidden.shape[1] % stack)).unflatten(1, (-1, stack)).flatten(2)
    return hidden, torch.div(lengths + stack - 1, stack, rounding_mode="floor")


def max_pool_time(hidden: Tensor, lengths: Tensor, pool: int) -> tuple[Tensor, Tensor]:
    """Max over windows of `pool` frames, the last one possibly shorter. (B, T, D) -> (B, ⌈T/pool⌉, D)"""
    if pool == 1:
        return hidden, lengths
    mask = length_mask(lengths, hidden.shape[1])
    hidden = hidden.masked_fill(~mask[:, :, None], float("-inf"))
    hidden = functional.pad(hidden, (0, 0, 0, -hidden.shape[1] % pool), value=float("-inf"))
    hidden = hidden.unflatten(1, (-1, pool)).amax(dim=2)
    lengths = torch.div(lengths + pool - 1, pool, rounding_mode="floor")
    return hidden.masked_fill(~length_mask(lengths, hidden.shape[1])[:, :, None], 0.0), lengths
