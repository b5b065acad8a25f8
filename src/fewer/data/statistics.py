"""Mean and deviation of features over a corpus, in one streaming pass, and the normalisation they serve."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from fewer.data.extractor import FeatureOptions
from fewer.errors import FewerError
from fewer.files import atomic_write

SMALLEST = 1e-5  # deviation below which a dimension counts as constant and becomes 0


@dataclass(frozen=True)
class Statistics:
    """Running count, mean and sum of squared differences from it; parts of a corpus merge exactly (Chan's formula)."""

    count: int  # frames
    mean: Tensor  # (F,) float64
    squares: Tensor  # (F,) float64

    @staticmethod
    def of(features: Tensor) -> "Statistics":
        """Statistics of one utterance. (T, F)"""
        features = features.double()
        mean = features.mean(0)
        return Statistics(len(features), mean, (features - mean).square().sum(0))

    @staticmethod
    def merge(parts: Iterable["Statistics"]) -> "Statistics":
        """Statistics of everything that the parts saw; at least one part."""
        parts = iter(parts)
        total = next(parts)
        for part in parts:
            total = total + part
        return total

    def __add__(self, other: "Statistics") -> "Statistics":
        count = self.count + other.count
        if count == 0:
            return self
        shift = other.mean - self.mean
        mean = self.mean + shift * (other.count / count)
        squares = self.squares + other.squares + shift.square() * (self.count * other.count / count)
        return Statistics(count, mean, squares)

    @staticmethod
    def empty(dim: int) -> "Statistics":
        return Statistics(0, torch.zeros(dim, dtype=torch.float64), torch.zeros(dim, dtype=torch.float64))

    @property
    def deviation(self) -> Tensor:
        """(F,) float64"""
        return (self.squares / max(self.count, 1)).sqrt()

    def gathered(self) -> "Statistics":
        """The same for all processes of a torch.distributed group together, if there is one."""
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return self
        device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
        mine = torch.cat([torch.tensor([self.count], dtype=torch.float64), self.mean, self.squares]).to(device)
        everyone = [torch.empty_like(mine) for _ in range(torch.distributed.get_world_size())]
        torch.distributed.all_gather(everyone, mine)
        dim = len(self.mean)
        rows = [row.cpu() for row in everyone]
        return Statistics.merge(Statistics(int(row[0]), row[1 : dim + 1], row[dim + 1 :]) for row in rows)

    def save(self, path: str | Path, features: FeatureOptions) -> None:
        """Write a safetensors file that knows which features it describes."""
        tensors = {"count": torch.tensor(self.count), "mean": self.mean, "squares": self.squares}
        with atomic_write(path, "wb") as stream:
            stream.write(save(tensors, {"features": json.dumps(features.recipe(), sort_keys=True)}))

    @staticmethod
    def load(path: str | Path, features: FeatureOptions) -> "Statistics":
        """Read what `save` wrote; statistics of other features are an error."""
        try:
            with safe_open(path, framework="pt") as file:
                measured = json.loads((file.metadata() or {}).get("features", "{}"))
                tensors = [file.get_tensor(name) for name in ("count", "mean", "squares")]
        except (SafetensorError, OSError, ValueError, RecursionError) as error:
            raise FewerError(f"cannot read the feature statistics {path}: {error}; measure them again") from error
        if not isinstance(measured, dict) or not _are_statistics(*tensors):
            raise FewerError(f"{path} does not hold feature statistics; measure them again")
        changes = differences(measured, features.recipe())
        if changes:
            raise FewerError(f"{path} holds statistics of other features ({changes}); measure them again")
        return Statistics(int(tensors[0]), tensors[1], tensors[2])


def _are_statistics(count: Tensor, mean: Tensor, squares: Tensor) -> bool:
    """A number of frames, and two rows of finite numbers of one length."""
    rows = mean.dim() == 1 and mean.shape == squares.shape and mean.dtype == squares.dtype == torch.float64
    if count.dim() != 0 or count.dtype != torch.int64 or not rows or not 0 <= int(count) < 1 << 53:
        return False
    return bool(mean.isfinite().all() and squares.isfinite().all() and (squares >= 0).all())


class Normaliser:
    """Normalises features as `features.normalise` and `features.clip` say."""

    def __init__(self, config: FeatureOptions, statistics: Statistics | None = None):
        self.clip = config.clip
        self.mean: Tensor | None = None
        self.factor: Tensor | float = 1 / config.scale if config.normalise == "scale" else 1.0
        if config.normalise == "global":
            if statistics is None or statistics.count == 0:
                raise FewerError("features.normalise is 'global', but there are no statistics: measure them first")
            self.mean = statistics.mean.float()
            deviation = statistics.deviation
            self.factor = torch.where(deviation < SMALLEST, 0.0, 1 / deviation.clamp(min=SMALLEST)).float()

    def __call__(self, features: Tensor) -> Tensor:
        """(T, F) -> (T, F)"""
        centred = features if self.mean is None else features - self.mean
        normalised = centred * self.factor
        return normalised if self.clip is None else normalised.clamp(-self.clip, self.clip)


def differences(old: dict[str, Any], new: dict[str, Any]) -> str:
    """The fields in which two descriptions differ, for an error message; empty if they agree."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} was {_short(old.get(name))}, is {_short(new.get(name))}" for name in names)


def _short(value: Any) -> str:
    return f"{value}"[:40]
