"""The methods by name, and the context that each puts into the decoder."""

from typing import Literal, get_args

import torch
from pydantic import Field

from fewer.config import Config
from fewer.errors import FewerError
from fewer.ilm.contexts import FixedAudioContext, MiniLstmContext, SequenceMeanContext, StateContext
from fewer.models.aed import AED
from fewer.models.context import ConstantContext, Context, ZeroContext

Method = Literal[
    "zero",  # ĉ = 0
    "zero_encoder",  # encoder states of zero; differs from `zero` only where attention has biases, as in Whisper
    "enc_avg",  # E_D[h], mean encoder state of the training set
    "ctx_avg",  # E_D[c], mean attention context of the training set
    "seq_avg",  # E_x[h], mean encoder state of the utterance
    "seq_avg_all",  # the same with the frames that an encoder hears beyond the utterance, as Whisper's
    "mini_lstm",  # a small LSTM over the labels, trained for the lowest perplexity
    "learned",  # one vector, trained likewise
    "state_ff",  # a small net of the decoder's state, trained likewise
    "distilled",  # a Mini-LSTM taught by the recogniser's own posteriors on audio
    "silence",  # attention over the encoder states of silence
    "noise",  # attention over the encoder states of noise
    "decoder_like",  # a separate LM of the decoder's topology on the transcripts
    "dr",  # density ratio: a separate LSTM LM on the transcripts
    "lodr",  # low-order density ratio: an n-gram of the transcripts
]
METHODS: tuple[str, ...] = get_args(Method)
TRAINED = ("mini_lstm", "learned", "state_ff", "distilled")  # contexts that learn, everything else frozen
AVERAGES = ("enc_avg", "ctx_avg")
AUDIO = ("silence", "noise")
UNMEASURED = ("zero", "zero_encoder", "seq_avg", "seq_avg_all")  # nothing is to be estimated
SEPARATE = ("decoder_like", "dr", "lodr")  # LMs of their own rather than contexts
FROM_TEXT = ("mini_lstm", "learned", "state_ff", *SEPARATE)  # need transcripts but no audio


class IlmConfig(Config):
    """How an internal LM is estimated."""

    method: Method
    special_first: bool = True  # averages and means: ĉ_0 = 0, as in the recogniser
    units: int = Field(default=50, ge=1)  # of the Mini-LSTM or the state's net
    utterances: int | None = Field(default=None, ge=1)  # use only the first so many of the training set
    passes: int = Field(
        default=8, ge=1
    )  # over the transcripts (or audio), for what is trained; the best on dev is kept
    learning_rate: float = Field(default=1e-3, gt=0)
    smoothing: float = Field(default=0.1, ge=0, lt=1)  # label smoothing, as in the recogniser's training
    batch: int = Field(default=4000, ge=1)  # labels in a batch of text; frames of audio are ten times as many
    seconds: float = Field(default=5.0, gt=0)  # of silence or noise
    order: int = Field(default=2, ge=1)  # of the n-gram of lodr
    own_transcripts: bool = False  # Whisper: in place of those given, which may not be written in its style
    language: str | None = None  # what is spoken, for a multilingual Whisper
    seed: int = Field(default=1, ge=0)


def new_context(config: IlmConfig, aed: AED) -> Context:
    """The method's context with new weights; vectors and recordings that are yet to be measured are zero."""
    size, decoder = aed.decoder.context_size, aed.config.decoder
    if config.method in ("zero", "zero_encoder"):
        return ZeroContext(size)
    if config.method in (*AVERAGES, "learned"):
        trainable = config.method == "learned"
        return ConstantContext(torch.zeros(size), config.special_first, trainable)
    if config.method in ("seq_avg", "seq_avg_all"):
        return SequenceMeanContext(size, config.special_first)
    if config.method in ("mini_lstm", "distilled"):
        return MiniLstmContext(decoder.embedding, size, config.units)
    if config.method == "state_ff":
        return StateContext(decoder.size, size, config.units)
    if config.method in AUDIO:
        return FixedAudioContext(aed.attention, torch.zeros(1, size))
    raise FewerError(f"{config.method} is a language model of its own, not a context")
