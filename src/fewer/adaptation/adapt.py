"""Adapting a recogniser that exists to a domain, from text alone: an LM, an internal LM, scales, in one bundle."""

import glob
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fewer.adaptation.bundle import Base, BundleFacts, Length, refuse_existing, write_bundle
from fewer.adaptation.choice import Choice, Trials, choose, tune_words, usual_scales, with_and_without
from fewer.adaptation.ordinary import ordinary_speech
from fewer.adaptation.text_lm import Styles, given_lm, text_lm
from fewer.compute.device import Precision, choose_placement
from fewer.config import Config
from fewer.data.batches import UtteranceConfig
from fewer.data.lines import read_raw_lines
from fewer.data.manifest import Manifest, is_manifest
from fewer.data.token_store import read_text
from fewer.decoding.system import System, load_hotwords, load_system
from fewer.errors import FewerError
from fewer.evaluation.guards import text_overlap
from fewer.evaluation.normalise import load_normaliser
from fewer.files import atomic_write, check_output, fingerprint, is_there, locked
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.ilm.folder import FACTS
from fewer.ilm.registry import all_methods, check_method
from fewer.ilm.transcripts import own_transcripts
from fewer.progress import say, warn
from fewer.recognisers.loader import is_bundle, load_recogniser
from fewer.recognisers.names import full_name
from fewer.search.beam import SearchOptions
from fewer.store.ngram_files import BINARY_SUFFIX
from fewer.tuning.pool import Metric
from fewer.tuning.space import Scales
from fewer.version import __version__

DIGITS = 12  # of an identity that name a workspace
HARM, LUCK = 0.1, 2  # share of errors, and number, by which ordinary speech may get worse without a warning
HELD_OUT = 10  # of so many transcripts, one tells when to stop training an internal LM


class AdaptOptions(Config):
    """What a recogniser is adapted with."""

    text: tuple[Path, ...] = ()  # of the domain
    lm: str | None = None  # instead of text: any language model that `fewer decode` takes
    words: Path | None = None  # hotwords, with weights
    dev: Path | None = None  # manifest by which method and scales are chosen
    general: Path | None = None  # manifest of other speech, on which the harm is measured
    transcripts: Path | None = None  # text or manifest of what the recogniser was trained on: for internal LMs
    audio: Path | None = None  # the same without transcripts: the recogniser's own are taken
    general_text: Path | None = None  # cased text of any kind: the case of names; subtracted by lodr
    methods: tuple[str, ...] = ()  # to try; none: all that can be estimated from what is given
    style: Literal["auto", "none"] = "auto"  # none: text is as the recogniser writes already
    order: int = Field(default=4, ge=1)  # length of the longest n-grams
    beam: int = Field(default=5, ge=1)
    budget: int = Field(default=5, ge=2)  # decodes of the dev set for each method at most
    confidence: float = Field(default=0.95, gt=0, lt=1)  # share of resampled dev sets on which it must be better
    normalise: str | None = None  # as in `fewer score`; None: as is usual for the recogniser
    language: str | None = None  # of a multilingual Whisper
    task: str = "transcribe"
    seed: int = Field(default=1, ge=0)
    device: str = "auto"  # as in `fewer decode`
    precision: Precision = "auto"

    def files(self) -> list[Path]:
        """All that is read."""
        several = (self.words, self.dev, self.general, self.transcripts, self.audio, self.general_text)
        return [*self.text, *(path for path in several if path is not None)]


def adapt(model: str, out: str | Path, options: AdaptOptions) -> BundleFacts:
    """Make the bundle `out`; returns what its bundle.json says. Killed, the same call goes on where it was."""
    out = Path(out)
    if out.exists():
        _remove_given_up(out)  # of a call that was killed when the bundle was complete
    refuse_existing(out)
    _check(model, options)
    adaptation = Adaptation(model, options)
    with workspace(out, adaptation.identity) as work:
        return adaptation.run(out, work)


