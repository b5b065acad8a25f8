"""The context that each ILM method puts into Whisper's decoder."""

import torch

from fewer.errors import FewerError
from fewer.ilm.contexts import MiniLstmContext
from fewer.ilm.methods import AUDIO, AVERAGES, IlmConfig
from fewer.ilm.own import Sizes, own_estimator
from fewer.models.context import ConstantContext, Context
from fewer.recognisers.whisper.contexts import FixedAudioContext, UtteranceMeanContext, hear_only
from fewer.recognisers.whisper.decoder import WhisperDecoder


@torch.no_grad()
def new_context(config: IlmConfig, decoder: WhisperDecoder) -> Context:
    """The method's context before it is measured or trained. What is trained begins as `zero_encoder`.

    (Without any context the decoder is lost: that would be a bad place to begin.)
    """
    size = len(decoder.layers) * decoder.size
    if (own := own_estimator(config.method)) is not None:
        return own.context(config, Sizes(size, decoder.size, decoder.size))
    zero_encoder = hear_only(decoder, decoder.position.new_zeros(decoder.size))
    if config.method in ("zero", *AVERAGES):
        return ConstantContext(torch.zeros_like(zero_encoder), special_first=False)
    if config.method in ("zero_encoder", "learned"):
        return ConstantContext(zero_encoder, special_first=False, trainable=config.method == "learned")
    if config.method in ("seq_avg", "seq_avg_all"):
        return UtteranceMeanContext(decoder, speech_only=config.method == "seq_avg")
    if config.method in ("mini_lstm", "distilled"):
        context = MiniLstmContext(decoder.size, size, config.units)
        context.linear.weight.zero_()
        context.linear.bias.copy_(zero_encoder)
        return context
    if config.method in AUDIO:
        return FixedAudioContext(decoder, torch.zeros(1, decoder.size))
    raise FewerError(f"{config.method} is no context for Whisper's decoder")
