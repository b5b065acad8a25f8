"""ĉ_i = E_D[h]: the mean encoder state of the training set."""

import torch
from torch import Tensor

from fewer.compute.world import World
from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.models.context import ConstantContext
from fewer.recognisers.recogniser import Recogniser


class Mean:
    """Exact, in one pass: a sum in float64 and a count, over all batches and processes."""

    def __init__(self, size: int, world: World):
        self.world = world
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


def new_context(config: IlmConfig, recogniser: Recogniser) -> ConstantContext:
    """A vector that is to be measured."""
    return ConstantContext(torch.zeros(recogniser.sizes.context), config.zero_first(recogniser))


@torch.no_grad()
def measure(estimation: Estimation) -> ConstantContext:
    """Over all frames of speech."""
    recogniser = estimation.recogniser
    mean = Mean(recogniser.sizes.encoder, estimation.world)
    for _, encoded in estimation.heard(transcripts=False, shared=True):
        mean.add(encoded.states, encoded.mask)
    vector = recogniser.hear_only(mean.result().to(recogniser.device))
    return ConstantContext(vector, estimation.config.zero_first(recogniser))


METHOD = IlmMethod(
    "enc_avg",
    "Internal LM: the decoder with the training set's mean encoder state as context.",
    symbol="E_D[h]",
    order=(3, 2),
    needs=("audio",),
    context=new_context,
    estimate=measure,
)
