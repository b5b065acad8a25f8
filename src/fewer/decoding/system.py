"""A recogniser, an external LM and an internal LM, put together for a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import torch

from fewer.compute.device import CPU, Placement
from fewer.data.hotwords import spellings
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.ilm.folder import Ilm, load_ilm
from fewer.models.hotwords import Hotwords
from fewer.models.lm import LanguageModel, LmScorer
from fewer.models.word_ngram import WordNGram
from fewer.recognisers.loader import load_recogniser
from fewer.recognisers.recogniser import Recogniser
from fewer.search.beam import SearchOptions
from fewer.search.fusion import Fusion
from fewer.search.rules import Centring, EndScoredBy, Mixing, NoLoops, Rule, Suppression
from fewer.search.scorer import Scorer
from fewer.store.hf_words import WordwiseLm
from fewer.store.lms import load_lm
from fewer.store.word_ngram import WordStyle, label_pieces


@dataclass(frozen=True)
class System:
    """What is searched with. Terms: "aed", "lm", "ilm", "words" for hotwords, "ctc" if it is asked for."""

    recogniser: Recogniser
    lm: LanguageModel | None = None
    ilm: Ilm | None = None
    ctc: bool = False  # score with the recogniser's CTC branch as well
    end_scored_by: Sequence[str] | None = None  # those of the terms that score the end label; None: as is usual for it
    names: dict[str, str] = field(default_factory=dict)  # what was loaded, for the N-best file's header
    words: Hotwords | None = None  # rewarded wherever they are said
    centred: bool = False  # language models say only how labels compare, so that length is not paid for
    share: float = 0.0  # of the LM, where it is mixed with the ILM; 0: it is not

    def scorers(self, aed: Scorer | None = None) -> list[Scorer]:
        """aed: what scores the term "aed" in place of the recogniser, which then shares no products with its ILM."""
        contexts = {"ilm": self.ilm.context} if self.ilm is not None and self.ilm.context is not None else {}
        if aed is None:
            scorers = [self.recogniser.scorer(contexts)]
        else:
            language_model = self.recogniser.language_model
            scorers = [aed, *(LmScorer(language_model(context), term) for term, context in contexts.items())]
        if self.ilm is not None and self.ilm.separate is not None:
            scorers.append(LmScorer(self.ilm.separate, "ilm"))
        if self.lm is not None:
            words_only = isinstance(self.lm, WordNGram | WordwiseLm) and not self.end_by(["lm"])
            scorers.append(LmScorer(cast(WordNGram, self.lm).without_end() if words_only else self.lm))
        if self.words is not None:
            scorers.append(LmScorer(self.words, "words"))
        if self.ctc:
            if (ctc := self.recogniser.ctc_scorer()) is None:
                raise FewerError("this recogniser has no CTC branch, which some of `fewer train` have; leave CTC out")
            scorers.append(ctc)
        terms = [term for scorer in scorers for term in scorer.terms]
        if not self.end_by(terms):
            asked = ", ".join(self.end_scored_by or ())
            raise FewerError(f"the end label is to be scored by {asked}, but the terms are {', '.join(terms)}")
        return scorers

    def fusion(self, scales: Mapping[str, float], scorers: list[Scorer] | None = None) -> Fusion:
        """The search's score; `scorers` made before (by `scorers()`), or some of them, can be used again."""
        recogniser, scorers = self.recogniser, scorers or self.scorers()
        terms = [term for scorer in scorers for term in scorer.terms]
        by = self.end_by(terms)
        if "words" in terms:  # it takes back what an unfinished hotword got
            by.append("words")
        if "lm" in terms and isinstance(self.lm, WordNGram | WordwiseLm):  # the last word is scored where it ends
            by.append("lm")
        alone = {"aed": 1.0} if "aed" in terms else {}
        compared = ["ilm"] if isinstance(self.lm, WordwiseLm) else ["lm", "ilm"]  # it does not compare labels
        rules = search_rules(recogniser, by, compared if self.centred else (), self.share)
        return Fusion(scorers, alone | dict(scales), recogniser.tokenizer.end, rules, recogniser.device)

    def end_by(self, terms: Sequence[str]) -> list[str]:
        """Those of the terms that are to score the end label."""
        by = self.end_scored_by if self.end_scored_by is not None else self.recogniser.defaults.end_scored_by
        return [term for term in terms if by is None or term in by]


