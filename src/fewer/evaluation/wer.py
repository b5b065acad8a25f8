"""Word and character error rates with their uncertainty. Rates are in percent everywhere.

    result = score(refs, hyps, speakers)      # dicts by utterance id
    result.wer, result.low, result.high       # 95 % bootstrap interval
    compare(result, other).p_matched_pairs    # is the difference more than chance?

The bootstrap draws whole speakers where every utterance has one and there are at least five, because errors of one
speaker come together and drawing utterances would make the interval too narrow; otherwise it draws utterances.
`Result.unit` says which it was.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fewer.errors import FewerError
from fewer.evaluation.alignment import Rules, align, tokens
from fewer.evaluation.guards import utterances_fingerprint
from fewer.evaluation.network import Edit
from fewer.evaluation.significance import (
    REPLICATIONS,
    Floats,
    Ints,
    MatchedPairs,
    bootstrap,
    chance,
    interval,
    matched_pairs,
    two_sided,
)

Unit = Literal["auto", "speaker", "utterance"]
MIN_SPEAKERS = 5  # fewer than this cannot stand for the variety of speakers
Counts = tuple[int, int, int, int]  # substitutions, deletions, insertions, reference words
LISTED = 10  # ids named in an error message


@dataclass(frozen=True)
class Errors:
    """Counts of errors; add them up with +."""

    sub: int = 0
    deletions: int = 0
    ins: int = 0
    words: int = 0  # of the reference (characters, for a character error rate)
    sentences: int = 0
    sentence_errors: int = 0  # sentences with at least one error

    @property
    def total(self) -> int:
        return self.sub + self.deletions + self.ins

    @property
    def wer(self) -> float:
        return percent(self.total, self.words)

    @property
    def ser(self) -> float:
        return percent(self.sentence_errors, self.sentences)

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(
            self.sub + other.sub,
            self.deletions + other.deletions,
            self.ins + other.ins,
            self.words + other.words,
            self.sentences + other.sentences,
            self.sentence_errors + other.sentence_errors,
        )


def percent(errors: float, words: float) -> float:
    """100 · errors / words; without words no errors are 0 % and any are infinitely many."""
    if words:
        return 100 * errors / words
    return float("inf") if errors else 0.0


def word_errors(ref: str, hyp: str, characters: bool = False) -> Errors:
    """Fewest errors that turn `ref` into `hyp`, word by word (or character by character)."""
    sub, deletions, ins, words = fewest(ref, hyp, characters)
    return Errors(sub, deletions, ins, words, 1, int(sub + deletions + ins > 0))


def fewest(ref: str, hyp: str, characters: bool = False) -> Counts:
    """The counts of `plain_alignment` without the alignment, which takes three times as long."""
    import kaldialign

    said = tokens(ref, characters)
    if ref == hyp:
        return 0, 0, 0, len(said)
    counts = kaldialign.edit_distance(said, tokens(hyp, characters))
    return counts["sub"], counts["del"], counts["ins"], len(said)


def count(edits: Sequence[Edit]) -> Errors:
    """The errors of one sentence's alignment."""
    sub, deletions, ins, words = _counts(edits)
    return Errors(sub, deletions, ins, words, 1, int(sub + deletions + ins > 0))


def _counts(edits: Sequence[Edit]) -> Counts:
    kinds = "".join([edit.kind for edit in edits])
    ins = kinds.count("I")
    return kinds.count("S"), kinds.count("D"), ins, len(kinds) - ins


