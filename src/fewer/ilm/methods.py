"""The methods by name, and the context that each puts into the decoder."""

from pathlib import Path
from typing import Literal, get_args

import torch
from pydantic import Field, field_validator, model_validator

from fewer.config import Config
from fewer.errors import FewerError
from fewer.ilm.contexts import FixedAudioContext, MiniLstmContext, SequenceMeanContext, StateContext
from fewer.ilm.own import VARIABLE, Sizes, own_estimator, own_methods
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

    method: Method | str  # or the name of an estimator of one's own
    special_first: bool = True  # averages and means: ĉ_0 = 0, as in the recogniser
    units: int = Field(default=50, ge=1)  # of the Mini-LSTM or the state's net
    utterances: int | None = Field(default=None, ge=1)  # use only so many of the training set, evenly spread over it
    passes: int = Field(default=8, ge=1)  # at the most, over what is trained on; the best on dev is kept (paper: ≤ 1.7)
    learning_rate: float = Field(default=1e-3, gt=0)  # not given: for contexts, the peak of the recogniser's training
    smoothing: float = Field(default=0.1, ge=0, lt=1)  # label smoothing; not given: that of the recogniser's training
    # Labels in a batch of text, and ten times as many frames in a batch of audio: the default is the paper's "20k",
    # which counts frames (of 10 ms), at a label every tenth of a second.
    batch: int = Field(default=2000, ge=1)
    embedding: int | None = Field(default=None, ge=1)  # dr's LM (Switchboard: 256); None: the decoder's, at most 128
    size: int | None = Field(default=None, ge=1)  # dr's LM, units (Switchboard: 1024); None: as many as the decoder
    dropout: float | None = Field(default=None, ge=0, lt=1)  # dr's LM; None: 0.2
    seconds: float = Field(default=5.0, gt=0)  # of silence or noise
    order: int = Field(default=2, ge=1)  # of the n-gram of lodr
    own_transcripts: bool = False  # the recogniser's in place of those given, which may be in another style
    language: str | None = None  # what is spoken, for a multilingual Whisper
    encodings: Path | None = None  # folder where a Whisper's encoder states are kept, for the next time
    seed: int = Field(default=1, ge=0)

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        check_method(method)
        return method

    @model_validator(mode="after")
    def _shape_is_used(self) -> "IlmConfig":
        if self.lm_shape and self.method != "dr":
            raise ValueError(f"{', '.join(self.lm_shape)}: only for the LM of dr; {self.method} has its shape already")
        return self

    @property
    def lm_shape(self) -> dict[str, float]:
        """What is said about the shape of dr's LM."""
        given = {"embedding": self.embedding, "size": self.size, "dropout": self.dropout}
        return {name: value for name, value in given.items() if value is not None}


def check_method(method: str, *others: str) -> None:
    """Complain about a method that is neither built in, nor the user's own, nor one of `others`."""
    for name in own_methods():
        if name in (*others, *METHODS):
            raise FewerError(f"{VARIABLE}: '{name}' is built in; give your estimator another name")
    if method not in (*others, *METHODS) and own_estimator(method) is None:
        known = ", ".join((*others, *METHODS, *own_methods()))
        raise ValueError(f"there is no method {method}: they are {known}; a module of your own is named in {VARIABLE}")


def is_trained(method: str) -> bool:
    """Whether a context learns from transcripts or audio."""
    own = own_estimator(method)
    return method in TRAINED or (own is not None and own.trained)


def new_context(config: IlmConfig, aed: AED) -> Context:
    """The method's context with new weights; vectors and recordings that are yet to be measured are zero."""
    size, decoder = aed.decoder.context_size, aed.config.decoder
    if (own := own_estimator(config.method)) is not None:
        return own.context(config, Sizes(size, decoder.embedding, decoder.size))
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
