"""Estimating an internal LM by any method, from a recogniser and its training data, into a folder."""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fewer.compute.device import CPU, Placement
from fewer.compute.engines import started
from fewer.compute.engines.engine import Engine, Local
from fewer.compute.world import World, joined
from fewer.data.batches import Batch, UtteranceBatches, UtteranceConfig
from fewer.data.lines import read_raw_lines
from fewer.data.manifest import Manifest, is_manifest
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import TokenStore, store_tokens
from fewer.errors import FewerError
from fewer.files import atomic_write, fingerprint
from fewer.ilm.config import IlmConfig
from fewer.ilm.folder import discard, load_ilm, save_context, save_facts
from fewer.ilm.on_batches import on_batches
from fewer.ilm.perplexity import perplexity_by, text_perplexity
from fewer.ilm.registry import all_methods, source_of
from fewer.ilm.transcripts import BEAM, own_transcripts
from fewer.locks import exclusive
from fewer.models.context import Context
from fewer.models.encoded import Encoded
from fewer.progress import say
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.recogniser import Recogniser

IN_ORDER = UtteranceConfig(order="blocks", bin_size=4096)


def estimate_ilm(
    model: str | Path | Recogniser,
    config: IlmConfig,
    out: str | Path,
    train: str | Path | None = None,
    dev: str | Path | None = None,
    placement: Placement = CPU,
    engine: str | Engine = "local",
) -> dict[str, Any]:
    """Estimate, write the folder `out`, and return what its ilm.json says.

    train: manifest of the recogniser's training set (any audio will do for `distilled`, any transcripts for the other
    trained contexts; separate LMs are trained on its transcripts). dev: for the perplexity, and for when to stop.
    placement: of a model that is not loaded. engine: who encodes and searches; trainings stay in this process, or in
    those of torchrun.
    """
    out, method = Path(out), all_methods()[config.method]
    if method.needs and train is None:
        raise FewerError(f"{config.method} is estimated on the training set: give its manifest with --train")
    if "dev" in method.needs and dev is None:
        raise FewerError(f"{config.method} is trained until it no longer improves: give a manifest with --dev")
    device = placement.device if isinstance(model, str | Path) else model.device
    with started(engine, device) as workers, joined(device) as world, exclusive(out, first=world.first):
        if isinstance(model, str | Path):
            model = load_recogniser(model, config.language, config.task, cached=True, placement=placement)
        if (reason := method.supports(model)) is not None:
            raise FewerError(f"{config.method} {reason}")
        options = model.ilm_options(method.trained)
        config = config.model_copy(update={key: options[key] for key in options.keys() - config.model_fields_set})
        if config.encodings is not None:
            model.keep_encodings(config.encodings)
        chosen = _subset(Path(train), config.utterances, out, world) if train is not None else None
        estimation = Estimation(config, model, out, world, chosen, None if dev is None else Path(dev), workers)
        estimation.run()
        facts: dict[str, Any] = {"train": Path(train).name if train else None}
        if world.first:
            save_facts(out, config, model, facts)
        world.wait()
        if dev is not None:
            said = ilm_perplexity(model, out, estimation.transcribed(Path(dev)), engine=workers)
            facts["perplexity"] = {Path(dev).stem: said}
        if world.first:
            save_facts(out, config, model, facts)
        world.wait()
    return {"method": config.method, **facts}


def ilm_perplexity(
    recogniser: Recogniser, ilm: str | Path, text: str | Path, case: str = "none", engine: Engine = Local()
) -> dict[str, Any]:
    """Perplexity of an estimated internal LM on a text or the transcripts of a manifest; its audio if it listens."""
    loaded = load_ilm(ilm, recogniser)
    lm = loaded.language_model(recogniser)
    if loaded.context is None or not loaded.context.needs_encoder:
        return text_perplexity(lm, recogniser.tokenizer, Path(text), case, engine)
    if not is_manifest(text):
        raise FewerError(f"{text}: {loaded.config.method} hears the utterance: give a manifest")
    batches = recogniser.batches(Manifest(text), IN_ORDER, transcripts=True)
    return perplexity_by(engine, lm, batches, recogniser.tokenizer, recogniser.encode).to_json()


