"""A Whisper model as a `Recogniser`, ready for fewer's beam search.

whisper = load_whisper("openai/whisper-tiny.en")
encoded = whisper.listen([samples])  # 16 kHz, one channel
"""

import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewer.compute.device import CPU, Placement
from fewer.compute.memory import how_many
from fewer.compute.precision import reduced
from fewer.data.batches import Batch, UtteranceBatches, UtteranceConfig, pad
from fewer.data.manifest import Manifest
from fewer.data.style import Look, Style, WhisperStyle
from fewer.data.whisper_checks import check_generation, check_model, check_preprocessor
from fewer.data.whisper_encoder import WhisperEncoder
from fewer.data.whisper_tokens import NO_TIMESTAMPS, WhisperTokenizer
from fewer.errors import FewerError
from fewer.files import fingerprint, read_json_object
from fewer.hugging_face import loading
from fewer.models.context import Context
from fewer.models.encoded import Encoded
from fewer.progress import quiet_loading
from fewer.recognisers.recogniser import Defaults, Recogniser, Sizes
from fewer.recognisers.whisper.alignment import Aligner, alignment_heads
from fewer.recognisers.whisper.contexts import Listening
from fewer.recognisers.whisper.decoder import WhisperDecoder
from fewer.recognisers.whisper.features import TOO_LONG, LogMel
from fewer.recognisers.whisper.internal_lm import WhisperLm
from fewer.recognisers.whisper.prompt import (
    START,
    has_blanks,
    language_labels,
    never_written,
    prompt_labels,
    suppressed,
)
from fewer.recognisers.whisper.scorer import WhisperScorer
from fewer.search.beam import SearchOptions
from fewer.store.kept import KeptTensors

CONFIG, GENERATION = "config.json", "generation_config.json"  # in model folders of transformers
AT_ONCE = 32  # utterances at most that are searched together
HEARD = 1 << 30  # bytes of keys and values of the encoder states that a batch may have


# Small scales. Language models are centred, so the length policy is that of Whisper alone: on long recordings
# un-normalised scores lose text, even without a language model.
DEFAULTS = Defaults(
    search=SearchOptions(beam=5),
    end_scored_by=("aed",),  # internal LMs hardly ever predict the end of an utterance
    centred=True,  # its attention may jump over speech; un-centred LMs would reward that
    longest_loop=32,  # Whisper may repeat itself; a subtracted internal LM would reward it
    share=0.5,  # with little text, what an LM never saw would cost too much
    method="zero_encoder",
    lm=0.3,
    ilm=0.3,
    sf_lm=0.13,
    tuning={
        "space": {"length": "exponent", "scale_range": (0.0, 1.0), "exponent_range": (1.0, 1.0)},
        "start": ({}, {"lm": 0.13}, {"lm": 0.3, "ilm": 0.3}),
    },
)


