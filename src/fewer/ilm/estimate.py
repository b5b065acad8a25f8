"""Estimating an internal LM by any method, from a recogniser and its training data, into a folder."""

import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewer.compute.world import World, joined
from fewer.config import read_yaml
from fewer.data.batches import UtteranceBatches, UtteranceConfig
from fewer.data.lines import read_raw_lines
from fewer.data.manifest import Manifest, is_manifest
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import store_tokens
from fewer.errors import FewerError
from fewer.files import atomic_write, fingerprint
from fewer.ilm.averages import context_mean, encoder_mean
from fewer.ilm.contexts import FixedAudioContext
from fewer.ilm.folder import LM, NGRAM, AdaptedRecogniser, discard, load_ilm, save_context, save_facts
from fewer.ilm.methods import AUDIO, AVERAGES, FROM_TEXT, UNMEASURED, IlmConfig, is_trained, new_context
from fewer.ilm.own import OwnEstimator, own_estimator, own_source
from fewer.ilm.perplexity import Encodes, perplexity, shown
from fewer.ilm.training import distil, schedule, train_on_text
from fewer.ilm.transcripts import BEAM, own_transcripts
from fewer.models.context import ConstantContext, Context
from fewer.progress import say
from fewer.store.model_folder import CONFIG, TOKENIZER, LoadedModel, load_model
from fewer.store.ngram_files import save_ngram
from fewer.training.configs import LmTrainConfig, TextConfig
from fewer.training.ngram import estimate as estimate_ngram
from fewer.training.run import train_model

IN_ORDER = UtteranceConfig(order="sorted")


def estimate_ilm(
    model: str | Path | AdaptedRecogniser,
    config: IlmConfig,
    out: str | Path,
    train: str | Path | None = None,
    dev: str | Path | None = None,
) -> dict[str, Any]:
    """Estimate, write the folder `out`, and return what its ilm.json says.

    train: manifest of the recogniser's training set (any audio will do for `distilled`, any transcripts for the other
    trained contexts; separate LMs are trained on its transcripts). dev: for the perplexity, and for when to stop.
    """
    out, began = Path(out), time.monotonic()
    own = own_estimator(config.method)
    learns = config.method in (*FROM_TEXT, "distilled") or (own is not None and own.trained)
    needs_train = learns or config.method in AVERAGES or (own is not None and own.measure is not None)
    if needs_train and train is None:
        raise FewerError(f"{config.method} is estimated on the training set: give its manifest with --train")
    if learns and dev is None and config.method != "lodr":
        raise FewerError(f"{config.method} is trained until it no longer improves: give a manifest with --dev")
    with joined("cpu") as world:
        chosen = _subset(Path(train), config.utterances, out, world) if train is not None else None
        estimator = _estimator(config, model, out, world)
        config, recogniser = estimator.config, estimator.recogniser
        estimator.run(chosen, None if dev is None else Path(dev))
        facts: dict[str, Any] = {"seconds": round(time.monotonic() - began, 1), "train": str(train) if train else None}
        if world.first:
            save_facts(out, config, recogniser, facts)
        world.wait()
        if dev is not None:
            facts["perplexity"] = {Path(dev).stem: estimator.perplexity(Path(dev))}
        if world.first:
            save_facts(out, config, recogniser, facts)
        world.wait()
    return {"method": config.method, **facts}


def ilm_perplexity(
    recogniser: LoadedModel | AdaptedRecogniser, ilm: str | Path, manifest: str | Path
) -> dict[str, Any]:
    """Perplexity of an estimated internal LM on the transcripts of a manifest."""
    lm, opened = load_ilm(ilm, recogniser).language_model(recogniser), Manifest(manifest)
    encoder: Encodes
    if isinstance(recogniser, LoadedModel):
        batches, encoder = speech_batches(recogniser, opened, IN_ORDER), recogniser.aed
    else:
        batches, encoder = recogniser.batches(opened, IN_ORDER, transcripts=True), recogniser.encoder
    return perplexity(lm, shown(batches, "perplexity"), recogniser.tokenizer, encoder).to_json()


def speech_batches(
    recogniser: LoadedModel, manifest: Manifest, config: UtteranceConfig, transcripts: bool = True
) -> UtteranceBatches:
    """Utterances as the recogniser hears them, without augmentation; without labels if not `transcripts`."""
    if recogniser.features is None:
        raise FewerError("this is a language model, but a recogniser is needed here")
    features = recogniser.features.cached(manifest.path, manifest) if recogniser.cached else recogniser.features
    longest = float(manifest.durations.max()) / features.frame_shift if len(manifest) else 0.0
    config = config.model_copy(update={"max_size": max(config.max_size, int(longest) + 2), "allow_unknown": True})
    return UtteranceBatches(manifest, features, recogniser.tokenizer if transcripts else None, config)


