"""ĉ_i = E_D[c]: the mean attention context of the training set, teacher-forced."""

from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.enc_avg import new_context, training_mean
from fewer.models.context import ConstantContext


def measure(estimation: Estimation) -> ConstantContext:
    """Over all labels, end labels included."""
    return ConstantContext(training_mean(estimation, "c"), estimation.config.zero_first(estimation.recogniser))


METHOD = IlmMethod(
    "ctx_avg",
    "Internal LM: the decoder with the training set's mean attention context.",
    symbol="E_D[c]",
    order=(3, 3),
    needs=("audio", "transcripts"),
    context=new_context,
    estimate=measure,
)
