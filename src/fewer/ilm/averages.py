"""Exact one-pass streaming means over the training set, for E_D[h] and E_D[c] (SPEC §4)."""

import torch
from torch import Tensor

from fewer.compute.world import World, alone
from fewer.errors import FewerError


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
