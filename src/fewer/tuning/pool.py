"""A pool: the distinct hypotheses that a method's decodes have found for each utterance, with what each term says.

From a pool the corpus's word errors follow for any scales without another decode.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewer.errors import FewerError
from fewer.evaluation.alignment import Rules, align
from fewer.evaluation.normalise import Normaliser, load_normaliser
from fewer.evaluation.wer import Result, count, score, word_errors
from fewer.search.nbest import Header, Hypothesis, NBest, check_terms, read_header, read_nbest, write_nbest
from fewer.tuning.space import Scales


@dataclass(frozen=True)
class Metric:
    """How errors are counted: as `fewer score` does with the same options."""

    normaliser: Normaliser = field(default_factory=lambda: load_normaliser("none"))
    rules: Rules = "plain"
    characters: bool = False  # count characters instead of words

    def count(self, ref: str, hyp: str) -> tuple[int, int]:
        """Errors and reference words; the words may depend on the hypothesis where a reference has alternatives."""
        ref, hyp = self.normaliser.ref(ref), self.normaliser.hyp(hyp)
        plain = self.rules == "plain"
        errors = (
            word_errors(ref, hyp, self.characters) if plain else count(align(ref, hyp, self.rules, self.characters))
        )
        return errors.total, errors.words

    def score(self, refs: Mapping[str, str], hyps: Mapping[str, str], speakers: Mapping[str, str]) -> Result:
        """The whole corpus, with its bootstrap interval."""
        refs = {id: self.normaliser.ref(text) for id, text in refs.items()}
        hyps = {id: self.normaliser.hyp(text) for id, text in hyps.items()}
        return score(refs, hyps, speakers, rules=self.rules, characters=self.characters)


@dataclass(frozen=True)
class PoolArrays:
    """A pool padded into arrays: U utterances, at most H hypotheses each, in the order in which they were found."""

    scores: NDArray[np.float64]  # (U, H, terms), unscaled
    length: NDArray[np.int64]  # (U, H), 1 in the padding
    errors: NDArray[np.int64]  # (U, H)
    words: NDArray[np.int64]  # (U, H), of the reference
    valid: NDArray[np.bool_]  # (U, H), False in the padding


@dataclass
class _Utterance:
    """One utterance's hypotheses in the order in which they were found."""

    ref: str
    speaker: str | None
    hypotheses: dict[tuple[tuple[int, ...], bool], Hypothesis]  # by tokens and whether it ended
    counts: list[tuple[int, int]]  # errors and reference words of each


