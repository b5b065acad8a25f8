"""Whisper's encoder: over its window of 30 seconds, or over an utterance alone."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SILENT = -1.5  # log-mel of digital silence, where nothing louder raises it
RANGE = 2.0  # from the loudest log-mel of an utterance to its floor


class WhisperEncoder(nn.Module):
    """Frozen. On a CPU one utterance at a time, so that nothing depends on a batch; it is no slower."""

    def __init__(self, module: Any):
        """module: a WhisperEncoder of transformers, or one with the same parts."""
        super().__init__()
        self.module = module.eval().requires_grad_(False)
        self.config = module.config
        self.states: int = module.config.max_source_positions  # of 30 s

    @property
    def device(self) -> torch.device:
        return next(self.module.parameters()).device

    def windows(self, mels: Sequence[Tensor]) -> Tensor:
        """The states of 30 s that begin with these frames; after them comes what silence looks like there.

        (T, F) each -> (B, states, D)
        """
        frames = 2 * self.states  # the encoder halves the rate
        floors = [max(float(mel.max()) - RANGE, SILENT) for mel in mels]
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

    def _states(self, inputs: Tensor) -> Tensor:
        """(B, F, T) -> (B, T', D)"""
        encoder = self.module
        states = functional.gelu(encoder.conv2(functional.gelu(encoder.conv1(inputs)))).transpose(1, 2)
        states = states + encoder.embed_positions.weight[: states.shape[1]]
        for layer in encoder.layers:
            states = layer(states, None)
        return encoder.layer_norm(states)
