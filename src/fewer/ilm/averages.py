"""Exact one-pass streaming means over the training set: E_D[h] and E_D[c] (SPEC §4)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from fewer.compute.world import World, alone
from fewer.data.batches import Batch
from fewer.errors import FewerError
from fewer.models.aed import AED
from fewer.models.encoded import length_mask
from fewer.training.task import to_device


@torch.no_grad()
def encoder_mean(aed: AED, batches: Iterable[Batch], world: World | None = None) -> Tensor:
    """The mean of all h_t over all frames. (D_enc,)"""
    mean = Mean(aed.eval().decoder.context_size, world)
    for batch in batches:
        moved = to_device(batch, mean.world.device)
        encoded = aed.encode(moved.features, moved.feature_lengths)
        mean.add(encoded.states, encoded.mask)
    return mean.result()


@torch.no_grad()
def context_mean(aed: AED, batches: Iterable[Batch], world: World | None = None) -> Tensor:
    """The mean of all c_i over all labels, end labels included, teacher-forced. (D_enc,)"""
    mean = Mean(aed.eval().decoder.context_size, world)
    for batch in batches:
        moved = to_device(batch, mean.world.device)
        contexts = aed.teacher_forced(aed.encode(moved.features, moved.feature_lengths), moved.labels).contexts
        mean.add(contexts, length_mask(moved.label_lengths, contexts.shape[1]))
    return mean.result()


class Mean:
    """A sum in float64 and a count, over all batches and processes."""

    def __init__(self, size: int, world: World | None = None):
        self.world = world or alone()
        self.total = torch.zeros(size, dtype=torch.float64)
        self.count = 0

    def add(self, values: Tensor, mask: Tensor) -> None:
        """(B, N, D), (B, N)"""
        self.total += (values.double() * mask[:, :, None]).sum((0, 1)).cpu()
        self.count += int(mask.sum())

    def result(self) -> Tensor:
        *total, count = self.world.sum([*self.total.tolist(), float(self.count)])
        if not count:
            raise FewerError("there is nothing to average: the training set is empty")
        return (torch.tensor(total, dtype=torch.float64) / count).float()
