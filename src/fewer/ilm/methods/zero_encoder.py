"""Encoder states of zero. Not the same as `zero` where attention has biases, as Whisper's has."""

import torch
from torch import Tensor

from fewer.ilm.method import IlmMethod
from fewer.models.context import ConstantContext
from fewer.recognisers.recogniser import Recogniser


@torch.no_grad()
def hear_zeros(recogniser: Recogniser) -> Tensor:
    """What attention says of encoder states of zero. (context,)"""
    return recogniser.hear_only(torch.zeros(recogniser.sizes.encoder, device=recogniser.device))


METHOD = IlmMethod(
    "zero_encoder",
    "Internal LM: the decoder with encoder states of zero; as zero, but for the biases of Whisper's attention.",
    symbol="zero encoder states",
    order=(3, 1),
    context=lambda config, recogniser: ConstantContext(hear_zeros(recogniser), config.zero_first(recogniser)),
)
