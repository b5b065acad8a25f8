"""From what a user says to what is searched with: a bundle, or a recogniser with its language models and scales."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewer.adaptation.bundle import load_bundle, read_bundle
from fewer.compute.device import CPU, Placement
from fewer.decoding.system import Search, load_system
from fewer.errors import FewerError
from fewer.ilm.folder import language_of
from fewer.recognisers.loader import is_bundle
from fewer.search.beam import SearchOptions
from fewer.search.fusion import signed
from fewer.search.nbest import LengthPolicy


@dataclass(frozen=True)
class Models:
    """Which models, and what they are told. What is not given is as a bundle of `fewer adapt` has it, if it is one."""

    model: str | Path  # a folder of `fewer train`, a Whisper, or a bundle
    lm: str | Path | None = None
    ilm: str | Path | None = None
    words: str | Path | None = None
    ctc_scale: float = 0.0
    end_by: Sequence[str] | None = None
    base: str | Path | None = None  # where the model of a bundle is, if not where it was
    language: str | None = None
    task: str = "transcribe"
    cached: bool = False  # keep features where the model's configuration has a cache
    placement: Placement = CPU

    @property
    def parts(self) -> dict[str, Path | str]:
        """Those of the language models that are given, by term."""
        given = {"lm": self.lm, "ilm": self.ilm, "words": self.words}
        return {term: source for term, source in given.items() if source is not None}


@dataclass(frozen=True)
class Options:
    """How to search; None: as the bundle has it, or the default."""

    lm_scale: float | None = None
    ilm_scale: float | None = None  # what is subtracted
    words_scale: float | None = None
    beam: int | None = None
    length_exponent: float | None = None
    reward: float | None = None

    @property
    def scales(self) -> dict[str, float]:
        """What the given scales multiply by, by term."""
        given = {"lm": self.lm_scale, "ilm": self.ilm_scale, "words": self.words_scale}
        return signed({term: scale for term, scale in given.items() if scale is not None})

    def search(self, usual: SearchOptions) -> SearchOptions:
        """With what is not given as usual."""
        length = LengthPolicy(
            usual.length.exponent if self.length_exponent is None else self.length_exponent,
            usual.length.reward if self.reward is None else self.reward,
        )
        return SearchOptions(usual.beam if self.beam is None else self.beam, length)


def load_search(models: Models, options: Options = Options()) -> Search:
    """What neither the user nor a bundle says is as the recogniser's defaults have it."""
    if is_bundle(models.model):
        return _from_bundle(models, options)
    if models.base is not None:
        raise FewerError(f"{models.model} is not a bundle of `fewer adapt`, so it has no base model to be given")
    terms = [*models.parts, *(["ctc"] if models.ctc_scale else [])]
    for term, scale in options.scales.items():
        if scale and term not in terms:
            raise FewerError(f"--{term}-scale is given, but nothing that it applies to: add --{term}")
    check_end_by(models.end_by, ["aed", *terms])
    system = load_system(
        models.model,
        models.lm,
        models.ilm,
        models.ctc_scale != 0,
        models.end_by,
        models.words,
        models.language if models.language or models.ilm is None else language_of(models.ilm),
        models.task,
        models.cached,
        detect=True,
        placement=models.placement,
    )
    defaults = system.recogniser.defaults
    scales = signed(defaults.scales(models.parts))
    scales |= {term: scale for term, scale in options.scales.items() if term in scales}
    scales |= {"ctc": models.ctc_scale} if models.ctc_scale else {}
    return Search(system, scales, options.search(defaults.search))


def _from_bundle(models: Models, options: Options) -> Search:
    """A bundle, with what the user gives in place of the bundle's own."""
    facts = read_bundle(models.model)
    if models.ctc_scale:
        raise FewerError(f"{models.model} is a bundle, which was tuned without CTC scores: leave out --ctc-scale")
    if models.language not in (None, facts.language) or models.task not in ("transcribe", facts.task):
        raise FewerError(
            f"{models.model} was made for language {facts.language}, task {facts.task}: "
            "adapt the model anew for another language or task"
        )
    for term, scale in options.scales.items():
        if scale and term not in models.parts and getattr(facts, term) is None:
            raise FewerError(
                f"--{term}-scale is given, but {models.model} has nothing that it applies to: add --{term}"
            )
    bundle = load_bundle(
        models.model, models.base, options.scales, models.parts, models.end_by, placement=models.placement
    )
    check_end_by(models.end_by, ["aed", *bundle.scales])
    return Search(bundle.system, bundle.scales, options.search(bundle.options))


def check_end_by(names: Sequence[str] | None, terms: Sequence[str]) -> None:
    """names: what a user wants to score the end label."""
    for name in names or ():
        if name not in terms:
            raise FewerError(f"the end label cannot be scored by '{name}'; the terms are {', '.join(terms)}")
