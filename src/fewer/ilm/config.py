"""The options of estimating an internal LM."""

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from fewer.config import Config
from fewer.errors import FewerError
from fewer.ilm.registry import all_methods, check_method
from fewer.models.context import Context
from fewer.recognisers.recogniser import Recogniser
from fewer.training.schedule import NewbobConfig


class IlmConfig(Config):
    """How an internal LM is estimated."""

    method: str  # one of `fewer.ilm.registry.all_methods()`
    special_first: bool = True  # averages and means: ĉ_0 = 0, as in the recogniser
    units: int = Field(default=50, ge=1)  # of the Mini-LSTM or the state's net
    utterances: int | None = Field(default=None, ge=1)  # use only so many of the training set, evenly spread over it
    passes: float = Field(default=8, gt=0)  # over what is trained on; the best on dev is kept (paper: 0.4 and 1.7)
    parts: int = Field(default=1, ge=1)  # of a pass, each followed by a look at dev (paper: 20 and 6)
    learning_rate: float = Field(default=1e-3, gt=0)  # not given: for contexts, the peak of the recogniser's training
    smoothing: float = Field(default=0.1, ge=0, lt=1)  # label smoothing; not given: that of the recogniser's training
    newbob: NewbobConfig | None = None  # how the rate decays; None: halved after every part that hardly improves dev
    l2: float = Field(default=0.0, ge=0)  # l2·Σw² for every batch, on the Mini-LSTM's linear layer (paper: 1e-4)
    # Labels in a batch: the default is the paper's "20k", which counts frames (of 10 ms), at ten of them for a label.
    batch: int = Field(default=2000, ge=1)
    embedding: int | None = Field(default=None, ge=1)  # dr's LM (Switchboard: 256); None: the decoder's, at most 128
    size: int | None = Field(default=None, ge=1)  # dr's LM, units (Switchboard: 1024); None: as many as the decoder
    dropout: float | None = Field(default=None, ge=0, lt=1)  # dr's LM; None: 0.2
    seconds: float = Field(default=5.0, gt=0)  # of silence or noise
    order: int = Field(default=2, ge=1)  # of the n-gram of lodr
    own_transcripts: bool = False  # the recogniser's in place of those given, which may be in another style
    language: str | None = None  # what is spoken, for a multilingual Whisper
    task: str = "transcribe"  # of a multilingual Whisper, or translate
    encodings: Path | None = None  # folder where encoder states are kept, for the next time
    means: Path | None = None  # folder where E_D[h] and E_D[c] are kept, which one pass measures together
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
        if self.l2 and self.method != "mini_lstm":
            raise ValueError(f"l2: only for the linear layer of mini_lstm; {self.method} has none")
        if self.sub_epochs < 1:
            raise ValueError(f"passes: {self.passes:g} of {self.parts} parts is less than half a part; give more parts")
        return self

    @property
    def sub_epochs(self) -> int:
        """Parts of passes that are trained on."""
        return round(self.passes * self.parts)

    @property
    def lm_shape(self) -> dict[str, float]:
        """What is said about the shape of dr's LM."""
        given = {"embedding": self.embedding, "size": self.size, "dropout": self.dropout}
        return {name: value for name, value in given.items() if value is not None}

    def new_context(self, recogniser: Recogniser) -> Context:
        """The method's context with new weights; vectors and recordings that are yet to be measured are zero."""
        context = all_methods()[self.method].context
        if context is None:
            raise FewerError(f"{self.method} is a language model of its own, not a context")
        return context(self, recogniser)

    def zero_first(self, recogniser: Recogniser) -> bool:
        """Whether ĉ_0 = 0, whatever the context says afterwards."""
        return self.special_first and recogniser.special_first
