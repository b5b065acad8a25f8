"""ĉ_i = 0: the decoder hears nothing (HAT; Meng et al. 2021)."""

from fewer.ilm.method import IlmMethod
from fewer.models.context import ZeroContext

METHOD = IlmMethod(
    "zero",
    "Internal LM: the decoder with its context set to zero.",
    symbol="zero",
    order=(3, 0),
    context=lambda config, recogniser: ZeroContext(recogniser.sizes.context),
)
