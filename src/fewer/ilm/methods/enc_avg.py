"""ĉ_i = E_D[h]: the mean encoder state of the training set."""

import torch

from fewer.ilm.averages import training_mean
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.models.context import ConstantContext
from fewer.recognisers.recogniser import Recogniser


def new_context(config: IlmConfig, recogniser: Recogniser) -> ConstantContext:
    """A vector that is to be measured."""
    return ConstantContext(torch.zeros(recogniser.sizes.context), config.zero_first(recogniser))


@torch.no_grad()
def measure(estimation: Estimation) -> ConstantContext:
    """Over all frames of speech."""
    recogniser = estimation.recogniser
    vector = recogniser.hear_only(training_mean(estimation, "h").to(recogniser.device))
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