def _estimator(config: IlmConfig, model: str | Path | AdaptedRecogniser, out: Path, world: World) -> "Estimator":
    from fewer.recognisers.whisper.recogniser import is_whisper

    if not isinstance(model, str | Path) or is_whisper(model):
        from fewer.ilm.whisper_estimate import WhisperEstimator

        return WhisperEstimator(config, model, out, world)
    return AedEstimator(_as_trained(config, Path(model)), load_model(model, world.device, cached=True), out, world)


def _as_trained(config: IlmConfig, model: Path) -> IlmConfig:
    """What is not given about the training of a context, as the recogniser itself was trained (SPEC §4)."""
    path = model / CONFIG
    values = read_yaml(path) if is_trained(config.method) and path.exists() else {}
    settings: dict[str, Any] = {}
    if (values.get("optimizer") or {}).get("kind", "adam") == "adam" and values.get("schedule"):
        settings["learning_rate"] = values["schedule"]["peak"]  # a rate of SGD would say nothing about Adam's
    if "smoothing" in values:
        settings["smoothing"] = values["smoothing"]
    return config.model_copy(update={key: settings[key] for key in settings.keys() - config.model_fields_set})


class Estimator(ABC):
    """One estimation: what it needs of the recogniser, and where it goes."""

    def __init__(self, config: IlmConfig, recogniser: LoadedModel | AdaptedRecogniser, out: Path, world: World):
        self.config, self.recogniser, self.out, self.world = config, recogniser, out, world

    @abstractmethod
    def context(self, train: Path | None, dev: Path | None) -> Context:
        """The method's context, measured or trained."""

    @abstractmethod
    def lm_model(self) -> dict[str, Any]:
        """The configuration of a separate LM on the transcripts."""

    @abstractmethod
    def perplexity(self, dev: Path) -> dict[str, Any]:
        """Of what was estimated, on the transcripts of a manifest."""

    @abstractmethod
    def batches(self, manifest: Manifest, transcripts: bool) -> UtteranceBatches:
        """Utterances as the recogniser hears them, with labels if there are `transcripts`."""

    def run(self, train: Path | None, dev: Path | None) -> None:
        method = self.config.method
        if method not in (*UNMEASURED, *AUDIO, "enc_avg"):
            train, dev = train and self.transcribed(train), dev and self.transcribed(dev)
        if method in ("decoder_like", "dr"):
            assert train is not None
            assert dev is not None
            self.separate_lm(train, dev)
        elif method == "lodr":
            assert train is not None
            self.low_order_ngram(train)
        else:
            context = self.context(train, dev)
            if self.world.first:
                discard(self.out)
                save_context(self.out, context)
        self.world.wait()

    def transcribed(self, manifest: Path) -> Path:
        """The manifest, or a copy with the recogniser's own transcripts: if asked for, or to distil without any."""
        distilled = self.config.method == "distilled"
        missing = distilled and not Manifest(manifest, transcripts=False).text_chars.any()
        if not (self.config.own_transcripts or missing):
            return manifest
        marks = fingerprint(self.recogniser.fingerprint, str(BEAM), manifest)
        own = self.out / "own" / marks[:16] / manifest.name.removesuffix(".gz")
        if not self.world.same(own.exists()):
            if self.world.first:
                say(f"{manifest}: the recogniser's own transcripts are taken")
            batches = self.batches(Manifest(manifest, transcripts=False), transcripts=False)
            own_transcripts(self.recogniser, batches, own, self.world)
        return own

    def sentences(self, manifest: Path) -> SentenceBatches:
        store = store_tokens([manifest], self.recogniser.tokenizer, self.out / "text", allow_unknown=True)
        return SentenceBatches(store, SentenceConfig(max_size=self.config.batch), self.config.seed)

    def separate_lm(self, train: Path, dev: Path) -> None:
        """An LM on the transcripts. An n-gram that was there would be taken in its place."""
        if self.world.first:
            self.recogniser.tokenizer.save(self.out / TOKENIZER)
        self.world.wait()
        config = LmTrainConfig(
            model=self.lm_model() | self.config.lm_shape,
            tokenizer=self.out / TOKENIZER,
            data=TextConfig(
                train=(train,), dev=(dev,), batches=SentenceConfig(max_size=self.config.batch), allow_unknown=True
            ),
            seed=self.config.seed,
            sub_epochs=self.config.passes,
            schedule=schedule(self.config),
            device=str(self.world.device),
        )
        train_model(config, self.out / LM)
        if self.world.first:
            discard(self.out, NGRAM)

    def low_order_ngram(self, train: Path) -> None:
        store = store_tokens([train], self.recogniser.tokenizer, self.out / "text", allow_unknown=True)
        if self.world.first:
            stream = torch.from_numpy(np.asarray(store.labels).astype(np.int64))
            tokenizer = self.recogniser.tokenizer
            ngram = estimate_ngram(stream, self.config.order, tokenizer.size, tokenizer.end)
            discard(self.out, LM)
            save_ngram(self.out / NGRAM, ngram, tokenizer.labels)


