"""Encoder-decoders of transformers as recognisers: what Whisper and the other families share, and the others."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fewer.compute.device import CPU, Placement
from fewer.compute.memory import how_many
from fewer.compute.precision import reduced
from fewer.data.batches import Batch, UtteranceBatches, UtteranceConfig, pad
from fewer.data.hf_tokens import FastTokenizer, PieceTokenizer
from fewer.data.manifest import Manifest
from fewer.data.style import Look, PlainStyle, Style, WhisperStyle
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.models.context import Context
from fewer.models.encoded import Encoded
from fewer.recognisers.recogniser import Defaults, Recogniser, Sizes
from fewer.recognisers.transformers.contexts import Listening
from fewer.recognisers.transformers.decoder import AttentionDecoder
from fewer.recognisers.transformers.families import Family, prompt_of
from fewer.recognisers.transformers.features import TOO_LONG, Encoder, Samples
from fewer.recognisers.transformers.internal_lm import AttentionLm
from fewer.recognisers.transformers.scorer import AttentionScorer
from fewer.search.beam import SearchOptions
from fewer.search.nbest import LengthPolicy

AT_ONCE = 32  # utterances at most that are searched together
HEARD = 1 << 30  # bytes of keys and values of the encoder states that a batch may have
MARKS = '"#$%&()*+,-./:;<=>?@[\\]^_`{|}~!'  # signs that a text may have and a vocabulary may lack

# Small scales, chosen with Whisper. Language models are centred, so the length policy is that of the recogniser alone:
# on long recordings un-normalised scores lose text, even without a language model, and averages lose less the more they
# favour length.
EXPONENT = 1.5
DEFAULTS = Defaults(
    search=SearchOptions(beam=5, length=LengthPolicy(EXPONENT)),
    end_scored_by=("aed",),  # internal LMs hardly ever predict the end of an utterance
    centred=True,  # attention may jump over speech; un-centred LMs would reward that
    longest_loop=32,  # a decoder may repeat itself; a subtracted internal LM would reward it
    share=0.5,  # with little text, what an LM never saw would cost too much
    method="zero_encoder",
    lm=0.3,
    ilm=0.3,
    sf_lm=0.13,
    hotwords=1.5,  # results/hotwords.md
    tuning={
        "space": {"length": "exponent", "scale_range": (0.0, 1.0), "exponent_range": (EXPONENT, EXPONENT)},
        "start": ({}, {"lm": 0.13}, {"lm": 0.3, "ilm": 0.3}),
    },
)


class AttentionRecogniser(Recogniser):
    """What all recognisers with an `AttentionDecoder` share."""

    decoder: AttentionDecoder
    prompt: list[int]  # what the decoder reads before any label
    attention: Listening
    precision: str
    special_first = False  # the context is asked at every position, the prompt's included

    def attend_by(self, decoder: AttentionDecoder) -> None:
        """Set the decoder and all that depends on it."""
        self.decoder, self.attention = decoder, Listening(decoder)
        self.quick = decoder.for_search(self.precision)
        self.listening = self.attention if self.quick is decoder else Listening(self.quick)
        self.sizes = Sizes(decoder.size, self.attention.size, decoder.size, None)

    def heard(self, states: float) -> float:
        """Bytes of the keys and values of so many encoder states."""
        return 2 * len(self.decoder.layers) * self.decoder.width * states * 4

    def searched(self) -> float:
        """Bytes of keys and values, under two contexts, of half of the longest hypotheses; scores."""
        beam = self.defaults.search.beam
        past = 2 * 2 * len(self.decoder.layers) * self.decoder.width * beam * self.decoder.positions / 2
        return 4 * (past + 8 * beam * self.tokenizer.size)

    def scorer(self, ilms: Mapping[str, Context]) -> AttentionScorer:
        return AttentionScorer(self.quick, self.prompt, {"aed": self.listening, **ilms})

    def language_model(self, context: Context) -> AttentionLm:
        return AttentionLm(self.decoder, context, self.prompt)

    def hear_only(self, state: Tensor) -> Tensor:
        return self.decoder.hear_only(state)

    def teacher_forced_contexts(self, encoded: Encoded, labels: Tensor) -> Tensor:
        return self.language_model(self.attention).contexts(labels, encoded)

    def max_lengths(self, encoded: Encoded) -> Tensor:
        """As many labels as the decoder has positions for. (B,)"""
        return torch.full_like(encoded.lengths, self.decoder.positions - len(self.prompt))

    def prompt_length(self, row: Tensor) -> int:
        """The prompt, which `generate` got as decoder_input_ids, or begins with by itself."""
        if row[: len(self.prompt)].tolist() != self.prompt:
            found = row[: len(self.prompt)].tolist()
            raise FewerError(
                f"generate() begins with the labels {found}, but the language models are for {self.prompt}: "
                "give the language for which they were loaded"
            )
        return len(self.prompt)

    def ilm_options(self, trained: bool) -> dict[str, Any]:
        """Without smoothing; each label may have some 50,000 scores."""
        return {"smoothing": 0.0, "batch": 1000}


class FamilyRecogniser(AttentionRecogniser):
    """Encoder, decoder, tokenizer and features of a model of one of the families, for one language and task."""

    tokenizer: FastTokenizer | PieceTokenizer

    def __init__(
        self,
        model: Any,
        family: Family,
        tokenizer: FastTokenizer | PieceTokenizer,
        extractor: Any,
        language: str | None = None,
        task: str = "transcribe",
        placement: Placement = CPU,
        detect: bool = False,
    ):
        """model: a …ForConditionalGeneration, whose encoder is taken over. extractor: its feature extractor.

        placement: the device, and the precision of the encoder; float32: as it is. detect: a language that is not
        given would be detected, which these families cannot.
        """
        self.device, self.precision = placement
        self.tokenizer, self.task, self.language = tokenizer, task, language
        self.state, self.labels_per_second = family.state, family.labels_per_second
        generation = model.generation_config
        start = generation.decoder_start_token_id
        start = generation.bos_token_id if start is None else start
        self.prompt = prompt_of(family, tokenizer, start, language, task, detect)
        suppress, suppress_first = suppressed(generation, tokenizer)
        self.suppress, self.suppress_first = suppress.to(self.device), suppress_first.to(self.device)
        weights = weights_fingerprint(model.state_dict())
        self.fingerprint = fingerprint(weights, tokenizer.fingerprint, str(self.prompt))
        given = model.model.decoder
        decoder = AttentionDecoder(model, family.layout, family.positions(given), family.scaled).to(self.device)
        self.attend_by(decoder)
        bridge = family.bridge(given).float().to(self.device)
        encoder = reduced(model.model.encoder, self.precision).to(self.device)
        self.encoder = Encoder(encoder, bridge, extractor, dict(family.extractor))
        self.sampling_rate, self.silence, self.longest = extractor.sampling_rate, family.silence, family.longest
        self.features = Samples(self.sampling_rate, self.longest)
        self.at_once = max(1, min(AT_ONCE, int(HEARD // self.heard(self.longest / family.state))))
        english = language in (None, "en") or task == "translate"
        self.defaults = replace(DEFAULTS, normaliser="english" if english else "basic")

    def batches(self, manifest: Manifest, config: UtteranceConfig, transcripts: bool = False) -> UtteranceBatches:
        """Utterances as samples; so few in a batch that what the decoder keeps of them has room."""
        most = how_many(self.device, self.footprint(self.longest)) or min(config.max_sequences, self.at_once)
        longest = self.features.max_samples + TOO_LONG * self.sampling_rate
        update = {"max_size": most * longest, "max_sequences": most, "allow_unknown": True}
        tokenizer = self.tokenizer if transcripts else None
        return UtteranceBatches(manifest, self.features, tokenizer, config.model_copy(update=update))

    def footprint(self, seconds: float) -> float:
        """Utterances are encoded one by one, so the encoder's share does not grow with their number."""
        return self.heard(seconds / self.state) + self.searched()

    def encode(self, batch: Batch) -> Encoded:
        lengths = batch.feature_lengths.tolist()
        return self.listen([samples[:length, 0] for samples, length in zip(batch.features, lengths, strict=True)])

    @torch.inference_mode()
    def listen(self, waveforms: Sequence[Tensor]) -> Encoded:
        states = [self._states(self.features.filled(samples)).to(self.device) for samples in waveforms]
        padded, lengths = pad(states, torch.zeros(0, self.decoder.size, device=self.device))
        return Encoded(padded, lengths.to(self.device))

    def _states(self, samples: Tensor) -> Tensor:
        """They may be kept: they take as long as a search. (T,) -> (states, D)"""
        if self.encodings is None:
            return self.encoder(samples)
        key = fingerprint(samples.contiguous().numpy().tobytes())[:32]
        return self.encodings.get(key, lambda: {"states": self.encoder(samples)})["states"]

    def max_lengths(self, encoded: Encoded) -> Tensor:
        """As many labels as the decoder has positions for, and no more than are ever said in the time. (B,)"""
        most = super().max_lengths(encoded)
        if self.labels_per_second is None:
            return most
        said = 1 + (encoded.lengths * self.state * self.labels_per_second).ceil().long()
        return torch.minimum(most, said)

    @cached_property
    def _signs(self) -> set[str]:
        return set("".join(self.tokenizer.written()))

    def style(self, look: Look, casing: Callable[[], Mapping[str, str]]) -> Style:
        """Sentences if the vocabulary has letters of both cases and a full stop; else as its letters are."""
        signs = "".join(self._signs)
        if signs == signs.lower() or signs == signs.upper() or "." not in self._signs:
            return PlainStyle(["", *self.tokenizer.written()])
        bytes_spell = any(label == "<0x0A>" or label == "Ċ" for label in self.tokenizer.labels)
        never = set() if bytes_spell else {mark for mark in MARKS if mark not in self._signs}
        return WhisperStyle(look, never, {} if look.cased else casing(), self.language in (None, "en"))


def suppressed(generation: Any, tokenizer: FastTokenizer | PieceTokenizer) -> tuple[Tensor, Tensor]:
    """Labels that never come, and those that never come first. (V,) bool each

    All that write nothing, the unknown label, and what the model's own generation config names.
    """
    never = torch.zeros(tokenizer.size, dtype=torch.bool)
    never[sorted(tokenizer.special)] = True
    if tokenizer.unknown is not None:
        never[tokenizer.unknown] = True
    never[_ids(generation.suppress_tokens, tokenizer.size)] = True
    never[tokenizer.end] = False
    first = never.clone()
    first[_ids(generation.begin_suppress_tokens, tokenizer.size)] = True
    return never, first


def _ids(given: Sequence[int] | None, size: int) -> list[int]:
    for id in given or ():
        if not isinstance(id, int) or id >= size:
            raise FewerError(f"generation_config.json: {id!r} is suppressed, but the model has {size:,} labels")
    return [id for id in given or () if id >= 0]


def weights_fingerprint(weights: Mapping[str, Any]) -> str:
    """Of all weights as they are used, so that a copy of a model in another file format is the same recogniser."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy())
    return digest.hexdigest()
