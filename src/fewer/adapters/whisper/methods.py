"""The context that each ILM method puts into Whisper's decoder."""

import torch

from fewer.adapters.whisper.contexts import FixedAudioContext, UtteranceMeanContext, hear_only
from fewer.adapters.whisper.decoder import WhisperDecoder
from fewer.errors import FewerError
from fewer.ilm.contexts import MiniLstmContext
from fewer.ilm.methods import AUDIO, AVERAGES, IlmConfig
from fewer.models.context import ConstantContext, Context


def new_context(config: IlmConfig, decoder: WhisperDecoder) -> Context:
    """The method's context with new weights; vectors and recordings that are yet to be measured are zero."""
    size = len(decoder.layers) * decoder.size
    nothing = decoder.position.new_zeros(size)
    if config.method == "zero":
        return ConstantContext(nothing, special_first=False)
    if config.method == "zero_encoder":
        return ConstantContext(hear_only(decoder, decoder.position.new_zeros(decoder.size)), special_first=False)
    if config.method in (*AVERAGES, "learned"):
        return ConstantContext(nothing, special_first=False, trainable=config.method == "learned")
    if config.method in ("seq_avg", "seq_avg_all"):
        return UtteranceMeanContext(decoder, speech_only=config.method == "seq_avg")
    if config.method in ("mini_lstm", "distilled"):
        return MiniLstmContext(decoder.size, size, config.units)
    if config.method in AUDIO:
        return FixedAudioContext(decoder, torch.zeros(1, decoder.size))
    raise FewerError(f"{config.method} is no context for Whisper's decoder")
