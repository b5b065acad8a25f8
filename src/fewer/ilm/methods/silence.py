"""ĉ_i from the recogniser's own attention, which listens to silence."""

import numpy as np
import torch

from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation
from fewer.ilm.method import IlmMethod
from fewer.models.context import FixedAudioContext
from fewer.recognisers.recogniser import Recogniser


def new_context(config: IlmConfig, recogniser: Recogniser) -> FixedAudioContext:
    """A recording that is yet to be heard."""
    return FixedAudioContext(recogniser.attention, torch.zeros(1, recogniser.sizes.encoder))


def record(estimation: Estimation, level: float) -> FixedAudioContext:
    """Noise of this amplitude, as the recogniser hears it."""
    config, recogniser = estimation.config, estimation.recogniser
    generator = np.random.default_rng(config.seed)
    samples = level * generator.standard_normal(int(config.seconds * recogniser.sampling_rate))
    states = recogniser.listen([torch.from_numpy(samples).float()]).states[0]
    return FixedAudioContext(recogniser.attention, states.clone())


METHOD = IlmMethod(
    "silence",
    "Internal LM: the decoder listens to silence.",
    symbol="Silence",
    order=(4, 4),
    context=new_context,
    estimate=lambda estimation: record(estimation, estimation.recogniser.silence),
)