class Pool:
    """Grows by N-best lists of the same utterances; two hypotheses are one if their tokens are (and both ended)."""

    def __init__(self, terms: Iterable[str], metric: Metric | None = None):
        self.terms = tuple(terms)
        self.metric = metric or Metric()
        self.utterances: dict[str, _Utterance] = {}
        self._counts: dict[tuple[str, str], tuple[int, int]] = {}  # (utterance, text) -> errors, reference words
        self._arrays: PoolArrays | None = None

    def __len__(self) -> int:
        """The number of hypotheses."""
        return sum(len(utterance.hypotheses) for utterance in self.utterances.values())

    @property
    def ids(self) -> list[str]:
        return list(self.utterances)

    def add(self, lists: Iterable[NBest]) -> int:
        """Add what is new in a decode of all utterances; returns the number of new hypotheses."""
        lists = list(lists)
        self._check(lists)
        before = len(self)
        for nbest in lists:
            utterance = self.utterances.setdefault(nbest.id, _Utterance(nbest.ref or "", nbest.speaker, {}, []))
            for hypothesis in nbest.hypotheses:
                key = hypothesis.tokens, hypothesis.ended
                if key not in utterance.hypotheses:
                    utterance.hypotheses[key] = hypothesis
                    utterance.counts.append(self._count(nbest.id, hypothesis.text))
        self._arrays = None
        if not self.arrays().words.any():
            raise FewerError(f"all {len(lists)} references are empty, so there is no error rate to tune")
        return len(self) - before

    def _count(self, id: str, text: str) -> tuple[int, int]:
        """Errors and reference words of a text, counted once for each distinct text of an utterance."""
        if (id, text) not in self._counts:
            self._counts[id, text] = self.metric.count(self.utterances[id].ref, text)
        return self._counts[id, text]

    def _check(self, lists: list[NBest]) -> None:
        seen: set[str] = set()
        for nbest in lists:
            if nbest.id in seen:
                raise FewerError(f"utterance {nbest.id} is there twice in one decode")
            seen.add(nbest.id)
            if nbest.ref is None:
                raise FewerError(f"utterance {nbest.id} has no reference; tuning needs transcripts")
            if not nbest.hypotheses:
                raise FewerError(f"utterance {nbest.id} has an empty N-best list; the search must give at least one")
            if nbest.id in self.utterances and nbest.ref != self.utterances[nbest.id].ref:
                raise FewerError(f"utterance {nbest.id} has another reference than in the earlier decode")
            for hypothesis in nbest.hypotheses:
                check_terms(f"utterance {nbest.id}", hypothesis, self.terms)
                if (length := hypothesis.length) < 1:
                    raise FewerError(f"utterance {nbest.id}: '{hypothesis.text}' has length {length}, expected ≥ 1")
        if self.utterances and seen != self.utterances.keys():
            odd = sorted(seen ^ self.utterances.keys())
            where = "missing in this decode" if odd[0] in self.utterances else "not in the earlier decodes"
            raise FewerError(f"{len(odd)} utterances differ between decodes: {odd[0]} is {where}; decode the same set")
        if not seen:
            raise FewerError("there are no utterances to tune on")

    def score(self, lists: Iterable[NBest]) -> Result:
        """What a decode's best hypotheses are worth, utterances in the pool's order."""
        texts = {nbest.id: nbest.hypotheses[0].text for nbest in lists}
        refs = {id: utterance.ref for id, utterance in self.utterances.items()}
        speakers = {id: utterance.speaker for id, utterance in self.utterances.items() if utterance.speaker is not None}
        return self.metric.score(refs, texts, speakers)

    def arrays(self) -> PoolArrays:
        """The pool as padded arrays."""
        if self._arrays is None:
            utterances = list(self.utterances.values())
            shape = (len(utterances), max(len(utterance.hypotheses) for utterance in utterances))
            scores = np.zeros((*shape, len(self.terms)))
            length, counts = np.ones(shape, np.int64), np.zeros((*shape, 2), np.int64)
            valid = np.zeros(shape, bool)
            for row, utterance in enumerate(utterances):
                hypotheses = list(utterance.hypotheses.values())
                n = len(hypotheses)
                scores[row, :n] = [[h.scores[term] for term in self.terms] for h in hypotheses]
                length[row, :n] = [h.length for h in hypotheses]
                counts[row, :n] = utterance.counts
                valid[row, :n] = True
            self._arrays = PoolArrays(scores, length, counts[..., 0], counts[..., 1], valid)
        return self._arrays

    def lists(self) -> Iterator[NBest]:
        """The pool as N-best lists, in the order in which hypotheses were found."""
        for id, utterance in self.utterances.items():
            yield NBest(id, tuple(utterance.hypotheses.values()), utterance.ref, utterance.speaker)

    def save(self, path: str | Path, scales: Scales, info: dict[str, Any]) -> None:
        """Write the pool as an N-best file; `scales` are those a reader should start with."""
        write_nbest(path, Header(self.terms, scales.terms, scales.length, info), self.lists())

    @classmethod
    def load(cls, path: str | Path, metric: Metric | None = None) -> "Pool":
        """Read a pool, or any N-best file, whose hypotheses become a pool."""
        pool = cls(read_header(path).terms, metric)
        pool.add(read_nbest(path))
        return pool
