"""Density ratio (McDermott et al. 2019): an LSTM LM of the decoder's size, on the transcripts."""

from typing import Any

from fewer.data.text import SentenceConfig
from fewer.ilm.estimate import Estimation
from fewer.ilm.folder import LM, NGRAM, discard
from fewer.ilm.method import IlmMethod
from fewer.ilm.training import schedule
from fewer.store.model_folder import TOKENIZER
from fewer.training.configs import LmTrainConfig, TextConfig
from fewer.training.run import train_model

EMBEDDING = 128  # at most


def train_lm(estimation: Estimation, model: dict[str, Any]) -> None:
    """Train an LM by itself. model: its configuration. An n-gram that was there would be taken in its place."""
    config, world, out = estimation.config, estimation.world, estimation.out
    if world.first:
        estimation.recogniser.tokenizer.save(out / TOKENIZER)
    world.wait()
    batches = SentenceConfig(max_size=config.batch, sub_epochs=config.parts)
    settings = LmTrainConfig(
        model=model | config.lm_shape,
        tokenizer=out / TOKENIZER,
        data=TextConfig(train=(estimation.train,), dev=(estimation.dev,), batches=batches, allow_unknown=True),
        seed=config.seed,
        sub_epochs=config.sub_epochs,
        schedule=schedule(config),
        device=str(world.device),
    )
    train_model(settings, out / LM)
    if world.first:
        discard(out, NGRAM)


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
