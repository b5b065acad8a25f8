"""Low-order density ratio (Zheng et al. 2022): an n-gram of the transcripts, a bigram unless `order` says otherwise."""

import numpy as np
import torch

from fewer.ilm.estimate import Estimation
from fewer.ilm.folder import LM, NGRAM, discard
from fewer.ilm.method import IlmMethod
from fewer.store.ngram_files import save_ngram
from fewer.training.ngram import estimate as estimate_ngram


def estimate(estimation: Estimation) -> None:
    store, tokenizer = estimation.tokens(estimation.train), estimation.recogniser.tokenizer
    if estimation.world.first:
        stream = torch.from_numpy(np.asarray(store.labels).astype(np.int64))
        ngram = estimate_ngram(stream, estimation.config.order, tokenizer.size, tokenizer.end)
        discard(estimation.out, LM)
        save_ngram(estimation.out / NGRAM, ngram, tokenizer.labels)


METHOD = IlmMethod(
    "lodr",
    "Low-order density ratio: subtracts an n-gram of the transcripts.",
    symbol="LODR",
    order=(4, 1),
    needs=("transcripts",),
    estimate=estimate,
)
