"""Whisper's encoder: over its window of 30 seconds, or over an utterance alone."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SILENT = -1.5  # log-mel of digital silence, where nothing louder raises it
RANGE = 2.0  # from the loudest log-mel of an utterance to its floor
MARGIN = 50  # states behind the speech that are computed one by one; conv layers reach over two of them


class WhisperEncoder(nn.Module):
    """Frozen. On a CPU one utterance at a time, so that nothing depends on a batch; it is no slower."""

    def __init__(self, module: Any, merged: int = 1):
        """module: a WhisperEncoder of transformers, or one with the same parts. merged: how many states of the silence
        behind an utterance are computed as one, which is faster and not quite the same (`_merged`)."""
        super().__init__()
        self.module = module.eval().requires_grad_(False)
        self.config = module.config
        self.states: int = module.config.max_source_positions  # of 30 s
        self.merged = merged

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def windows(self, mels: Sequence[Tensor]) -> Tensor:
        """The states of 30 s that begin with these frames; after them comes what silence looks like there.

        (T, F) each -> (B, states, D)
        """
        floors = [max(float(mel.max()) - RANGE, SILENT) for mel in mels]
        if self.merged > 1:
            return torch.stack([self._merged(mel, floor) for mel, floor in zip(mels, floors, strict=True)]).float()
        frames = 2 * self.states  # the encoder halves the rate
        padded = torch.stack(
            [
                functional.pad(mel.T, (0, frames - len(mel)), value=floor)
                for mel, floor in zip(mels, floors, strict=True)
            ]
        )  # (B, F, frames)
        padded = padded.to(self.device, self.module.conv1.weight.dtype)
        parts = padded.split(1) if self.device.type == "cpu" else [padded]
        return torch.cat([self._states(part) for part in parts]).float()

    def alone(self, mel: Tensor) -> Tensor:
        """The states of these frames alone: faster, though it was trained on 30 s. (T, F) -> (T', D)"""
        return self._states(mel.T[None].to(self.device))[0]

    def _merged(self, mel: Tensor, floor: float) -> Tensor:
        """The states of 30 s, where those of the silence behind the speech are computed in groups: a group has the mean
        of its positions, and as much of the others' attention as its states together. (T, F) -> (states, D)"""
        single = min((len(mel) + 1) // 2 + MARGIN, self.states)
        groups = (self.states - single) // self.merged
        single = self.states - groups * self.merged
        frames = min(2 * single + 2, 2 * self.states)  # without the edge of what is padded here
        padded = functional.pad(mel.T, (0, max(frames - len(mel), 0)), value=floor)
        inputs = self._convolved(padded[None].to(self.device, self.module.conv1.weight.dtype))[:, :single]
        positions = self.module.embed_positions.weight
        if not groups:
            return self._layers(inputs + positions)[0]
        silence = positions[single:].unflatten(0, (groups, self.merged)).mean(1) + inputs[:, -1:]
        states = torch.cat([inputs + positions[:single], silence], dim=1)  # (1, single + groups, D)
        bias = states.new_zeros(1, 1, 1, states.shape[1])
        bias[..., single:] = math.log(self.merged)
        states = self._layers(states, bias)[0]
        return torch.cat([states[:single], states[single:].repeat_interleave(self.merged, dim=0)])

    def _states(self, inputs: Tensor) -> Tensor:
        """(B, F, T) -> (B, T', D)"""
        states = self._convolved(inputs)
        return self._layers(states + self.module.embed_positions.weight[: states.shape[1]])

    def _convolved(self, inputs: Tensor) -> Tensor:
        """(B, F, T) -> (B, T', D)"""
        encoder = self.module
        return functional.gelu(encoder.conv2(functional.gelu(encoder.conv1(inputs)))).transpose(1, 2)

    def _layers(self, states: Tensor, bias: Tensor | None = None) -> Tensor:
        """bias: added to what attention says of each state. (B, T', D), (1, 1, 1, T') -> (B, T', D)"""
        for layer in self.module.layers:
            states = layer(states, bias)
        return self.module.layer_norm(states)