class Adaptation:
    """One recogniser and what it is adapted with."""

    work: Path

    def __init__(self, model: str, options: AdaptOptions):
        self.options = options
        self.source = str(Path(model).expanduser().resolve()) if is_there(model) else str(full_name(model))
        self.recogniser = load_recogniser(
            self.source, options.language, options.task, placement=choose_placement(options.device, options.precision)
        )
        self.defaults = self.recogniser.defaults
        self.search = SearchOptions(options.beam)

    @property
    def identity(self) -> str:
        """Of all that goes into the bundle."""
        states = [f"{path.resolve()} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in self.options.files()]
        return fingerprint(self.recogniser.fingerprint, self.options.model_dump_json(exclude={"device"}), *states)

    def run(self, out: Path, work: Path) -> BundleFacts:
        self.work, options = work, self.options
        if options.words is not None:
            load_hotwords(options.words, self.recogniser.tokenizer)  # complains before anything takes time
        self.lm, text = self._lm()
        choice = self._choice()
        scales = Scales(dict(choice.scales.terms), choice.scales.length)
        facts: dict[str, Any] = {"dev": choice.facts or None}
        if options.words is not None:
            scales, about = self._with_words(choice)
            if facts["dev"] is not None:
                facts["dev"]["words"] = about
        ilm = self._ilm(choice.method) if choice.method not in ("none", "sf") else None
        facts["general"] = self._general(choice, scales)
        parts = {"lm": self.lm, "ilm": ilm, "words": options.words}
        file = self.lm is not None and self.lm.is_file()
        names = {"lm": f"lm{BINARY_SUFFIX}" if file else "lm", "ilm": "ilm", "words": "words.txt"}
        kept = {term: names[term] for term, path in parts.items() if path is not None}
        zero = {term: 0.0 for term in kept}
        tokenizer = self.recogniser.tokenizer.fingerprint
        bundle = BundleFacts(
            made_with=__version__,
            base=Base(source=self.source, fingerprint=self.recogniser.fingerprint, tokenizer=tokenizer),
            language=options.language,
            task=options.task,
            method=choice.method,
            scales=zero | scales.terms,
            length=Length(**asdict(scales.length)),
            end_scored_by=choice.end_by or self.defaults.end_scored_by,
            centred=self.defaults.centred,
            share=self.defaults.share,
            beam=options.beam,
            text=text,
            **facts,
            **kept,
        )
        sources = {names[term]: path for term, path in parts.items() if path is not None}
        return write_bundle(out, bundle, sources, self.work / "bundle")

    def _lm(self) -> tuple[Path | None, dict[str, Any]]:
        options = self.options
        if options.lm is not None:
            return given_lm(options.lm, self.recogniser, self.work)
        if not options.text:
            return None, {}
        lm, facts = text_lm(options.text, self._styles, self.recogniser, options.order, self.work)
        for manifest in (options.dev, options.general):
            if manifest is not None:
                self._warn_of_overlap(manifest)
        return lm, facts

    @cached_property
    def _styles(self) -> Styles | None:
        if self.options.style == "none":
            return None
        cased = [*self.options.text, *([self.options.general_text] if self.options.general_text else [])]
        return Styles(self.recogniser, cased, self.options.words)

    def _warn_of_overlap(self, manifest: Path) -> None:
        opened = Manifest(manifest)
        refs = dict(zip(opened.ids(), opened.texts(), strict=True))
        found = text_overlap(refs, (line for path in self.options.text for line in read_text(path)))
        if found.count:
            warn(
                f"{manifest.stem}: {found.count} of {found.utterances} transcripts are in the text, so its WER flatters"
            )

    def _choice(self) -> Choice:
        """The method and its scales: by the dev set, or as usual."""
        options = self.options
        if options.dev is None:
            method = "none" if self.lm is None else options.methods[0] if options.methods else self.defaults.method
            return Choice(method, usual_scales(self.defaults, method), {})
        systems = {name: self._system(name) for name in self._methods()}
        folder = self.work / "tuning"
        return choose(self._trials, systems, options.budget, options.confidence, folder)

    def _methods(self) -> list[str]:
        """The methods to try: the recogniser alone first, then shallow fusion, whose decodes serve the others."""
        options = self.options
        if self.lm is None:
            return ["none"]
        heard = options.transcripts is not None or options.audio is not None
        trained = ["lodr", "mini_lstm"] if heard else ["lodr"] if options.general_text is not None else []
        chosen = options.methods or ("sf", self.defaults.method, "seq_avg", *trained)
        rest = sorted((method for method in dict.fromkeys(chosen) if method != "none"), key=lambda name: name != "sf")
        return ["none", *rest]

    def _system(self, method: str, words: bool = False, end_by: Sequence[str] | None = None) -> System:
        lm = None if method == "none" else self.lm
        ilm = None if method in ("none", "sf") else self._ilm(method)
        return load_system(self.recogniser, lm, ilm, end_scored_by=end_by, words=self.options.words if words else None)

    def _ilm(self, method: str) -> Path:
        """The folder of an internal LM, estimated if need be."""
        folder = self.work / "ilm" / method
        if not (folder / FACTS).exists():
            say(f"internal LM {method}")
            options = self.options
            config = IlmConfig(method=method, language=options.language, task=options.task, seed=options.seed)
            estimate_ilm(self.recogniser, config, folder, *self._training_data(method))
        return folder

    def _training_data(self, method: str) -> tuple[Path | None, Path | None]:
        """What an internal LM is estimated on: nothing, speech, or transcripts; and what tells when to stop."""
        needs = all_methods()[method].needs
        if "audio" not in needs:
            return self._transcripts if needs else (None, None)
        if (speech := self._speech) is None:
            raise FewerError(f"{method} is estimated on speech: give a set such as the model was trained on (--audio)")
        return (speech, None) if needs == ("audio",) else self._held_out(self._own_transcripts(speech))

    @cached_property
    def _transcripts(self) -> tuple[Path, Path]:
        """Text in the recogniser's style to train internal LMs on, and to stop by."""
        options, whole = self.options, self.work / "transcripts" / "all.txt"
        own = self._own_transcripts(options.audio) if options.audio and not options.transcripts else None
        source = options.transcripts or own or options.general_text
        if source is None:
            raise FewerError(
                "this internal LM is trained: give --transcripts, or --audio, whose own transcripts will do"
            )
        if not whole.exists():
            whole.parent.mkdir(exist_ok=True)
            (self._styles or Styles(self.recogniser)).write([source], whole)
        return self._held_out(whole, source)

    def _held_out(self, whole: Path, source: Path | None = None) -> tuple[Path, Path]:
        """Lines to train on, and every tenth, by which to stop."""
        train, dev = (whole.with_name(f"{name}{whole.suffix}") for name in ("train", "dev"))
        count = sum(1 for _ in read_raw_lines(whole))
        if count < 2:
            raise FewerError(f"{source or self._speech}: one transcript is too few to train an internal LM on")
        step = HELD_OUT if count >= 2 * HELD_OUT else 2
        with atomic_write(train, "wb") as to_train, atomic_write(dev, "wb") as to_dev:
            for number, line in enumerate(read_raw_lines(whole)):
                (to_dev if number % step == 0 else to_train).write(line)
        return train, dev

    @property
    def _speech(self) -> Path | None:
        """Speech such as the recogniser was trained on: a set."""
        transcripts = self.options.transcripts
        return self.options.audio or (transcripts if transcripts and is_manifest(transcripts) else None)

    def _own_transcripts(self, speech: Path) -> Path:
        """The recogniser's own transcripts of a set, which are in its style."""
        out = self.work / "transcripts" / "own.jsonl"
        if not out.exists():
            out.parent.mkdir(exist_ok=True)
            manifest = Manifest(speech, transcripts=False)
            config = UtteranceConfig(max_size=16_000, max_sequences=32, order="sorted")
            own_transcripts(self.recogniser, self.recogniser.batches(manifest, config), out)
        return out

    @cached_property
    def _metric(self) -> Metric:
        normaliser = load_normaliser(self.options.normalise or self.defaults.normaliser)
        return Metric(normaliser, "hubscr" if normaliser.glm else "plain")

    @cached_property
    def _trials(self) -> Trials:
        assert self.options.dev is not None
        return self._on(self.options.dev)

    def _with_words(self, choice: Choice) -> tuple[Scales, dict[str, Any]]:
        """The scales with that of hotwords: by the dev set if there is one."""
        terms = choice.scales.terms
        if self.options.dev is None:
            return Scales({**terms, "words": self.defaults.hotwords}, choice.scales.length), {}
        system = self._system(choice.method, True, choice.end_by)
        result = tune_words(self._trials, system, choice.scales, self.work / "tuning")
        scale = result.scales.terms["words"]
        about = {"scale": scale, "wer": round(result.wer, 4), "wer_without": round(result.baseline.wer, 4)}
        return Scales({**terms, "words": scale}, choice.scales.length), about

    def _general(self, choice: Choice, scales: Scales) -> dict[str, Any] | None:
        """What the bundle does to other speech: to the general set, or to a little that is made on the spot."""
        used = Scales({term: scale for term, scale in scales.terms.items() if scale}, scales.length)
        if not used.terms and self.options.general is None:  # nothing is added, so nothing changes
            return None
        alone = System(self.recogniser), usual_scales(self.defaults, "none")
        manifest = self.options.general or self._ordinary(*alone)
        if manifest is None:
            return None
        trials = self._on(manifest)
        adapted = self._system(choice.method, bool(scales.terms.get("words")), choice.end_by)
        facts, compared = with_and_without(trials, alone, (adapted, used))
        before, after = (sum(facts[name][kind] for kind in ("sub", "del", "ins")) for name in ("none", "adapted"))
        worse = compared.difference > 0 and 1 - compared.better >= self.options.confidence
        if self.options.general is None:  # too few utterances for statistics
            worse = after > max((1 + HARM) * before, before + LUCK)
        if worse:
            warn(
                f"{manifest.stem}: {after} errors instead of {before} in {facts['none']['words']} words. "
                "OTHER SPEECH GETS WORSE by this adaptation: use it for its domain alone, or with smaller scales"
            )
        return facts

    def _on(self, manifest: Path) -> Trials:
        return Trials(self.recogniser, manifest, self._metric, self.search, self.work / "encodings")

    def _ordinary(self, system: System, scales: Scales) -> Path | None:
        """Everyday sentences, spoken by synthetic voices, if the recogniser knows English."""
        if self.defaults.normaliser != "english":
            return None
        say("harm to ordinary speech")
        try:
            found = ordinary_speech(self.work / "ordinary", lambda manifest: self._on(manifest).result(system, scales))
        except FewerError as error:
            warn(f"not checked for harm to ordinary speech: {error}")
            return None
        if found is None:
            warn("not checked for harm to ordinary speech, which would take too long here; --general names a set")
        return found


def _check(model: str, options: AdaptOptions) -> None:
    """Everything that can be seen before anything is loaded."""
    if is_bundle(model):
        raise FewerError(f"{model} is a bundle already; give the model that it was made for")
    if not (options.text or options.lm or options.words):
        raise FewerError("give text of the domain (--text), a language model (--lm), or hotwords (--words)")
    if options.text and options.lm:
        raise FewerError("give --text or --lm, not both: the text would make another language model")
    for path in options.files():
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise FewerError(f"cannot read {path}: {error.strerror}") from error
    for method in options.methods:
        try:
            check_method(method, "none", "sf")
        except ValueError as error:
            raise FewerError(str(error)) from error
    if options.methods and not (options.text or options.lm):
        raise FewerError("--method says how a language model is added: give --text or --lm as well")
    if len(options.methods) > 1 and options.dev is None:
        raise FewerError("to choose among several methods a dev set is needed (--dev); without one give one --method")


@contextmanager
def workspace(out: Path, identity: str) -> Iterator[Path]:
    """A folder beside `out` that stays when the work is interrupted, and goes when it is done or given up."""
    work = out.with_name(f".{out.name}.{identity[:DIGITS]}.partial")
    check_output(out)
    with locked(work, wait=False) as alone:
        if not alone:
            raise FewerError(f"{out} is being made by another process, from the same; wait for it")
        _remove_given_up(out, work)
        yield work
        _remove_given_up(out, work)
        shutil.rmtree(work, ignore_errors=True)


def _remove_given_up(out: Path, work: Path | None = None) -> None:
    """Remove what adapting `out` with other options left behind, unless a process works there."""
    for other in out.parent.glob(f".{glob.escape(out.name)}.{DIGITS * '[0-9a-f]'}.partial"):
        if other != work:
            with locked(other, wait=False) as alone:
                if alone:
                    shutil.rmtree(other, ignore_errors=True)
