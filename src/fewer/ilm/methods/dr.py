"""Density ratio (McDermott et al. 2019): an LSTM LM of the decoder's size, on the transcripts."""

from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.ilm.separate import train_lm

EMBEDDING = 128  # at most


def estimate(estimation: Estimation) -> None:
    sizes, tokenizer = estimation.recogniser.sizes, estimation.recogniser.tokenizer
    shape = {"embedding": min(EMBEDDING, sizes.embedding), "size": sizes.state or sizes.embedding, "dropout": 0.2}
    train_lm(estimation, {"kind": "lstm_lm", "vocab_size": tokenizer.size, "end": tokenizer.end, **shape})


METHOD = IlmMethod(
    "dr",
    "Density ratio: subtracts a language model trained on the transcripts.",
    symbol="Density ratio",
    order=(1, 1),
    needs=("transcripts", "dev"),
    estimate=estimate,
)
