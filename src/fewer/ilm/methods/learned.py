"""ĉ_i is one vector, trained for the lowest perplexity of the transcripts (Liu et al. 2022)."""

from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.zero_encoder import hear_zeros
from fewer.ilm.training import train_on_text
from fewer.models.context import ConstantContext

METHOD = IlmMethod(
    "learned",
    "Internal LM: one trained vector as context.",
    symbol="Learned context",
    order=(4, 2),
    needs=("transcripts", "dev"),
    context=lambda config, recogniser: ConstantContext(
        hear_zeros(recogniser), config.zero_first(recogniser), trainable=True
    ),
    estimate=train_on_text,
)
