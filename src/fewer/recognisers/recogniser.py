"""What fewer needs of an attention-based encoder-decoder: its own models and adapters to others implement it.

Nothing above this package asks what kind of model it has: a recogniser says what it hears, encodes and scores, which
defaults suit it, and what its decoder makes of another context, which is what internal LMs are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fewer.compute.engines.engine import Engine
from fewer.compute.memory import how_many
from fewer.data.batches import Batch, UtteranceBatches, UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.data.style import Look, PlainStyle, Style
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.models.context import Context
from fewer.models.decoder import InternalLm
from fewer.models.encoded import Encoded
from fewer.search.beam import SearchOptions
from fewer.search.scorer import Scorer
from fewer.store.kept import KeptTensors


@dataclass(frozen=True)
class Defaults:
    """What suits a recogniser where the user, a bundle or a dev set says nothing else."""

    search: SearchOptions = field(default_factory=SearchOptions)  # beam and length policy
    end_scored_by: tuple[str, ...] | None = None  # terms that score the end label; None: all
    centred: bool = False  # language models are centred: it can skip speech, which they must not reward
    share: float = 0.0  # of an LM that is mixed with the internal LM, so that what it never saw costs little; 0: none
    longest_loop: int = 0  # hypotheses that repeat so many labels or fewer are dropped; 0: they are not
    normaliser: str = "none"  # of `fewer score`: how errors of its way of writing are counted
    method: str = "zero"  # of estimating the internal LM
    lm: float = 0.3  # λ1 and λ2 with an internal LM
    ilm: float = 0.2
    sf_lm: float = 0.3  # λ1 without
    hotwords: float = 1.0  # what the weights of hotwords are multiplied by
    tuning: Mapping[str, Any] = field(default_factory=dict)  # where tuning starts and looks: `TuneOptions`

    def space(self, length: str | None = None) -> dict[str, Any]:
        """Where tuning looks: `SpaceOptions`. length: the length parameter that the user wants to be tuned, if any."""
        usual = dict(self.tuning.get("space", {}))
        if length is None:
            return usual
        return {name: value for name, value in usual.items() if name != "exponent_range"} | {"length": length}

    def scales(self, terms: Collection[str]) -> dict[str, float]:
        """Those of the terms that are used beside the recogniser, as users give them: positive."""
        usual = {"lm": self.lm if "ilm" in terms else self.sf_lm, "ilm": self.ilm, "words": self.hotwords}
        return {term: usual[term] for term in terms}


class Sizes(NamedTuple):
    """What a context has to fit."""

    encoder: int  # D_enc, of an encoder state
    context: int  # of what a context says: D_enc; for models of transformers, layers · D
    embedding: int  # E, of a label
    state: int | None  # D_dec, of the decoder's state; None: it has none


class Recogniser(ABC):
    """An encoder, a decoder that asks a context for c_i, and all that belongs to them."""

    tokenizer: Tokenizer
    fingerprint: str  # of weights, tokenizer, and language and task if it has several
    device: torch.device
    precision: str = "float32"  # of the encoder's products
    defaults: Defaults = Defaults()
    sampling_rate: int  # of what it listens to
    longest: float = 30.0  # seconds that it should hear at once
    at_once: int = 16  # utterances that should be searched together on a CPU
    suppress: Tensor | None = None  # (V,) labels that never come
    suppress_first: Tensor | None = None  # (V,) the same for the first label
    encodings: KeptTensors | None = None  # where encoder states are kept
    language: str | None = None  # what is spoken, if it knows several languages
    must_detect: bool = False  # it knows several languages and none was named: detect one, and search `in_language`

    attention: Context  # the recogniser's own context
    sizes: Sizes
    special_first: bool = True  # c_0 is zero, whatever the context says afterwards
    silence: float = 0.0  # amplitude of noise that stands for silence where zeros have no features

    @abstractmethod
    def batches(self, manifest: Manifest, config: UtteranceConfig, transcripts: bool = False) -> UtteranceBatches:
        """The utterances of a manifest as batches of what it hears; with labels if there are `transcripts`."""

    def build_cache(self, manifest: Manifest, engine: Engine) -> None:  # noqa: B027 (most keep none)
        """Compute the features of a set that it keeps on disk, if it does; else nothing is to be done before."""

    @abstractmethod
    def footprint(self, seconds: float) -> float:
        """Bytes that an utterance takes while it is encoded and searched, about."""

    def together(self, seconds: float) -> int:
        """Utterances of this length that should be searched together: on a GPU, as many as its free memory holds."""
        return how_many(self.device, self.footprint(seconds)) or self.at_once

    @abstractmethod
    def encode(self, batch: Batch) -> Encoded:
        """Encoder states of a batch."""

    @abstractmethod
    def listen(self, waveforms: Sequence[Tensor]) -> Encoded:
        """Encode utterances that are samples of one channel. (samples,) each"""

    def keep_encodings(self, folder: str | Path) -> None:
        """From now on, keep all encoder states in a folder, and take from there what is there."""
        self.encodings = KeptTensors(Path(folder) / self.encoded_by[:16])

    @property
    def encoded_by(self) -> str:
        """Of all that encoder states depend on besides the audio."""
        return self.fingerprint if self.precision == "float32" else fingerprint(self.fingerprint, self.precision)

    def no_speech(self, encoded: Encoded) -> Tensor | None:
        """The probability that nobody speaks, if it can tell. (B,)"""
        return None

    def detect_language(self, encoded: Encoded) -> list[tuple[str, float]]:
        """The language of each utterance with its probability, if it knows several."""
        raise FewerError("this recogniser cannot detect languages")

    def in_language(self, language: str) -> "Recogniser":
        """The same recogniser, with the same weights, for a language that it knows."""
        raise FewerError("this recogniser knows one language only")

    def times(self, encoded: Encoded, labels: Sequence[int]) -> list[tuple[float, float]] | None:
        """From when to when in seconds each label of the one utterance was said, if it can tell."""
        return None

    def max_lengths(self, encoded: Encoded) -> Tensor:
        """How many labels each utterance may have, end label counted. (B,)"""
        return encoded.lengths

    def prompt_length(self, row: Tensor) -> int:
        """How many labels of a row of transformers' `generate` were given before it wrote any. (n,)"""
        raise FewerError("a FusionProcessor is for the `generate` of a model of transformers; give such a model")

    def style(self, look: Look, casing: Callable[[], Mapping[str, str]]) -> Style:
        """Writes a text as the recogniser writes. look: of the text; casing: says how names are cased."""
        return PlainStyle(self.tokenizer.labels, words=self.tokenizer.kind == "words")

    @abstractmethod
    def scorer(self, ilms: Mapping[str, Context]) -> Scorer:
        """Term "aed" and, sharing its products, internal LMs by their contexts."""

    def ctc_scorer(self) -> Scorer | None:
        """Term "ctc", if it has a CTC branch."""
        return None

    @abstractmethod
    def language_model(self, context: Context) -> InternalLm:
        """The decoder under a context, as a language model by itself."""

    @abstractmethod
    def hear_only(self, state: Tensor) -> Tensor:
        """What its attention says if all encoder states are this one. (…, D_enc) -> (…, context)"""

    @abstractmethod
    def teacher_forced_contexts(self, encoded: Encoded, labels: Tensor) -> Tensor:
        """What its attention says at every label, given the true ones before it. (B, N) -> (B, N, context)"""

    def decoder_like_lm(self) -> dict[str, Any] | None:
        """The configuration of a language model with its decoder's topology, if there is such a model."""
        return None

    @abstractmethod
    def ilm_options(self, trained: bool) -> dict[str, Any]:
        """Options for estimating its internal LM that differ from the usual. trained: a context is trained for it."""