class WhisperRecogniser(Recogniser):
    """Encoder, decoder, tokenizer and features of a Whisper, for one language and task."""

    tokenizer: WhisperTokenizer
    special_first = False  # the context is asked at every position, the prompt's included

    def __init__(
        self,
        model: Any,
        tokenizer: WhisperTokenizer,
        extractor: Any,
        language: str | None,
        task: str,
        name: str,
        placement: Placement = CPU,
        detect: bool = False,
    ):
        """model: a WhisperForConditionalGeneration, whose encoder is taken over. extractor: a WhisperFeatureExtractor.

        name: where it is from. placement: the device, and the precision of the encoder; float32: as it is.
        detect: `in_language` will say what is spoken, if the model knows several languages and none is given.
        """
        self.device, self.precision = placement
        generation = model.generation_config
        self.tokenizer = tokenizer
        self.features = LogMel(extractor)
        self.languages = language_labels(generation, tokenizer)
        self.name, self.task = name, task
        suppress, suppress_first = suppressed(generation, tokenizer)
        self.never_written = never_written(suppress, tokenizer)
        self.suppress, self.suppress_first = suppress.to(self.device), suppress_first.to(self.device)
        self.weights = _weights_fingerprint(model)
        self.decoder = WhisperDecoder.from_transformers(model).to(self.device)
        self.encoder = WhisperEncoder(reduced(model.get_encoder(), self.precision).to(self.device))
        self.attention = Listening(self.decoder)
        self.sizes = Sizes(self.decoder.size, self.attention.size, self.decoder.size, None)
        self.no_speech_label = tokenizer.labels.index(NO_TIMESTAMPS) - 1  # <|nospeech|>; older files: <|nocaptions|>
        self.alignment_heads = alignment_heads(generation, len(self.decoder.layers), self.decoder.heads)
        self.sampling_rate = self.features.sampling_rate
        self.longest = self.features.max_samples / self.sampling_rate
        self.at_once = max(1, min(AT_ONCE, HEARD // self._heard))
        self.must_detect = detect and language is None and bool(self.languages)
        self._speak(language)

    def _speak(self, language: str | None) -> None:
        """Set all that depends on the language."""
        self.language, tokenizer = language, self.tokenizer
        start = [tokenizer.labels.index(START)]
        self.prompt = start if self.must_detect else prompt_labels(self.languages, tokenizer, language, self.task)
        self.prompt_end = self.prompt[-1]
        self.defaults = replace(DEFAULTS, normaliser=_normaliser(self.name, language, self.task))
        self.fingerprint = fingerprint(self.weights, tokenizer.fingerprint, str(self.prompt))
        self.aligner = Aligner(self.decoder, self.prompt, self.alignment_heads)

    def batches(self, manifest: Manifest, config: UtteranceConfig, transcripts: bool = False) -> UtteranceBatches:
        """Utterances as Whisper hears them; so few in a batch that what the decoder keeps of them has room.

        transcripts: they are there, and wanted as labels.
        """
        most = how_many(self.device, self.footprint(self.longest)) or min(config.max_sequences, self.at_once)
        longest = self.features.max_frames + int(TOO_LONG / self.features.frame_shift)
        update = {"max_size": max(config.max_size, most * longest), "max_sequences": most}  # all are padded to 30 s
        tokenizer = self.tokenizer if transcripts else None
        return UtteranceBatches(manifest, self.features, tokenizer, config.model_copy(update=update))

    @property
    def _heard(self) -> int:
        """Bytes of the keys and values of an utterance's encoder states."""
        return 2 * self.attention.size * self.encoder.states * 4

    def footprint(self, seconds: float) -> float:
        """Whatever its length: all is padded to 30 s. Keys and values of the encoder states and, under two contexts, of
        half of the longest hypotheses; what a layer of the encoder makes; scores."""
        beam, states = self.defaults.search.beam, self.encoder.states
        past = 2 * 2 * self.attention.size * beam * self.decoder.positions / 2
        layer = states * (10 * self.decoder.size + self.encoder.config.encoder_attention_heads * states)
        return self._heard + 4 * (past + layer + 8 * beam * self.tokenizer.size)

    def encode(self, batch: Batch) -> Encoded:
        return self._encode(batch.features, batch.feature_lengths)

    def listen(self, waveforms: Sequence[Tensor]) -> Encoded:
        """Encode utterances of at most 30 s, one channel at 16 kHz each. (samples,) each"""
        features, lengths = pad([self.features(samples) for samples in waveforms], torch.zeros(0, self.features.dim))
        return self._encode(features, lengths)

    def _encode(self, features: Tensor, lengths: Tensor) -> Encoded:
        """Attention also sees the states behind the speech, of the padding to 30 s. (B, T, F), (B,)"""
        states = self._states([mel[:length] for mel, length in zip(features, lengths.tolist(), strict=True)])
        lengths = ((lengths + 1) // 2).to(self.device)
        return Encoded(states, lengths, torch.full_like(lengths, self.encoder.states))

    @torch.inference_mode()
    def _states(self, speech: Sequence[Tensor]) -> Tensor:
        """Those of each utterance may be kept: they take as long as a search. (T, F) each -> (B, states, D)"""
        if self.encodings is None:
            return self.encoder.windows(speech)
        kept = [self._kept(mel, self.encodings) for mel in speech]
        return torch.stack([states.to(self.device) for states in kept])

    def _kept(self, speech: Tensor, encodings: KeptTensors) -> Tensor:
        key = fingerprint(speech.contiguous().numpy().tobytes())[:32]
        return encodings.get(key, lambda: {"states": self.encoder.windows([speech])[0]})["states"]

    @torch.inference_mode()
    def no_speech(self, encoded: Encoded) -> Tensor:
        """P(<|nospeech|>) as the very first label. (B,)"""
        start = torch.full((len(encoded), 1), self.prompt[0], device=encoded.states.device)
        first = WhisperLm(self.decoder, self.attention, self.prompt[:1]).log_probs(start, encoded)
        return first[:, 0, self.no_speech_label].exp()

    @torch.inference_mode()
    def detect_language(self, encoded: Encoded) -> list[tuple[str, float]]:
        """The most likely first label among the languages, as in openai/whisper."""
        start = torch.full((len(encoded), 1), self.prompt[0], device=encoded.states.device)
        first = WhisperLm(self.decoder, self.attention, self.prompt[:1]).log_probs(start, encoded)[:, 0]  # (B, V)
        names = list(self.languages)
        probs = first[:, list(self.languages.values())].softmax(dim=-1)  # (B, languages)
        return [(names[place], float(prob)) for prob, place in zip(*probs.max(dim=-1), strict=True)]

    def in_language(self, language: str) -> "WhisperRecogniser":
        other = copy.copy(self)
        other.must_detect = False
        tokens, blanks = self.tokenizer, has_blanks(language, self.task)
        if tokens.leading_space != blanks:
            other.tokenizer = WhisperTokenizer(tokens.tokens, tokens.size, blanks)
        other._speak(language)
        return other

    def times(self, encoded: Encoded, labels: Sequence[int]) -> list[tuple[float, float]]:
        """When each label of the one utterance was said."""
        return self.aligner.times(encoded, labels)

    def max_lengths(self, encoded: Encoded) -> Tensor:
        """As many labels as the decoder has positions for. (B,)"""
        return torch.full_like(encoded.lengths, self.decoder.positions - len(self.prompt))

    def scorer(self, ilms: Mapping[str, Context]) -> WhisperScorer:
        return WhisperScorer(self.decoder, self.prompt, {"aed": self.attention, **ilms})

    def language_model(self, context: Context) -> WhisperLm:
        return WhisperLm(self.decoder, context, self.prompt)

    def hear_only(self, state: Tensor) -> Tensor:
        return self.decoder.hear_only(state)

    def teacher_forced_contexts(self, encoded: Encoded, labels: Tensor) -> Tensor:
        return self.language_model(self.attention).contexts(labels, encoded)

    def ilm_options(self, trained: bool) -> dict[str, Any]:
        """Whisper was trained without smoothing; each label has some 50,000 scores."""
        return {"smoothing": 0.0, "batch": 1000}

    def style(self, look: Look, casing: Callable[[], Mapping[str, str]]) -> Style:
        casing_of_names = {} if look.cased else casing()
        return WhisperStyle(look, self.never_written, casing_of_names, self.language in (None, "en"))


def load_whisper(
    source: str | Path,
    language: str | None = None,
    task: str = "transcribe",
    placement: Placement = CPU,
    detect: bool = False,
) -> WhisperRecogniser:
    """A Whisper from a local folder of transformers or from the Hugging Face hub.

    language: what is spoken, such as "de"; needed for multilingual models, unless it will be detected.
    task: transcribe, or translate to English.
    """
    try:
        from transformers import AutoConfig, WhisperForConditionalGeneration
    except ImportError as error:
        raise FewerError("Whisper needs transformers: pip install 'fewer[hf]'") from error
    path = Path(source).expanduser()
    name = str(path) if path.is_dir() else str(source)
    missing = "" if path.is_dir() else ", which is no folder here either"
    problem = f"cannot load the Whisper {source}{missing}"
    for file in (path / CONFIG, path / GENERATION):
        if file.exists():
            read_json_object(file)  # transformers would do without a damaged one, or not name it
    with loading(name, f"{path / CONFIG}: {problem}" if path.is_dir() else problem):
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
    _check_kind(config, source)
    check_model(config, name)
    weights = f"cannot load the weights that {path / CONFIG} describes" if path.is_dir() else problem
    with loading(name, weights), quiet_loading(name):
        model = _read_weights(WhisperForConditionalGeneration, name)
    return around_whisper(model, language, task, name, placement, detect)


def around_whisper(
    model: Any,
    language: str | None = None,
    task: str = "transcribe",
    source: str | Path | None = None,
    placement: Placement | None = None,
    detect: bool = False,
) -> WhisperRecogniser:
    """A WhisperForConditionalGeneration with tokenizer and features from `source`, or from where it was loaded.

    placement: None: it stays where it is.
    """
    from transformers import WhisperFeatureExtractor

    name = str(model.config.name_or_path if source is None else source)
    check_generation(model.generation_config, model.config, name)
    with loading(name, f"{name}/preprocessor_config.json: cannot load what the Whisper hears"):
        check_preprocessor(WhisperFeatureExtractor.get_feature_extractor_dict(name)[0], model.config, name)
        extractor = WhisperFeatureExtractor.from_pretrained(name, trust_remote_code=False)
    blanks = has_blanks(language, task)
    tokenizer = WhisperTokenizer.from_pretrained(name, model.config.vocab_size, leading_space=blanks)
    placement = placement or Placement(model.device)
    try:
        return WhisperRecogniser(model, tokenizer, extractor, language, task, name, placement, detect)
    except FewerError as error:
        raise FewerError(f"{name}: {error}") from error


def unrounded(model: Any) -> Any:
    """A WhisperForConditionalGeneration with the weights of its checkpoint, if it was loaded in a lower precision.

    Bundles and internal LMs know the model that they belong to by these weights.
    """
    name = str(model.config.name_or_path)
    if model.dtype == torch.float32 or not name:
        return model
    with loading(name, f"cannot load the weights of {name} in full precision"), quiet_loading(name):
        whole = _read_weights(type(model), name)
    own, theirs = model.state_dict(), whole.state_dict()
    same = own.keys() == theirs.keys()
    same = same and all(torch.equal(own[key].cpu(), theirs[key].to(own[key].dtype)) for key in own)
    return whole.to(model.device) if same else model


def _read_weights(kind: Any, name: str) -> Any:
    return kind.from_pretrained(name, dtype=torch.float32, trust_remote_code=False, use_safetensors=True)


def _normaliser(name: str, language: str | None, task: str) -> str:
    """As in Whisper's paper: for English one that knows spellings, if the model has their table, else a simple one."""
    if language not in (None, "en") and task != "translate":
        return "basic"
    table = Path(name) / "normalizer.json"
    return f"english:{table}" if table.exists() else "english"


def _check_kind(config: Any, source: str | Path) -> None:
    """Only an encoder-decoder with attention has an internal LM to subtract, and only Whisper's is known here."""
    if config.model_type == "whisper":
        return
    what = f"{source} is a model of type '{config.model_type}'"
    if not getattr(config, "is_encoder_decoder", False):
        raise FewerError(f"{what}, which is not an attention-based encoder-decoder recogniser; give a Whisper")
    raise FewerError(f"{what}; of the encoder-decoders of transformers only Whisper is supported")


def _weights_fingerprint(model: Any) -> str:
    """Of all weights as they are used, so that a copy of a model in another file format is the same recogniser."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy())
    return digest.hexdigest()
