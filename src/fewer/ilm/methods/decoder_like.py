"""A separate LM of the decoder's topology, on the transcripts: what the decoder could learn from them alone."""

from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.dr import train_lm


def estimate(estimation: Estimation) -> None:
    model = estimation.recogniser.decoder_like_lm()
    assert model is not None
    train_lm(estimation, model)


UNLIKE = "is for recognisers of `fewer train`: there is no language model like this decoder; take dr"
METHOD = IlmMethod(
    "decoder_like",
    "Subtracts a separate LM of the decoder's topology, trained on the transcripts.",
    symbol="Decoder-like LM",
    order=(4, 0),
    needs=("transcripts", "dev"),
    estimate=estimate,
    supports=lambda recogniser: UNLIKE if recogniser.decoder_like_lm() is None else None,
)