class Estimation:
    """One estimation: the recogniser, its data, and where the result goes. Methods find here what they need."""

    def __init__(
        self,
        config: IlmConfig,
        recogniser: Recogniser,
        out: Path,
        world: World,
        train: Path | None,
        dev: Path | None,
        engine: Engine = Local(),
    ):
        """train, dev: what the method needs of them. world: who trains; engine: who does everything else."""
        self.config, self.recogniser, self.out, self.world, self.engine = config, recogniser, out, world, engine
        self.method = all_methods()[config.method]
        self.given: Any = (train, dev)

    @cached_property
    def train(self) -> Path:
        """The training set, with the recogniser's own transcripts if they are to be taken."""
        return self.transcribed(self.given[0])

    @cached_property
    def dev(self) -> Path:
        """The set that tells when to stop."""
        return self.transcribed(self.given[1])

    def run(self) -> None:
        context = self.method.estimate(self)
        if context is not None and self.world.first:
            discard(self.out)
            save_context(self.out, context)
        self.world.wait()

    def new_context(self) -> Context:
        """The method's context with new weights."""
        return self.config.new_context(self.recogniser)

    def heard(self, transcripts: bool = True) -> Iterator[tuple[Batch, Encoded]]:
        """The utterances of the training set, encoded by this process."""
        batches = self._batches(transcripts)
        for batch in on_batches(Local(), batches, lambda batch: batch, self.recogniser.device, self.config.method):
            yield batch, self.recogniser.encode(batch)

    def on_heard(self, function: Callable[[Batch, Encoded], Any], transcripts: bool = True) -> Iterator[Any]:
        """function(batch, encoded) of each batch of the training set, in order, by the engine."""
        recogniser = self.recogniser
        batches = self._batches(transcripts)
        return on_batches(
            self.engine,
            batches,
            lambda batch: function(batch, recogniser.encode(batch)),
            recogniser.device,
            self.config.method,
        )

    def _batches(self, transcripts: bool) -> UtteranceBatches:
        manifest = self.train if transcripts else self.given[0]
        opened = Manifest(manifest, transcripts=transcripts)
        self.recogniser.build_cache(opened, self.engine)
        return self.recogniser.batches(opened, IN_ORDER, transcripts)

    def tokens(self, manifest: Path) -> TokenStore:
        """The transcripts of a manifest, or the lines of a text, as labels."""
        return store_tokens([manifest], self.recogniser.tokenizer, self.out / "text", allow_unknown=True)

    def sentences(self, manifest: Path, parts: int = 1) -> SentenceBatches:
        """The same as batches to train on, a pass in so many parts."""
        batches = SentenceConfig(max_size=self.config.batch, sub_epochs=parts)
        return SentenceBatches(self.tokens(manifest), batches, self.config.seed)

    @property
    def marks(self) -> str:
        """Of all that the result depends on. The task is in the recogniser's fingerprint."""
        config = self.config.model_dump_json(exclude={"task"}, exclude_defaults=True)
        return fingerprint(config, self.recogniser.fingerprint, *source_of(self.method.name), self.train, self.dev)

    def transcribed(self, manifest: Path) -> Path:
        """The manifest, or a copy with the recogniser's own transcripts: if asked for, or if audio alone will do."""
        audio_will_do = "audio" in self.method.needs and "transcripts" not in self.method.needs
        missing = audio_will_do and is_manifest(manifest) and not _has_text(manifest)
        if not (self.config.own_transcripts or missing):
            return manifest
        marks = fingerprint(self.recogniser.fingerprint, str(BEAM), manifest)
        own = self.out / "own" / marks[:16] / manifest.name.removesuffix(".gz")
        if not self.world.same(own.exists()):
            if self.world.first:
                say(f"{manifest}: the recogniser's own transcripts are taken")
            batches = self.recogniser.batches(Manifest(manifest, transcripts=False), IN_ORDER)
            own_transcripts(self.recogniser, batches, own, self.engine)
        return own


def _has_text(manifest: Path) -> bool:
    return bool(Manifest(manifest, transcripts=False).text_chars.any())


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
