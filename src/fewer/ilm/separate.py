"""Language models on the transcripts, by themselves, that are subtracted like an internal one."""

from typing import Any

from fewer.data.text import SentenceConfig
from fewer.ilm.estimate import Estimation
from fewer.ilm.folder import LM, NGRAM, discard
from fewer.ilm.training import schedule
from fewer.store.model_folder import TOKENIZER
from fewer.training.configs import LmTrainConfig, TextConfig
from fewer.training.run import train_model


def train_lm(estimation: Estimation, model: dict[str, Any]) -> None:
    """model: its configuration. An n-gram that was there would be taken in its place."""
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
