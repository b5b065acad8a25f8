"""What the trainer trains: a task says what the module, its data and its losses are."""

from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from fewer.data.reading import Batches


@dataclass(frozen=True)
class Moment:
    """Where training stands when a batch is seen."""

    sub_epoch: int  # from 1 on
    step: int  # optimiser steps of the whole run before this one
    training: bool = True  # False: a dev batch


@dataclass(frozen=True)
class Losses:
    """Sums over the labels of a batch."""

    total: Tensor  # what is minimised
    parts: dict[str, Tensor]  # what is shown; "ce", the cross entropy without smoothing, unless nothing learns by it


class Task(Protocol):
    """A module, its data and its losses. Growing means that the module changes from one stage to the next.

    Batches are dataclasses with at least `ids` and `label_lengths`.
    """

    train: Batches[Any]
    dev: Batches[Any]

    def stage(self, sub_epoch: int) -> int:
        """The growing stage of a sub-epoch; always 0 if nothing grows."""
        return 0

    def build(self, stage: int) -> nn.Module:
        """A stage's module with new weights. What does not require gradients is frozen and not in checkpoints."""
        ...

    def grow(self, old: nn.Module, new: nn.Module) -> None:
        """Put the weights of the stage before into a newly built module."""
        raise TypeError(f"a {type(self).__name__} does not grow")

    def losses(self, module: nn.Module, batch: Any, moment: Moment) -> Losses:
        """Loss sums of a batch."""
        ...

    def penalty(self, module: nn.Module) -> Tensor | None:
        """What is added once for every planned batch whatever its size, such as L2."""
        return None

    def frozen(self, module: nn.Module, sub_epoch: int) -> list[nn.Parameter]:
        """Parameters that stay as they are in this sub-epoch, whatever the penalty wants of them."""
        return []

    def watched(self, sub_epoch: int) -> str:
        """The part of the dev losses that tells how good this sub-epoch was."""
        return "ce"

    def steering(self, sub_epoch: int) -> str:
        """The part of the dev losses that the learning rate follows."""
        return self.watched(sub_epoch)


def to_device(batch: Any, device: torch.device) -> Any:
    """The batch with its tensors on `device`."""
    values = {field.name: getattr(batch, field.name) for field in fields(batch)}
    moved = {name: value.to(device, non_blocking=True) for name, value in values.items() if isinstance(value, Tensor)}
    return replace(batch, **moved)
