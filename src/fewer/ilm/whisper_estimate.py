"""Estimating Whisper's internal LM by any method."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewer.compute.world import World
from fewer.data.batches import Batch, UtteranceBatches, UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import store_tokens
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.ilm.averages import Mean
from fewer.ilm.distillation import TaughtBatches, TeachingTask, write_teacher
from fewer.ilm.estimate import Estimator, ilm_perplexity
from fewer.ilm.folder import load_ilm
from fewer.ilm.methods import AUDIO, UNMEASURED, IlmConfig
from fewer.ilm.own import own_estimator, own_source
from fewer.ilm.perplexity import perplexity, shown
from fewer.ilm.training import train_context
from fewer.models.context import ConstantContext, Context
from fewer.models.encoded import Encoded, length_mask
from fewer.recognisers.whisper.contexts import FixedAudioContext, cross_sequence, hear_only
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from fewer.training.lm_task import LmTask

LABELS = 1000  # in a batch: each has some 50,000 scores
DEFAULTS = {"smoothing": 0.0, "batch": LABELS}  # Whisper was trained without smoothing
BATCH = UtteranceConfig(max_size=16_000, max_sequences=32, order="sorted")


class WhisperEstimator(Estimator):
    """From a Whisper: loaded, or by its name on the hub or its folder."""

    recogniser: WhisperRecogniser

    def __init__(self, config: IlmConfig, model: Any, out: Path, world: World):
        config = config.model_copy(update={k: v for k, v in DEFAULTS.items() if k not in config.model_fields_set})
        if config.method in ("decoder_like", "state_ff"):
            raise FewerError(f"{config.method} is for LSTM decoders; Whisper's is a Transformer: take mini_lstm or dr")
        if isinstance(model, str | Path):
            model = load_whisper(model, config.language, device=str(world.device))
        super().__init__(config, model, out, world)
        self.decoder = self.recogniser.decoder
        if config.encodings is not None:
            self.recogniser.keep_encodings(config.encodings)

    def batches(self, manifest: Manifest, transcripts: bool) -> UtteranceBatches:
        return self.recogniser.batches(manifest, BATCH, transcripts)

    def context(self, train: Path | None, dev: Path | None) -> Context:
        config, recogniser = self.config, self.recogniser
        own = own_estimator(config.method)
        if own is not None and own.measure is not None:
            raise FewerError(f"{own.name} is measured, which is for recognisers of `fewer train`; Whisper's is trained")
        if config.method in UNMEASURED or (own is not None and not own.trained):
            return recogniser.new_context(config)
        if config.method in AUDIO:
            return FixedAudioContext(self.decoder, self.fixed_recording())
        assert train is not None
        if config.method == "enc_avg":
            return ConstantContext(hear_only(self.decoder, self.encoder_mean(train)), special_first=False)
        if config.method == "ctx_avg":
            return ConstantContext(self.cross_mean(train), special_first=False)
        assert dev is not None
        source = own_source(config.method)
        marks = fingerprint(config.model_dump_json(), recogniser.fingerprint, *source, train, dev)
        if config.method == "distilled":
            task: Any = TeachingTask(config, recogniser, self.taught(train), self.taught(dev))
        else:
            sets = (self.sentences(train), self.sentences(dev))
            task = LmTask(lambda: recogniser.language_model(recogniser.new_context(config)), *sets, config.smoothing)
        return train_context(config, task, self.out, self.world, marks)

    def encoder_mean(self, train: Path) -> Tensor:
        """The mean encoder state over all speech of a set. (D,)"""
        mean = Mean(self.decoder.size, self.world)
        for _, encoded in self.heard(train, transcripts=False):
            mean.add(encoded.states, encoded.mask)
        return mean.result()

    @torch.inference_mode()
    def cross_mean(self, train: Path) -> Tensor:
        """The mean of what each cross-attention block adds, over all labels, teacher-forced. (layers · D,)"""
        recogniser, means = self.recogniser, [Mean(self.decoder.size, self.world) for _ in self.decoder.layers]
        lm = recogniser.language_model(recogniser.attention)
        for batch, encoded in self.heard(train):
            embedded = lm.inputs(batch.labels)
            cross = cross_sequence(recogniser.attention, recogniser.attention.prepare(encoded), embedded)
            mask = length_mask(batch.label_lengths, batch.labels.shape[1])

            def recorded(layer: int, hidden: Tensor, cross: Any = cross, mask: Tensor = mask) -> Tensor:
                says: Tensor = cross(layer, hidden)
                means[layer].add(says[:, -mask.shape[1] :], mask)  # the prompt's positions do not count
                return says

            self.decoder.teacher_forced(embedded, recorded)
        return torch.cat([mean.result() for mean in means])

    def heard(self, manifest: Path, transcripts: bool = True) -> Iterator[tuple[Batch, Encoded]]:
        """Utterances of (this process's share of) a set, encoded."""
        batches = self.batches(Manifest(manifest, transcripts=transcripts), transcripts)
        for batch in shown(batches, self.config.method, self.world):
            yield batch, self.recogniser.encode(batch)

    def taught(self, manifest: Path) -> TaughtBatches:
        store = store_tokens([manifest], self.recogniser.tokenizer, self.out / "text")
        path = store.folder / f"teacher-{self.recogniser.fingerprint[:16]}.f32"
        if self.world.first and not path.exists():
            write_teacher(self.recogniser, manifest, store, path)
        self.world.wait()
        config = SentenceConfig(max_size=self.config.batch)
        return TaughtBatches(store, path, self.decoder.size, config, self.config.seed)

    def fixed_recording(self) -> Tensor:
        """Encoder states of 30 s of digital silence, or of noise and then silence. (T, D)"""
        samples = torch.zeros(self.recogniser.features.max_samples)
        if self.config.method == "noise":
            generator = torch.Generator().manual_seed(self.config.seed)
            count = min(int(self.config.seconds * self.recogniser.features.sampling_rate), len(samples))
            samples[:count] = 0.05 * torch.randn(count, generator=generator)
        return self.recogniser.listen([samples]).states[0].clone()

    def lm_model(self) -> dict[str, Any]:
        """Density ratio: an LSTM of the decoder's size."""
        tokenizer = self.recogniser.tokenizer
        model = {"kind": "lstm_lm", "vocab_size": tokenizer.size, "end": tokenizer.end, "embedding": 128}
        return model | {"size": self.decoder.size, "dropout": 0.2}

    def perplexity(self, dev: Path) -> dict[str, Any]:
        """Without the audio where it is not heard."""
        dev, ilm = self.transcribed(dev), load_ilm(self.out, self.recogniser)
        if ilm.context is not None and ilm.context.needs_encoder:
            return ilm_perplexity(self.recogniser, self.out, dev)
        store = store_tokens([dev], self.recogniser.tokenizer, self.out / "text")
        batches = SentenceBatches(store, SentenceConfig(max_size=LABELS, order="sorted"))
        lm = ilm.language_model(self.recogniser)
        return perplexity(lm, shown(batches, "perplexity"), self.recogniser.tokenizer).to_json()
