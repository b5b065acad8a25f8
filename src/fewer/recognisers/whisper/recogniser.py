"""A Whisper model as a `Recogniser`, ready for fewer's beam search.

whisper = load_whisper("openai/whisper-tiny.en")
encoded = whisper.listen([samples])  # 16 kHz, one channel
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
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
from fewer.models.encoded import Encoded
from fewer.recognisers.transformers.decoder import AttentionDecoder
from fewer.recognisers.transformers.families import FAMILIES
from fewer.recognisers.transformers.features import TOO_LONG
from fewer.recognisers.transformers.internal_lm import AttentionLm
from fewer.recognisers.transformers.loading import load_weights, model_name
from fewer.recognisers.transformers.recogniser import AT_ONCE, DEFAULTS, HEARD, AttentionRecogniser, weights_fingerprint
from fewer.recognisers.whisper.alignment import Aligner, alignment_heads
from fewer.recognisers.whisper.features import LogMel
from fewer.recognisers.whisper.network import read_whisper
from fewer.recognisers.whisper.prompt import (
    START,
    has_blanks,
    language_labels,
    never_written,
    prompt_labels,
    suppressed,
)
from fewer.store.kept import KeptTensors

MERGED = 4  # states of the silence behind an utterance that are computed as one, where speed is wanted
PREPROCESSOR = "preprocessor_config.json"  # in model folders of transformers


class WhisperRecogniser(AttentionRecogniser):
    """Encoder, decoder, tokenizer and features of a Whisper, for one language and task."""

    tokenizer: WhisperTokenizer

    def __init__(
        self,
        model: Any,
        tokenizer: WhisperTokenizer,
        features: LogMel,
        language: str | None,
        task: str,
        name: str,
        placement: Placement = CPU,
        detect: bool = False,
    ):
        """model: a WhisperForConditionalGeneration or a `network.Whisper`, whose encoder is taken over.

        name: where it is from. placement: the device, and the precision of the encoder; float32: as it is.
        detect: `in_language` will say what is spoken, if the model knows several languages and none is given.
        """
        self.device, self.precision = placement
        generation = model.generation_config
        self.tokenizer = tokenizer
        self.features = features
        self.languages = language_labels(generation, tokenizer)
        self.name, self.task = name, task
        suppress, suppress_first = suppressed(generation, tokenizer)
        self.never_written = never_written(suppress, tokenizer)
        self.suppress, self.suppress_first = suppress.to(self.device), suppress_first.to(self.device)
        self.given = model.state_dict()  # until its fingerprint is asked for
        family = FAMILIES["whisper"]
        decoder = AttentionDecoder(model, family.layout, family.positions(model.model.decoder))
        self.attend_by(decoder.to(self.device))
        merged = MERGED if self.precision == "int8" else 1
        self.encoder = WhisperEncoder(reduced(model.get_encoder(), self.precision).to(self.device), merged)
        self.no_speech_label = tokenizer.labels.index(NO_TIMESTAMPS) - 1  # <|nospeech|>; older files: <|nocaptions|>
        self.alignment_heads = alignment_heads(generation, len(self.decoder.layers), self.decoder.heads)
        self.sampling_rate = self.features.sampling_rate
        self.longest = self.features.max_samples / self.sampling_rate
        self.at_once = max(1, min(AT_ONCE, int(HEARD // self.heard(self.encoder.states))))
        self.must_detect = detect and language is None and bool(self.languages)
        self._speak(language)

    def _speak(self, language: str | None) -> None:
        """Set all that depends on the language."""
        self.language, tokenizer = language, self.tokenizer
        start = [tokenizer.labels.index(START)]
        self.prompt = start if self.must_detect else prompt_labels(self.languages, tokenizer, language, self.task)
        self.defaults = replace(DEFAULTS, normaliser=_normaliser(self.name, language, self.task))
        self.aligner = Aligner(self.listening, self.prompt, self.alignment_heads)

    @cached_property
    def weights(self) -> str:
        """Their fingerprint, which takes longer than a short utterance."""
        found = weights_fingerprint(self.given)
        self.given = {}
        return found

    def __getstate__(self) -> dict[str, Any]:
        """For another process, which does not need the weights twice."""
        return {"weights": self.weights, **vars(self)}

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
        return fingerprint(self.weights, self.tokenizer.fingerprint, str(self.prompt))

    def batches(self, manifest: Manifest, config: UtteranceConfig, transcripts: bool = False) -> UtteranceBatches:
        """Utterances as Whisper hears them; so few in a batch that what the decoder keeps of them has room.

        transcripts: they are there, and wanted as labels.
        """
        most = how_many(self.device, self.footprint(self.longest)) or min(config.max_sequences, self.at_once)
        longest = self.features.max_frames + int(TOO_LONG / self.features.frame_shift)
        update = {"max_size": max(config.max_size, most * longest), "max_sequences": most}  # all are padded to 30 s
        tokenizer = self.tokenizer if transcripts else None
        return UtteranceBatches(manifest, self.features, tokenizer, config.model_copy(update=update))

    def footprint(self, seconds: float) -> float:
        """Whatever its length: all is padded to 30 s. What a layer of the encoder makes, and what the decoder keeps."""
        states = self.encoder.states
        layer = states * (10 * self.decoder.size + self.encoder.config.encoder_attention_heads * states)
        return self.heard(states) + self.searched() + 4 * layer

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
        first = AttentionLm(self.quick, self.listening, self.prompt[:1]).log_probs(start, encoded)
        return first[:, 0, self.no_speech_label].exp()

    @torch.inference_mode()
    def detect_language(self, encoded: Encoded) -> list[tuple[str, float]]:
        """The most likely first label among the languages, as in openai/whisper."""
        start = torch.full((len(encoded), 1), self.prompt[0], device=encoded.states.device)
        first = AttentionLm(self.quick, self.listening, self.prompt[:1]).log_probs(start, encoded)[:, 0]  # (B, V)
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

    def prompt_length(self, row: Tensor) -> int:
        """Labels before the prompt may be an earlier text."""
        places = (row == self.prompt[-1]).nonzero()
        if not len(places):
            raise FewerError(
                "the language model knows no timestamps: call generate(…, return_timestamps=False) for at most 30 s "
                "of audio, or `fewer transcribe` for long files"
            )
        return int(places[-1]) + 1

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
    name = model_name(source)
    model = read_whisper(Path(name))
    if model is None:
        model = load_weights(name, FAMILIES["whisper"], lambda config: check_model(config, name))
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
    name = str(model.config.name_or_path if source is None else source)
    check_generation(model.generation_config, model.config, name)
    with loading(name, f"{name}/preprocessor_config.json: cannot load what the Whisper hears"):
        features = LogMel(check_preprocessor(_preprocessor(name), model.config, name))
    blanks = has_blanks(language, task)
    tokenizer = WhisperTokenizer.from_pretrained(name, model.config.vocab_size, leading_space=blanks)
    placement = placement or Placement(model.device)
    try:
        return WhisperRecogniser(model, tokenizer, features, language, task, name, placement, detect)
    except FewerError as error:
        raise FewerError(f"{name}: {error}") from error


def _preprocessor(name: str) -> dict[str, Any]:
    """What preprocessor_config.json says."""
    if Path(name).is_dir():
        return read_json_object(Path(name) / PREPROCESSOR)
    from transformers import WhisperFeatureExtractor

    values: dict[str, Any] = WhisperFeatureExtractor.get_feature_extractor_dict(name)[0]
    return values


def _normaliser(name: str, language: str | None, task: str) -> str:
    """As in Whisper's paper: for English one that knows spellings, if the model has their table, else a simple one."""
    if language not in (None, "en") and task != "translate":
        return "basic"
    table = Path(name) / "normalizer.json"
    return f"english:{table}" if table.exists() else "english"
