"""ĉ_i from the recogniser's own attention, which listens to noise."""

from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.silence import new_context, record

LEVEL = 0.05  # amplitude

METHOD = IlmMethod(
    "noise",
    "Internal LM: the decoder listens to noise.",
    symbol="Noise",
    order=(4, 5),
    context=new_context,
    estimate=lambda estimation: record(estimation, LEVEL),
)