class AedEstimator(Estimator):
    """From a recogniser that `fewer train` made."""

    recogniser: LoadedModel

    def __init__(self, config: IlmConfig, recogniser: LoadedModel, out: Path, world: World):
        super().__init__(config, recogniser, out, world)
        self.aed = recogniser.aed

    def batches(self, manifest: Manifest, transcripts: bool) -> UtteranceBatches:
        return speech_batches(self.recogniser, manifest, IN_ORDER, transcripts)

    def perplexity(self, dev: Path) -> dict[str, Any]:
        if not is_manifest(dev):
            lm = load_ilm(self.out, self.recogniser).language_model(self.recogniser)
            return perplexity(lm, shown(self.sentences(dev), "perplexity"), self.recogniser.tokenizer).to_json()
        return ilm_perplexity(self.recogniser, self.out, self.transcribed(dev))

    def context(self, train: Path | None, dev: Path | None) -> Context:
        config, own = self.config, own_estimator(self.config.method)
        if own is not None and not own.trained:
            return self.measured(own, train)
        if config.method in AVERAGES:
            assert train is not None
            labels = config.method == "ctx_avg"
            batches = self.batches(Manifest(train, transcripts=labels), labels)
            measure = context_mean if labels else encoder_mean
            mean = measure(self.aed, shown(batches, config.method, self.world), self.world)
            return ConstantContext(mean, config.special_first)
        if config.method in AUDIO:
            return FixedAudioContext(self.aed.attention, self.fixed_recording())
        if config.method in UNMEASURED:
            return new_context(config, self.aed)
        assert train is not None
        assert dev is not None
        source = own_source(config.method)
        marks = fingerprint(config.model_dump_json(), self.recogniser.fingerprint, *source, train, dev)
        if config.method == "distilled":
            frames = UtteranceConfig(max_size=10 * config.batch)
            pair = [speech_batches(self.recogniser, Manifest(path), frames) for path in (train, dev)]
            return distil(config, self.aed, pair[0], pair[1], self.out, self.world, marks)
        texts = [self.sentences(path) for path in (train, dev)]
        return train_on_text(config, self.aed, texts[0], texts[1], self.out, self.world, marks)

    def measured(self, own: OwnEstimator, train: Path | None) -> Context:
        """The context of the user's own method. One process measures; it is the one that writes, too."""
        context = new_context(self.config, self.aed)
        if own.measure is not None and self.world.first:
            assert train is not None
            own.measure(context, self.aed, shown(self.batches(Manifest(train), True), own.name))
        return context

    def lm_model(self) -> dict[str, Any]:
        """The decoder's topology, or (density ratio) an LSTM of the decoder's size."""
        decoder, vocab_size = self.aed.config.decoder, self.recogniser.tokenizer.size
        if self.config.method == "decoder_like":
            return {"kind": "decoder_like_lm", "vocab_size": vocab_size, **decoder.model_dump()}
        embedding = min(128, decoder.embedding)
        model = {"kind": "lstm_lm", "vocab_size": vocab_size, "embedding": embedding, "size": decoder.size}
        return model | {"dropout": 0.2}

    @torch.inference_mode()
    def fixed_recording(self) -> torch.Tensor:
        """Encoder states of silence (digital, with a least bit of dither) or noise. (T, D_enc)"""
        reader = self.recogniser.features
        if reader is None:
            raise FewerError("this is a language model, but a recogniser is needed here")
        rate = reader.raw.config.sampling_rate
        level = 1e-5 if self.config.method == "silence" else 0.05
        generator = np.random.default_rng(self.config.seed)
        samples = level * generator.standard_normal(int(self.config.seconds * rate))
        features = reader.normalise(reader.raw.extractor(torch.from_numpy(samples).float()).cpu())
        encoded = self.aed.encode(features[None], torch.tensor([len(features)]))
        return encoded.states[0].clone()


def _subset(manifest: Path, utterances: int | None, out: Path, world: World) -> Path:
    """So many utterances, evenly spread over the manifest, as a manifest of its own, named by what it is made of."""
    if utterances is None:
        return manifest
    whole = Manifest(manifest, transcripts=False)
    if utterances >= len(whole):
        return manifest
    path = out / "subset" / fingerprint(str(utterances), manifest)[:16] / manifest.name.removesuffix(".gz")
    if world.first and not path.exists():
        chosen = {int(index) for index in np.linspace(0, len(whole) - 1, utterances)}
        with atomic_write(path, "wb") as target:
            target.writelines(line for number, line in enumerate(read_raw_lines(manifest)) if number in chosen)
    world.wait()
    return path
