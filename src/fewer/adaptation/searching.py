"""From what a user says to what is searched with: a bundle, or a recogniser with its language models and scales."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewer.adaptation.bundle import load_bundle
from fewer.decoding.system import Search, load_system
from fewer.errors import FewerError
from fewer.recognisers.loader import is_bundle
from fewer.search.beam import SearchOptions
from fewer.search.fusion import signed
from fewer.search.nbest import LengthPolicy


@dataclass(frozen=True)
class Models:
    """Which models, and what they are told. A bundle of `fewer adapt` brings its own."""

    model: str | Path  # a folder of `fewer train`, a Whisper, or a bundle
    lm: str | Path | None = None
    ilm: str | Path | None = None
    words: str | Path | None = None
    ctc_scale: float = 0.0
    end_by: Sequence[str] | None = None
    base: str | None = None  # where the model of a bundle is, if not where it was
    language: str | None = None
    task: str = "transcribe"
    cached: bool = False  # keep features where the model's configuration has a cache


@dataclass(frozen=True)
class Wishes:
    """How to search; None: as the bundle has it, or as usual."""

    lm_scale: float | None = None
    ilm_scale: float | None = None  # what is subtracted
    words_scale: float | None = None
    beam: int | None = None
    length_exponent: float | None = None
    reward: float | None = None


def load_search(models: Models, wishes: Wishes, usual: SearchOptions | None = None) -> Search:
    """usual: what holds if neither the user nor a bundle says anything else; None: what is usual for the recogniser."""
    given = {"lm": wishes.lm_scale, "ilm": wishes.ilm_scale, "words": wishes.words_scale}
    wished = signed({term: scale for term, scale in given.items() if scale is not None})
    if is_bundle(models.model):
        if models.lm or models.ilm or models.words or models.ctc_scale or models.end_by:
            raise FewerError(
                f"{models.model} is a bundle, which has its own models and policy: give scales at the most"
            )
        if models.language is not None or models.task != "transcribe":
            raise FewerError(f"{models.model} is a bundle, which was made for one language and task: give none")
        bundle = load_bundle(models.model, models.base, wished)
        system, usual, scales = bundle.system, bundle.options, bundle.scales
    elif models.base is not None:
        raise FewerError(f"{models.model} is not a bundle of `fewer adapt`, so it has no base model to be given")
    else:
        system = load_system(
            models.model,
            models.lm,
            models.ilm,
            models.ctc_scale != 0,
            models.end_by,
            models.words,
            models.language,
            models.task,
            models.cached,
        )
        usual = usual or system.recogniser.defaults.search
        scales = {"lm": 0.3} if models.lm else {}
        scales |= signed({"ilm": 0.2}) if models.ilm else {}
        scales |= {"words": 1.0} if models.words else {}
        for term in wished:
            if wished[term] and term not in scales:
                raise FewerError(f"--{term}-scale is given, but nothing that it applies to: add --{term}")
        scales |= {term: scale for term, scale in wished.items() if term in scales}
        scales |= {"ctc": models.ctc_scale} if models.ctc_scale else {}
        check_end_by(models.end_by, ["aed", *scales])
    length = LengthPolicy(
        usual.length.exponent if wishes.length_exponent is None else wishes.length_exponent,
        usual.length.reward if wishes.reward is None else wishes.reward,
    )
    return Search(system, scales, SearchOptions(usual.beam if wishes.beam is None else wishes.beam, length))


def check_end_by(names: Sequence[str] | None, terms: Sequence[str]) -> None:
    """names: what a user wants to score the end label."""
    for name in names or ():
        if name not in terms:
            raise FewerError(f"the end label cannot be scored by '{name}'; the terms are {', '.join(terms)}")
