"""A recogniser, an external LM and an internal LM, put together for a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from fewer.data.batches import Batch, UtteranceConfig, pad
from fewer.data.hotwords import spellings
from fewer.data.manifest import Manifest
from fewer.data.reading import Batches
from fewer.data.tokenizers import Tokenizer, load_tokenizer
from fewer.errors import FewerError
from fewer.ilm.estimate import speech_batches
from fewer.ilm.folder import Ilm, load_ilm
from fewer.ilm.methods import IlmConfig, new_context
from fewer.models.aed_scorer import AedScorer
from fewer.models.context import Context
from fewer.models.ctc_prefix import CtcPrefixScorer
from fewer.models.encoded import Encoded
from fewer.models.hotwords import Phrases
from fewer.models.internal_lm import InternalLm
from fewer.models.lm import LanguageModel, LmScorer
from fewer.models.word_ngram import WordNGram
from fewer.search.fusion import Fusion
from fewer.search.scorer import Scorer
from fewer.store.model_folder import CONFIG, TOKENIZER, LoadedModel, load_model
from fewer.store.ngram_files import is_ngram_file
from fewer.store.word_ngram import WordStyle, label_pieces, load_any_ngram


class Recogniser(Protocol):
    """What the search needs of an attention-based encoder-decoder: fewer's own, or an adapter to somebody else's."""

    tokenizer: Tokenizer
    fingerprint: str
    suppress: Tensor | None  # (V,) labels that never come
    suppress_first: Tensor | None  # (V,) the same for the first label
    longest_loop: int  # labels that a hypothesis may not say over and over; 0: it may say what it likes
    end_scored_by: Sequence[str] | None  # terms that score the end label by default; None: all
    normaliser: str  # of `fewer score`: how errors of its way of writing are counted
    sampling_rate: int  # of what it listens to
    longest: float  # seconds that it should hear at once
    at_once: int  # utterances that should be searched together

    def batches(self, manifest: Manifest, config: UtteranceConfig) -> Batches[Batch]:
        """The utterances of a manifest as batches of what it hears."""
        ...

    def encode(self, batch: Batch) -> Encoded: ...

    def listen(self, waveforms: Sequence[Tensor]) -> Encoded:
        """Encode utterances that are samples of one channel. (samples,) each"""
        ...

    def no_speech(self, encoded: Encoded) -> Tensor | None:
        """The probability that nobody speaks, if it can tell. (B,)"""
        ...

    def times(self, encoded: Encoded, labels: Sequence[int]) -> list[tuple[float, float]] | None:
        """From when to when in seconds each label of the one utterance was said, if it can tell."""
        ...

    def max_lengths(self, encoded: Encoded) -> Tensor:
        """How many labels each utterance may have, end label counted. (B,)"""
        ...

    def scorer(self, ilms: Mapping[str, Context]) -> Scorer:
        """Term "aed" and, sharing its products, internal LMs by their contexts."""
        ...

    def new_context(self, config: IlmConfig) -> Context:
        """The context of an ILM method with new weights."""
        ...

    def language_model(self, context: Context) -> LanguageModel:
        """The decoder under a context, as a language model by itself."""
        ...


class AedRecogniser:
    """A recogniser that `fewer train` made."""

    suppress: Tensor | None = None
    suppress_first: Tensor | None = None
    longest_loop = 0
    end_scored_by: Sequence[str] | None = None
    normaliser = "none"
    longest = 30.0  # about the longest utterance of the corpora that such models are trained on
    at_once = 16

    def __init__(self, loaded: LoadedModel):
        self.loaded, self.aed = loaded, loaded.aed
        self.tokenizer, self.fingerprint = loaded.tokenizer, loaded.fingerprint
        assert loaded.features is not None  # of a recogniser
        self.features = loaded.features
        self.sampling_rate = self.features.sampling_rate

    def batches(self, manifest: Manifest, config: UtteranceConfig) -> Batches[Batch]:
        return speech_batches(self.loaded, manifest, config, transcripts=False)

    @torch.inference_mode()
    def encode(self, batch: Batch) -> Encoded:
        return self.aed.encode(batch.features, batch.feature_lengths)

    @torch.inference_mode()
    def listen(self, waveforms: Sequence[Tensor]) -> Encoded:
        features = [self.features.of(samples) for samples in waveforms]
        return self.aed.encode(*pad(features, torch.zeros(0, self.features.dim)))

    def no_speech(self, encoded: Encoded) -> None:
        return None

    def times(self, encoded: Encoded, labels: Sequence[int]) -> None:
        return None

    def max_lengths(self, encoded: Encoded) -> Tensor:
        return encoded.lengths

    def scorer(self, ilms: Mapping[str, Context]) -> Scorer:
        return AedScorer(self.aed, ilms)

    def new_context(self, config: IlmConfig) -> Context:
        return new_context(config, self.aed)

    def language_model(self, context: Context) -> LanguageModel:
        return InternalLm(self.aed.decoder, context)


@dataclass(frozen=True)
class System:
    """What is searched with. Terms: "aed", "lm", "ilm", "words" for given names and terms, "ctc" if it is asked for."""

    recogniser: Recogniser
    lm: LanguageModel | None = None
    ilm: Ilm | None = None
    ctc: bool = False  # score with the recogniser's CTC branch as well
    end_scored_by: Sequence[str] | None = None  # those of the terms that score the end label; None: as is usual for it
    names: dict[str, str] = field(default_factory=dict)  # what was loaded, for the N-best file's header
    words: Phrases | None = None  # names and terms that are rewarded

    def scorers(self, aed: Scorer | None = None) -> list[Scorer]:
        """aed: what scores the term "aed" in place of the recogniser, which then shares no products with its ILM."""
        contexts = {"ilm": self.ilm.context} if self.ilm is not None and self.ilm.context is not None else {}
        if aed is None:
            scorers = [self.recogniser.scorer(contexts)]
        else:
            language_model = self.recogniser.language_model
            scorers = [aed, *(LmScorer(language_model(context), term) for term, context in contexts.items())]
        if self.ilm is not None and self.ilm.separate is not None:
            scorers.append(LmScorer(self.ilm.separate, "ilm"))
        if self.lm is not None:
            words_only = isinstance(self.lm, WordNGram) and not self.end_by(["lm"])
            scorers.append(LmScorer(cast(WordNGram, self.lm).without_end() if words_only else self.lm))
        if self.words is not None:
            scorers.append(LmScorer(self.words, "words"))
        if self.ctc:
            if not isinstance(self.recogniser, AedRecogniser):
                raise FewerError("only a recogniser of `fewer train` has a CTC branch")
            scorers.append(CtcPrefixScorer(self.recogniser.aed))
        terms = [term for scorer in scorers for term in scorer.terms]
        if not self.end_by(terms):
            asked = ", ".join(self.end_scored_by or ())
            raise FewerError(f"the end label is to be scored by {asked}, but the terms are {', '.join(terms)}")
        return scorers

    def fusion(self, scales: Mapping[str, float], scorers: list[Scorer] | None = None) -> Fusion:
        """The search's score; `scorers` made before (by `scorers()`), or some of them, can be used again."""
        recogniser, scorers = self.recogniser, scorers or self.scorers()
        terms = [term for scorer in scorers for term in scorer.terms]
        by = self.end_by(terms)
        if "words" in terms:  # it takes back what an unfinished phrase got
            by.append("words")
        if "lm" in terms and isinstance(self.lm, WordNGram):  # the last word is scored where it ends
            by.append("lm")
        masks = (recogniser.suppress, recogniser.suppress_first)
        alone = {"aed": 1.0} if "aed" in terms else {}
        return Fusion(scorers, alone | dict(scales), recogniser.tokenizer.end, by, *masks, recogniser.longest_loop)

    def end_by(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that are to score the end label."""
        by = self.end_scored_by if self.end_scored_by is not None else self.recogniser.end_scored_by
        return [term for term in terms if by is None or term in by]


def load_recogniser(
    source: str | Path, language: str | None = None, task: str = "transcribe", cached: bool = False
) -> Recogniser:
    """A model folder of `fewer train`, or a Whisper: a folder of transformers, or a name on the Hugging Face hub.

    language, task: of a multilingual Whisper. cached: features of whole sets go through the cache of the model's
    training, if it has one.
    """
    from fewer.adaptation.bundle import is_bundle
    from fewer.recognisers.names import full_name
    from fewer.recognisers.whisper.recogniser import is_whisper, load_whisper

    source = full_name(source)
    if is_bundle(source):
        raise FewerError(f"{source} is a bundle of `fewer adapt`, not a model; `fewer decode` and `transcribe` take it")
    if is_whisper(source):
        return load_whisper(source, language, task)
    return AedRecogniser(load_model(source, cached=cached))


def keep_encodings(recogniser: Recogniser, folder: str | Path) -> None:
    """Let a recogniser keep its encoder states on disk, if it can."""
    from fewer.recognisers.whisper.recogniser import WhisperRecogniser

    if not isinstance(recogniser, WhisperRecogniser):
        raise FewerError("only a Whisper keeps its encoder states on disk; leave `encodings` out")
    recogniser.keep_encodings(folder)


def load_system(
    model: str | Path | Recogniser,
    lm: str | Path | None = None,
    ilm: str | Path | None = None,
    ctc: bool = False,
    end_scored_by: Sequence[str] | None = None,
    words: str | Path | None = None,
    language: str | None = None,
    task: str = "transcribe",
    cached: bool = False,
) -> System:
    """Load recogniser, LM, ILM and a list of names and terms, and make sure that they speak the same labels.

    language, task, cached: as in `load_recogniser`.
    """
    recogniser = load_recogniser(model, language, task, cached) if isinstance(model, str | Path) else model
    given: dict[str, Any] = {"model": model if isinstance(model, str | Path) else None, "lm": lm, "ilm": ilm}
    given["words"] = words
    return System(
        recogniser,
        None if lm is None else load_lm(lm, recogniser.tokenizer),
        None if ilm is None else _load_ilm(ilm, recogniser),
        ctc,
        end_scored_by,
        {name: str(value) for name, value in given.items() if value is not None},
        None if words is None else load_phrases(words, recogniser.tokenizer),
    )


def load_lm(source: str | Path, tokenizer: Tokenizer) -> LanguageModel:
    """A language model over `tokenizer`'s labels: a folder of `fewer train`, an n-gram file of labels or of words,
    hf:NAME of a Hugging Face causal LM, or the folder of one."""
    if (name := hugging_face(source)) is not None:
        from fewer.store.hf_lm import load_hf_lm

        return load_hf_lm(name, tokenizer.labels, tokenizer.end)
    path = Path(source)
    if is_ngram_file(path):
        return load_any_ngram(path, tokenizer)
    if not (path / CONFIG).exists():
        missing = "" if path.exists() else " (there is no such file or folder)"
        raise FewerError(
            f"{source} is no language model{missing}: give a folder of `fewer train`, an n-gram file (.arpa, .arpa.gz, "
            ".safetensors), or hf:NAME for a Hugging Face causal LM; of a KenLM binary, the ARPA file it was made from"
        )
    loaded = load_model(path)
    if loaded.tokenizer.fingerprint != tokenizer.fingerprint:
        raise FewerError(
            f"the LM {source} was trained with another tokenizer than the recogniser: "
            f"{loaded.tokenizer.size} labels against {tokenizer.size}; train it with the recogniser's tokenizer.json"
        )
    return loaded.lm


def load_phrases(path: str | Path, tokenizer: Tokenizer) -> Phrases:
    """A list of names and terms as what rewards them in `tokenizer`'s labels."""
    blanks = getattr(tokenizer, "leading_space", True)  # else words are not told apart, and any place will do
    pieces = label_pieces(tokenizer, WordStyle())
    starts = torch.tensor([piece.starts or not blanks for piece in pieces])
    ends = torch.tensor([piece.ends or not blanks for piece in pieces])
    splits = torch.tensor([_is_mark(piece.text) for piece in pieces])
    return Phrases(spellings(path, tokenizer), starts, ends, splits, tokenizer.end)


def _is_mark(text: bytes) -> bool:
    """Whether a text begins with something else than a letter, a digit or a part of one."""
    first = text.decode(errors="replace")[:1]
    return first not in ("", "\ufffd") and not first.isalnum()


def hugging_face(source: str | Path) -> str | None:
    """The name or folder of a Hugging Face LM, which is written hf:NAME; a folder of transformers is seen to be one."""
    if str(source).startswith("hf:"):
        return str(source).removeprefix("hf:")
    path = Path(source)
    return str(source) if (path / "config.json").exists() and not (path / CONFIG).exists() else None


def load_lm_and_tokenizer(source: str | Path, model: str | Path | None = None) -> tuple[LanguageModel, Any]:
    """A language model by itself; an n-gram file takes the tokenizer of the model folder `model`."""
    if (name := hugging_face(source)) is not None:
        from fewer.store.hf_lm import load_hf_text_lm

        return load_hf_text_lm(name)
    if not is_ngram_file(source):
        loaded = load_model(source)
        return loaded.lm, loaded.tokenizer
    if model is None:
        raise FewerError(f"{source} is an n-gram file: give a model folder whose tokenizer it was made with (--model)")
    tokenizer = load_tokenizer(Path(model) / TOKENIZER)
    return load_any_ngram(source, tokenizer), tokenizer


def _load_ilm(folder: str | Path, recogniser: Recogniser) -> Ilm:
    return load_ilm(folder, recogniser.loaded if isinstance(recogniser, AedRecogniser) else recogniser)