@dataclass(frozen=True)
class Search:
    """A system with its scales and how it is searched."""

    system: System
    scales: dict[str, float]
    options: SearchOptions

    def in_language(self, language: str) -> "Search":
        """The same search by a recogniser that knew several languages and now knows which is spoken."""
        system = self.system
        recogniser = system.recogniser.in_language(language)
        other_tokens = recogniser.tokenizer.fingerprint != system.recogniser.tokenizer.fingerprint
        if (system.lm or system.words) and other_tokens:
            raise FewerError(
                f"the language is {language}, for whose tokens language models and hotwords were not loaded; "
                f"give --language {language}"
            )
        return replace(self, system=replace(system, recogniser=recogniser))


def search_rules(
    recogniser: Recogniser, end_by: Sequence[str], centred: Sequence[str] = (), share: float = 0.0
) -> list[Rule]:
    """The rules of a search. end_by: terms that score the end label. centred: those that are. share: as in `System`."""
    rules: list[Rule] = []
    suppression = None
    if recogniser.suppress is not None or recogniser.suppress_first is not None:
        rules.append(suppression := Suppression(recogniser.suppress, recogniser.suppress_first))
    if share:
        rules.append(Mixing(share))
    if centred:
        rules.append(Centring(centred, suppression=suppression, end_scored_by=end_by))
    rules.append(EndScoredBy(end_by))
    if recogniser.defaults.longest_loop:
        rules.append(NoLoops(recogniser.defaults.longest_loop))
    return rules


def load_system(
    model: str | Path | Recogniser,
    lm: str | Path | None = None,
    ilm: str | Path | None = None,
    ctc: bool = False,
    end_scored_by: Sequence[str] | None = None,
    words: str | Path | None = None,
    language: str | None = None,
    task: str = "transcribe",
    cached: bool = False,
    centred: bool | None = None,
    share: float | None = None,
    placement: Placement = CPU,
    detect: bool = False,
) -> System:
    """Load recogniser, LM, ILM and hotwords, and make sure that they speak the same labels.

    language, task, cached, placement, detect: as in `load_recogniser`. centred, share: as in `System`; None: the usual.
    """
    if isinstance(model, str | Path):
        recogniser = load_recogniser(model, language, task, cached, placement, detect)
    else:
        recogniser = model
    given: dict[str, Any] = {"model": model if isinstance(model, str | Path) else None, "lm": lm, "ilm": ilm}
    given["words"] = words
    return System(
        recogniser,
        None if lm is None else load_lm(lm, recogniser.tokenizer, recogniser.device),
        None if ilm is None else load_ilm(ilm, recogniser),
        ctc,
        end_scored_by,
        {name: str(value) for name, value in given.items() if value is not None},
        None if words is None else load_hotwords(words, recogniser.tokenizer).to(recogniser.device),
        recogniser.defaults.centred if centred is None else centred,
        recogniser.defaults.share if share is None else share,
    )


def load_hotwords(path: str | Path, tokenizer: Tokenizer) -> Hotwords:
    """A list of hotwords as what rewards them in `tokenizer`'s labels."""
    blanks = getattr(tokenizer, "leading_space", True)  # else words are not told apart, and any place will do
    pieces = label_pieces(tokenizer, WordStyle())
    starts = torch.tensor([piece.starts or not blanks for piece in pieces])
    ends = torch.tensor([piece.ends or not blanks for piece in pieces])
    splits = torch.tensor([_is_mark(piece.text) for piece in pieces])
    return Hotwords(spellings(path, tokenizer), starts, ends, splits, tokenizer.end)


def _is_mark(text: bytes) -> bool:
    """Whether a text begins with something else than a letter, a digit or a part of one."""
    first = text.decode(errors="replace")[:1]
    return first not in ("", "\ufffd") and not first.isalnum()
