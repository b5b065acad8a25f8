"""SpecAugment with the paper's schedules: random stretches of time and frequency are set to zero, the mean.

All randomness comes from the generator that is passed in, so that resuming needs no state.
"""

from typing import Literal

import numpy as np
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from fewer.config import Config


class SpecAugmentConfig(Config):
    """How many stretches are masked, and how wide."""

    schedule: Literal["librispeech", "switchboard"] = "librispeech"  # constant, or growing twice with the steps
    time_size: PositiveInt = 20  # frames of the widest time mask
    frequency_size: PositiveInt = 8  # bins of the widest frequency mask
    frames_per_mask: PositiveInt = 100  # one more time mask is possible for each so many frames
    onset: tuple[NonNegativeInt, NonNegativeInt] = (1000, 2000)  # steps at which `switchboard` grows


class SpecAugment:
    """Masks one utterance's normalised features at a time, so that padding does not count."""

    def __init__(self, config: SpecAugmentConfig):
        self.config = config

    def __call__(self, features: Tensor, rng: np.random.Generator, step: int) -> Tensor:
        """A masked copy; `step` is the number of optimiser steps before this one. (T, F) -> (T, F)"""
        frames, bins = features.shape
        time, frequency = mask_counts(self.config, frames, step)
        masked = features.clone()
        for start, end in draw_masks(frames, *time, self.config.time_size, rng):
            masked[start:end] = 0
        for start, end in draw_masks(bins, *frequency, self.config.frequency_size, rng):
            masked[:, start:end] = 0
        return masked


def mask_counts(config: SpecAugmentConfig, frames: int, step: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Fewest and most masks over time, and over frequency."""
    full = frames // config.frames_per_mask
    if config.schedule == "librispeech":
        return (1, max(full, 1)), (1, 2)
    a, b = (int(step >= onset) for onset in config.onset)
    return (a + b, max(full, 2) * (1 + a + 2 * b)), (a + b, 2 + a + 2 * b)


def draw_masks(length: int, fewest: int, most: int, size: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Masks [start, end) with different starts and 1 to `size` wide, unless the end of the axis cuts them off."""
    count = min(int(rng.integers(fewest, most + 1)), length)
    starts = rng.choice(length, size=count, replace=False)
    widths = rng.integers(1, size + 1, size=count)
    return [(int(start), min(int(start + width), length)) for start, width in zip(starts, widths, strict=True)]