@dataclass(frozen=True)
class Result:
    """A system's errors on one set, utterance by utterance."""

    ids: tuple[str, ...]
    refs: tuple[str, ...]
    hyps: tuple[str, ...]
    speakers: tuple[str, ...] | None = None  # of each utterance, where all are known
    rules: Rules = "plain"
    characters: bool = False  # counts are of characters
    unit: Literal["speaker", "utterance"] = "utterance"  # what the bootstrap draws
    replications: int = field(default=REPLICATIONS, repr=False)
    seed: int = field(default=0, repr=False)

    @cached_property
    def counts(self) -> Ints:
        """Substitutions, deletions, insertions and reference words of each utterance. (U, 4)"""
        if self.rules == "plain":
            counts = [fewest(ref, hyp, self.characters) for ref, hyp in zip(self.refs, self.hyps, strict=True)]
        else:
            counts = list(map(_counts, self.alignments))
        return np.array(counts, dtype=np.int64).reshape(-1, 4)

    @cached_property
    def alignments(self) -> tuple[tuple[Edit, ...], ...]:
        """Which word stands for which, utterance by utterance."""
        with _no_collection():
            texts = zip(self.ids, self.refs, self.hyps, strict=True)
            return tuple([_align(*text, self.rules, self.characters) for text in texts])

    @cached_property
    def errors(self) -> Errors:
        """All utterances together."""
        wrong = int(np.count_nonzero(self.counts[:, :3].sum(1)))
        sub, deletions, ins, words = self.counts.sum(0).tolist()
        return Errors(sub, deletions, ins, words, len(self.counts), wrong)

    @property
    def wer(self) -> float:
        return self.errors.wer

    @property
    def ser(self) -> float:
        return self.errors.ser

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Between which rates 95 % of resampled test sets lie."""
        rates = bootstrap(*self.totals, self.units, self.replications, self.seed)
        low, high = interval(100 * rates)
        return low, high

    @property
    def low(self) -> float:
        return self.interval[0]

    @property
    def high(self) -> float:
        return self.interval[1]

    @property
    def totals(self) -> tuple[Ints, Ints]:
        """Errors (U,) and reference words (U,) of each utterance."""
        return self.counts[:, :3].sum(1), self.counts[:, 3]

    @property
    def units(self) -> Ints:
        """Number of the bootstrap's unit that each utterance belongs to. (U,)"""
        if self.unit == "speaker" and self.speakers:
            return np.unique(np.array(self.speakers), return_inverse=True)[1].astype(np.int64).reshape(-1)
        return np.arange(len(self.ids), dtype=np.int64)

    def by_speaker(self) -> dict[str, Errors]:
        """Each speaker's errors, in the order of their names."""
        if self.speakers is None:
            raise FewerError(
                "the speakers are not known: give an utterance-to-speaker file, or references that name them"
            )
        found: dict[str, Errors] = {}
        for speaker, (sub, deletions, ins, words) in zip(self.speakers, self.counts.tolist(), strict=True):
            wrong = int(sub + deletions + ins > 0)
            found[speaker] = found.get(speaker, Errors()) + Errors(sub, deletions, ins, words, 1, wrong)
        return dict(sorted(found.items()))

    def to_json(self) -> dict[str, Any]:
        """What tables and the report read."""
        return {
            "cer" if self.characters else "wer": round(self.wer, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "sub": self.errors.sub,
            "del": self.errors.deletions,
            "ins": self.errors.ins,
            "characters" if self.characters else "words": self.errors.words,
            "ser": round(self.ser, 4),
            "utterances": len(self.ids),
            "utterances_fingerprint": utterances_fingerprint(self.ids),
            "rules": self.rules,
            "bootstrap": {"unit": self.unit, "units": len(np.unique(self.units)), "replications": self.replications},
        }


def score(
    refs: Mapping[str, str],
    hyps: Mapping[str, str],
    speakers: Mapping[str, str] | None = None,
    *,
    rules: Rules = "plain",
    characters: bool = False,
    missing: Literal["error", "deletions"] = "error",
    unit: Unit = "auto",
    replications: int = REPLICATIONS,
    seed: int = 0,
) -> Result:
    """Align every hypothesis with its reference; one that is missing is an error, or has all its words deleted."""
    if not refs:
        raise FewerError("there are no references to score against")
    _same_ids(refs, hyps, missing)
    ids = tuple(refs)
    texts = tuple(refs.values()), tuple([hyps.get(i, "") for i in ids])
    known = tuple(speakers[i] for i in ids) if speakers and all(i in speakers for i in ids) else None
    result = Result(ids, *texts, known, rules, characters, _unit(unit, known), replications, seed)
    if not result.errors.words:
        raise FewerError(f"all {len(ids)} references are empty, so there is no error rate; is this the right file?")
    return result


@contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of small objects that stay are not searched for garbage again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _align(utterance: str, ref: str, hyp: str, rules: Rules, characters: bool) -> tuple[Edit, ...]:
    try:
        return align(ref, hyp, rules, characters)
    except FewerError as error:
        raise FewerError(f"utterance {utterance}: {error}") from error


def _same_ids(refs: Mapping[str, str], hyps: Mapping[str, str], missing: str) -> None:
    unknown = [i for i in hyps if i not in refs]
    if unknown:
        raise FewerError(f"{len(unknown)} hypotheses have no reference: {listed(unknown)}")
    absent = [i for i in refs if i not in hyps]
    if absent and missing == "error":
        raise FewerError(
            f"{len(absent)} of {len(refs)} references have no hypothesis: {listed(absent)}. "
            "Decode them, or count their words as deleted (missing='deletions', --missing deletions)"
        )


def listed(ids: Sequence[str]) -> str:
    """The first few ids, for a message."""
    more = f", … ({len(ids) - LISTED} more)" if len(ids) > LISTED else ""
    return ", ".join(ids[:LISTED]) + more


def _unit(unit: Unit, speakers: tuple[str, ...] | None) -> Literal["speaker", "utterance"]:
    if unit == "auto":
        return "speaker" if speakers and len(set(speakers)) >= MIN_SPEAKERS else "utterance"
    if unit == "speaker" and speakers is None:
        raise FewerError("cannot resample speakers: not every utterance's speaker is known")
    return unit


@dataclass(frozen=True)
class Comparison:
    """The first system against the second on the same utterances; negative differences mean the first is better."""

    difference: float  # absolute, in percent points
    low: float  # 95 % interval of the difference
    high: float
    p_bootstrap: float  # two-sided
    better: float  # share of resampled test sets (those with words) on which the first system has fewer errors
    chance: float  # of all units that differ favouring the same system
    matched_pairs: MatchedPairs

    @property
    def p_matched_pairs(self) -> float:
        return self.matched_pairs.p

    @property
    def sure(self) -> float:
        """How sure one may be that the first is better: as often as resampled, but no more than a few units allow."""
        return min(self.better, 1 - self.chance)

    def to_json(self) -> dict[str, Any]:
        pairs = self.matched_pairs
        return {
            "difference": round(self.difference, 4),
            "low": round(self.low, 4),
            "high": round(self.high, 4),
            "p_bootstrap": self.p_bootstrap,
            "better": self.better,
            "p_matched_pairs": pairs.p,
            "z_matched_pairs": pairs.z if np.isfinite(pairs.z) else None,
            "segments": pairs.segments,
        }


def compare(first: Result, second: Result) -> Comparison:
    """Paired bootstrap and matched-pairs test between two systems on the same set."""
    if set(first.ids) != set(second.ids):
        odd = sorted(set(first.ids) ^ set(second.ids))
        raise FewerError(f"the systems were not scored on the same utterances: {listed(odd)} in only one of them")
    if (first.rules, first.characters) != (second.rules, second.characters):
        raise FewerError("the systems were scored by different rules; score both alike")
    place = {i: n for n, i in enumerate(second.ids)}
    order = np.array([place[i] for i in first.ids])
    alignments = [second.alignments[n] for n in order]
    if first.rules == "plain":
        _same_references(first, [second.refs[n] for n in order])
    errors = np.stack([first.totals[0], second.totals[0][order]])
    words = np.stack([first.totals[1], second.totals[1][order]])
    rates: Floats = 100 * bootstrap(errors, words, first.units, first.replications, first.seed)
    differences = rates[0] - rates[1]
    differences = differences[~np.isnan(differences)]
    low, high = interval(differences)
    by_chance = chance(errors, first.units)
    return Comparison(
        difference=first.wer - second.wer,
        low=low,
        high=high,
        p_bootstrap=two_sided(differences, by_chance),
        better=float((differences < 0).mean()),
        chance=by_chance,
        matched_pairs=matched_pairs(first.alignments, alignments),
    )


def _same_references(first: Result, refs: Sequence[str]) -> None:
    for utterance, a, b in zip(first.ids, first.refs, refs, strict=True):
        if a != b and tokens(a, first.characters) != tokens(b, first.characters):
            raise FewerError(f"utterance {utterance} has another reference in the two systems; score both alike")
