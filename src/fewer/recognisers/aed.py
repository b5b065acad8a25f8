"""A recogniser that `fewer train` made."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fewer.compute.engines.engine import Engine, Local, Work
from fewer.compute.engines.group import Torchrun
from fewer.compute.memory import how_many
from fewer.compute.precision import FLOATS, reduced
from fewer.config import read_yaml
from fewer.data.batches import Batch, UtteranceBatches, UtteranceConfig, pad
from fewer.data.manifest import Manifest
from fewer.data.reader import CacheBuild
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.models.aed_scorer import AedScorer
from fewer.models.attention import PIECES
from fewer.models.context import Context
from fewer.models.ctc_prefix import CtcPrefixScorer
from fewer.models.decoder import InternalLm
from fewer.models.encoded import Encoded
from fewer.progress import Bar
from fewer.recognisers.recogniser import Recogniser, Sizes
from fewer.search.scorer import Scorer
from fewer.store.model_folder import CONFIG, LoadedModel


class _Features(Work):
    """Computes files of a feature cache."""

    def __init__(self, build: CacheBuild):
        self.build = build

    def __call__(self, shard: int, *_: Any) -> int:
        return self.build.write(shard)

    def name(self, shard: int) -> str:
        return f"features {self.build.cache.shard_file(1.0, shard)}"


class AedRecogniser(Recogniser):
    """The paper's model, with its features and tokenizer."""

    silence = 1e-5  # a least bit of dither

    def __init__(self, loaded: LoadedModel, precision: str = "float32"):
        if precision == "int8":
            raise FewerError(f"precision: {loaded.folder} has an encoder of LSTMs, for which there is no int8")
        self.loaded, self.aed, self.precision = loaded, loaded.aed, precision
        self.encoder = reduced(self.aed.encoder, precision)
        self.tokenizer, self.fingerprint = loaded.tokenizer, loaded.fingerprint
        assert loaded.features is not None  # of a recogniser
        self.features = loaded.features
        self.sampling_rate = self.features.sampling_rate
        self.device = next(self.aed.parameters()).device
        self.attention = self.aed.attention
        decoder = self.aed.config.decoder
        self.sizes = Sizes(self.attention.size, self.attention.size, decoder.embedding, decoder.size)

    def batches(self, manifest: Manifest, config: UtteranceConfig, transcripts: bool = False) -> UtteranceBatches:
        """Without augmentation; features of whole sets through the cache of its training, if it has one."""
        features = self.features.cached(manifest.path, manifest) if self.loaded.cached else self.features
        seconds = float(manifest.durations.max()) if len(manifest) else 0.0
        frames, most = int(seconds / features.frame_shift) + 2, how_many(self.device, self.footprint(seconds))
        update: dict[str, Any] = {"max_size": max(config.max_size, frames), "allow_unknown": True}
        if most is not None:
            update |= {"max_size": most * frames, "max_sequences": most}
        config = config.model_copy(update=update)
        return UtteranceBatches(manifest, features, self.tokenizer if transcripts else None, config)

    def build_cache(self, manifest: Manifest, engine: Engine) -> None:
        """By the engine's workers; the processes of torchrun share it in `batches`."""
        config = self.features.raw.config
        if not self.loaded.cached or config.cache is None or isinstance(engine, Local | Torchrun):
            return
        work = _Features(CacheBuild(config, manifest.path, manifest))
        if missing := work.build.missing():
            with Bar(f"features for {manifest.path.stem}", len(missing)) as bar:
                for _ in engine.map(work, missing):
                    bar.advance()

    def footprint(self, seconds: float) -> float:
        """The encoder's widest layer at the full rate; attention's values, keys and, for each hypothesis, energies."""
        config, beam = self.aed.config, self.defaults.search.beam
        frames = seconds / self.features.frame_shift
        widest = max(2 * config.encoder.filters * config.encoder.features, 8 * config.encoder.size)
        projected = 4 * config.decoder.size + config.decoder.readout
        attended = projected + config.energy + beam * config.energy / PIECES
        scores = 8 * beam * self.tokenizer.size
        return 4 * (frames * widest + frames / config.encoder.reduction * attended + scores)

    def encode(self, batch: Batch) -> Encoded:
        return self._encode(batch.features, batch.feature_lengths)

    def listen(self, waveforms: Sequence[Tensor]) -> Encoded:
        features = [self.features.of(samples) for samples in waveforms]
        return self._encode(*pad(features, torch.zeros(0, self.features.dim)))

    @torch.inference_mode()
    def _encode(self, features: Tensor, lengths: Tensor) -> Encoded:
        def compute() -> Encoded:
            dtype = FLOATS.get(self.precision, torch.float32)
            encoded: Encoded = self.encoder(features.to(self.device, dtype), lengths.to(self.device))
            return replace(encoded, states=encoded.states.float())

        if self.encodings is None:
            return compute()
        key = fingerprint(*(tensor.contiguous().numpy().tobytes() for tensor in (features, lengths)))[:32]
        kept = self.encodings.get(key, lambda: compute().tensors())
        return Encoded.of(kept, self.device)

    def scorer(self, ilms: Mapping[str, Context]) -> Scorer:
        return AedScorer(self.aed, ilms)

    def ctc_scorer(self) -> Scorer | None:
        return None if self.aed.ctc is None else CtcPrefixScorer(self.aed)

    def language_model(self, context: Context) -> InternalLm:
        return InternalLm(self.aed.decoder, context)

    def hear_only(self, state: Tensor) -> Tensor:
        """A weighted mean of equal states is that state."""
        return state

    def teacher_forced_contexts(self, encoded: Encoded, labels: Tensor) -> Tensor:
        return self.aed.teacher_forced(encoded, labels).contexts

    def decoder_like_lm(self) -> dict[str, Any]:
        return {"kind": "decoder_like_lm", "vocab_size": self.tokenizer.size, **self.aed.config.decoder.model_dump()}

    def ilm_options(self, trained: bool) -> dict[str, Any]:
        """What is not given about the training of a context, as the recogniser itself was trained (SPEC §4)."""
        path = self.loaded.folder / CONFIG
        values = read_yaml(path) if trained and path.exists() else {}
        settings: dict[str, Any] = {}
        if (values.get("optimizer") or {}).get("kind", "adam") == "adam" and values.get("schedule"):
            settings["learning_rate"] = values["schedule"]["peak"]  # a rate of SGD would say nothing about Adam's
        if "smoothing" in values:
            settings["smoothing"] = values["smoothing"]
        return settings
