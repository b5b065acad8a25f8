"""ĉ_i = E_D[c]: the mean attention context of the training set, teacher-forced."""

import torch

from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.enc_avg import Mean, new_context
from fewer.models.context import ConstantContext
from fewer.models.encoded import length_mask


@torch.no_grad()
def measure(estimation: Estimation) -> ConstantContext:
    """Over all labels, end labels included."""
    recogniser = estimation.recogniser
    mean = Mean(recogniser.sizes.context, estimation.world)
    for batch, encoded in estimation.heard(shared=True):
        contexts = recogniser.teacher_forced_contexts(encoded, batch.labels.to(recogniser.device))
        mean.add(contexts, length_mask(batch.label_lengths.to(recogniser.device), contexts.shape[1]))
    return ConstantContext(mean.result(), estimation.config.zero_first(recogniser))


METHOD = IlmMethod(
    "ctx_avg",
    "Internal LM: the decoder with the training set's mean attention context.",
    symbol="E_D[c]",
    order=(3, 3),
    needs=("audio", "transcripts"),
    context=new_context,
    estimate=measure,
)
