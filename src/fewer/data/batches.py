"""Training batches of utterances: planned by padded frames, curriculum and speed, loaded by number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fewer.config import Config
from fewer.data.manifest import Manifest
from fewer.data.plan import Items, Plan, PlanConfig, make_plan, mixed
from fewer.data.reading import Batches
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.progress import warn

SHOWN = 10  # utterances that a message names


@dataclass(frozen=True)
class Batch:
    """Utterances with their transcripts."""

    ids: list[str]
    features: Tensor  # (B, T, F) float32, padded with zeros
    feature_lengths: Tensor  # (B,) int64
    labels: Tensor  # (B, N) int64, each transcript closed by the end label, padded with 0
    label_lengths: Tensor  # (B,) int64, the end label counted

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class TextBatch:
    """Sentences, or equal pieces of a text."""

    ids: list[str]
    labels: Tensor  # (B, N) int64, each sentence closed by the end label, padded with 0
    label_lengths: Tensor  # (B,) int64, the end label counted

    def __len__(self) -> int:
        return len(self.ids)


class CurriculumRule(Config):
    """What some sub-epochs leave out. All rules that cover a sub-epoch hold, in the order given."""

    first: int = Field(1, ge=1)  # sub-epoch from which …
    last: int = Field(ge=1)  # … to which it holds, both included
    subsets: str | None = None  # keep utterances whose custom["subset"] contains this regular expression
    ids: str | None = None  # keep utterances whose id contains this regular expression
    max_mean_chars: float | None = Field(None, gt=0)  # keep the shortest transcripts, at most so long on average


class UtteranceConfig(PlanConfig):
    """How utterances become batches. Sizes are in feature frames."""

    max_duration: float | None = Field(None, gt=0)  # seconds; longer utterances are an error, or skipped with skip_long
    speeds: tuple[float, ...] = (1.0,)  # speed perturbation, such as (0.9, 1.0, 1.1)
    speed_mode: Literal["copies", "random"] = "copies"  # each utterance at every speed, or at a random one each time
    curriculum: tuple[CurriculumRule, ...] = ()
    allow_unknown: bool = False  # transcripts may hold the unknown label

    @model_validator(mode="after")
    def _speeds_make_sense(self) -> "UtteranceConfig":
        if not self.speeds or min(self.speeds) <= 0:
            raise ValueError("speeds must be a list of positive numbers")
        return self


class Features(Protocol):
    """What reads features, such as `fewer.data.reader.FeatureReader`."""

    @property
    def dim(self) -> int:
        """F"""
        ...

    @property
    def frame_shift(self) -> float:
        """Seconds from one frame to the next."""
        ...

    def read(self, cut: Any, speed: float = 1.0) -> Tensor:
        """(T, F) float32"""
        ...


class Augment(Protocol):
    """What changes features in training, such as `fewer.data.augment.SpecAugment`."""

    def __call__(self, features: Tensor, rng: np.random.Generator, step: int) -> Tensor:
        """(T, F) -> (T, F); `step` is the number of optimiser steps before this one."""
        ...


class UtteranceBatches(Batches[Batch]):
    """The utterances of a manifest as batches.

    An item is an utterance at a speed: with n speeds as copies, item i is utterance i // n at speed i % n.
    """

    def __init__(
        self,
        manifest: Manifest,
        features: Features,
        tokenizer: Tokenizer | None,
        config: UtteranceConfig,
        seed: int = 1,
        augment: Augment | None = None,
    ):
        """tokenizer: None for audio without transcripts; the batches' labels are then (B, 0)."""
        self.manifest, self.features, self.tokenizer = manifest, features, tokenizer
        self.config, self.seed, self.augment = config, seed, augment
        self.copies = len(config.speeds) if config.speed_mode == "copies" else 1
        self.matches = {
            (field, pattern): match(pattern)
            for rule in config.curriculum
            for field, pattern, match in (
                ("subsets", rule.subsets, manifest.subset_matches),
                ("ids", rule.ids, manifest.id_matches),
            )
            if pattern is not None
        }
        self._check_lengths()

    def plan(self, sub_epoch: int) -> Plan:
        return make_plan(
            self.config,
            self.seed,
            sub_epoch,
            count=len(self.manifest) * self.copies,
            lengths=lambda items: self.frames(items, sub_epoch),
            keep=lambda items: self._keep(items, sub_epoch),
        )

    def load(self, items: Items, sub_epoch: int, step: int = 0) -> Batch:
        ids, features, labels = [], [], []
        for item, speed in zip(items.tolist(), self.speeds(items, sub_epoch).tolist(), strict=True):
            cut = self.manifest[item // self.copies]
            ids.append(cut.id)
            features.append(self._read(cut, speed, np.random.default_rng((self.seed, sub_epoch, item)), step))
            labels.append(self._labels(cut))
        padded_features, feature_lengths = pad(features, empty=torch.zeros(0, self.features.dim))
        return Batch(ids, padded_features, feature_lengths, *pad(labels, empty=torch.zeros(0, dtype=torch.long)))

    def frames(self, items: Items, sub_epoch: int) -> np.ndarray:
        """Frames of each item by its duration and speed; features may have one or two more or fewer."""
        durations = self.manifest.durations[items // self.copies].astype(np.float64)
        frames = np.rint(durations / self.speeds(items, sub_epoch) / self.features.frame_shift)
        return np.maximum(frames, 1).astype(np.int64)

    def speeds(self, items: Items, sub_epoch: int) -> np.ndarray:
        """The speed of each item in a sub-epoch. (n,) float64"""
        speeds = np.array(self.config.speeds)
        if self.config.speed_mode == "copies":
            return speeds[items % self.copies]
        (key,) = np.random.SeedSequence((self.seed, sub_epoch)).generate_state(1, np.uint64)
        return speeds[mixed(items, key) % np.uint64(len(speeds))]

    def _keep(self, items: Items, sub_epoch: int) -> Items:
        """What a sub-epoch sees of its share."""
        if self.config.max_duration is not None:
            items = items[self.manifest.durations[items // self.copies] <= self.config.max_duration]
        for rule in self.config.curriculum:
            if not rule.first <= sub_epoch <= rule.last:
                continue
            for field, pattern in (("subsets", rule.subsets), ("ids", rule.ids)):
                if pattern is not None:
                    items = items[self.matches[field, pattern][items // self.copies]]
            if rule.max_mean_chars is not None:
                items = shortest(items, self.manifest.text_chars[items // self.copies], rule.max_mean_chars)
        return items

    def _read(self, cut: Any, speed: float, rng: np.random.Generator, step: int) -> Tensor:
        features = self.features.read(cut, speed)
        if features.ndim != 2 or features.shape[1] != self.features.dim or not len(features):
            expected = f"expected (frames, {self.features.dim})"
            raise FewerError(f"utterance {cut.id}: features have shape {tuple(features.shape)}, {expected}")
        return features.float() if self.augment is None else self.augment(features.float(), rng, step)

    def _labels(self, cut: Any) -> Tensor:
        if self.tokenizer is None:
            return torch.zeros(0, dtype=torch.long)
        text = cut.supervisions[0].text
        try:
            ids = self.tokenizer.encode(text)
        except FewerError as error:
            raise FewerError(f"utterance {cut.id}: {error}") from error
        if self.tokenizer.unknown in ids and not self.config.allow_unknown:
            raise FewerError(
                f"utterance {cut.id}: the transcript holds what the vocabulary lacks: {text!r:.200}; "
                "use a tokenizer of this text, or set allow_unknown"
            )
        return torch.tensor([*ids, self.tokenizer.end])

    def _check_lengths(self) -> None:
        """Name utterances that are too long for a batch (at the lowest speed) or for max_duration."""
        limit = min([self.config.max_size, *self.config.max_size_from.values()])
        slowest = self.features.frame_shift * min(self.config.speeds)
        seconds = min(limit * slowest, self.config.max_duration or np.inf)
        count, named = 0, list[str]()
        for first in range(0, len(self.manifest), 1 << 16):
            durations = self.manifest.durations[first : first + (1 << 16)]
            long = (np.rint(durations.astype(np.float64) / slowest) > limit) | (
                durations > (self.config.max_duration or np.inf)
            )
            count += int(long.sum())
            for index in (first + np.flatnonzero(long)[: SHOWN - len(named)]).tolist():
                named.append(f"{self.manifest.id(index)} ({self.manifest.durations[index]:.2f} s)")
        if not count:
            return
        more = f" and {count - len(named)} more" if count > len(named) else ""
        message = f"{self.manifest.path}: {count} utterances are longer than {seconds:g} s: {', '.join(named)}{more}"
        if not self.config.skip_long:
            raise FewerError(f"{message}; raise max_size or max_duration, or leave them out with skip_long")
        warn(f"{message}: left out where a batch cannot hold them")


def shortest(items: Items, sizes: np.ndarray, mean: float) -> Items:
    """As many of the smallest items as have at most this mean size, in their order."""
    order = np.argsort(sizes, kind="stable")
    means = np.cumsum(sizes[order], dtype=np.int64) / np.arange(1, len(items) + 1)
    return items[np.sort(order[: np.searchsorted(means, mean, side="right")])]


def pad(sequences: Sequence[Tensor], empty: Tensor) -> tuple[Tensor, Tensor]:
    """Sequences (T_b, …) as one tensor (B, T, …) padded with zeros, and their lengths (B,); `empty`: of length 0."""
    lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.long)
    return (pad_sequence(list(sequences), batch_first=True) if len(sequences) else empty[None][:0]), lengths
