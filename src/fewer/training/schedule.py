"""The learning rate of each sub-epoch: a linear warm-up, then newbob decay (SPEC §2, §3).

The rate is a function of the configuration and of the finished sub-epochs, so there is no state to save.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from pydantic import Field, model_validator

from fewer.config import Config


class NewbobConfig(Config):
    decay: float = Field(default=0.9, gt=0, lt=1)  # the rate is multiplied by it: 0.9 (LibriSpeech), 0.7 (Switchboard)
    window: int = Field(default=20, ge=1)  # relative changes averaged: 20 (LibriSpeech), 6 (Switchboard)
    threshold: float = -0.01  # a mean change above it (too little improvement) decays the rate
    hold: int = Field(default=3, ge=1)  # sub-epochs at one rate before it may change
    floor: float = Field(default=1 / 50, ge=0, le=1)  # smallest rate, as a share of the peak
    # Which dev number is watched; of CTC while the encoder comes first. smoothed: of smoothed targets (recognisers).
    measure: Literal["ce", "perplexity", "smoothed"] = "ce"
    change: Literal["of_new", "of_old", "absolute"] = "of_new"  # as a share of the new or of the old number, or neither
    relative_to_rate: bool = True  # a smaller rate is expected to improve less: divide the change by rate / peak


class ScheduleConfig(Config):
    peak: float = Field(gt=0)  # lr_max
    warm_up_from: float | None = Field(default=None, gt=0)  # rate of sub-epoch 1; None: the peak
    warm_up: int = Field(default=0, ge=0)  # sub-epochs from `warm_up_from` to the peak, both included
    newbob: NewbobConfig | None = None  # None: the rate stays at the peak

    @model_validator(mode="after")
    def _warm_up_is_whole(self) -> "ScheduleConfig":
        if (self.warm_up > 0) != (self.warm_up_from is not None):
            raise ValueError("warm_up and warm_up_from come together")
        return self


@dataclass(frozen=True)
class Finished:
    """What the schedule needs to know of a finished sub-epoch."""

    rate: float
    loss: float  # per label on the dev set
    kind: str = "ce"  # of that loss; losses of two kinds say nothing about each other

    def measure(self, name: str) -> float:
        return math.exp(min(self.loss, 700.0)) if name == "perplexity" else self.loss


def learning_rate(config: ScheduleConfig, history: Sequence[Finished]) -> float:
    """The rate of the sub-epoch that follows those of `history`."""
    index = len(history)
    if index < config.warm_up and config.warm_up_from is not None:
        share = index / (config.warm_up - 1) if config.warm_up > 1 else 1.0
        return config.warm_up_from + share * (config.peak - config.warm_up_from)
    if not history:
        return config.peak
    rate = history[-1].rate
    return rate if config.newbob is None else _newbob(config.newbob, config.peak, history, rate)


def _newbob(config: NewbobConfig, peak: float, history: Sequence[Finished], rate: float) -> float:
    last = [finished.rate for finished in history[-config.hold :]]
    if len(last) < config.hold or len(set(last)) > 1:
        return rate
    alike = [finished for finished in history if finished.kind == history[-1].kind]
    changes = relative_changes(config, peak, alike)[-config.window :]
    if not changes or sum(changes) / len(changes) <= config.threshold:
        return rate
    return max(rate * config.decay, config.floor * peak)


def relative_changes(config: NewbobConfig, peak: float, history: Sequence[Finished]) -> list[float]:
    """e_k = ((L_k − L_{k−1})/|L_k|)/(lr_k/lr_max) of every sub-epoch k from the second on, with `change: of_new`."""
    changes = []
    for before, after in pairwise(history):
        old, new = before.measure(config.measure), after.measure(config.measure)
        base = {"of_new": abs(new), "of_old": abs(old), "absolute": 1.0}[config.change]
        change = (new - old) / base if base else 0.0
        changes.append(change / (after.rate / peak) if config.relative_to_rate else change)
    return changes
