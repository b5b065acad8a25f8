"""How sure a rate and a difference of rates are: the bootstrap and the matched-pairs test.

Everything is deterministic: the same counts and seed give the same numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewer.evaluation.network import Edit

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
REPLICATIONS = 10_000
CONFIDENCE = 0.95
CHUNK = 4_000_000  # drawn indices held in memory at once
MANY = 10_000  # units from which on it is drawn how often each kind of unit comes, which is the same and faster
GOOD_WORDS = 2  # correct words of both systems that end a matched-pairs segment, as in sc_stats


def bootstrap(errors: Ints, words: Ints, units: Ints, replications: int = REPLICATIONS, seed: int = 0) -> Floats:
    """Error rates of resampled test sets (Bisani & Ney 2004).

    `units` numbers what is drawn with replacement: each utterance, or the speaker it belongs to. `errors` and `words`
    are (U,) or, for systems that share their draws, (systems, U); the rates (replications,) or (systems, replications),
    NaN where no reference word was drawn.
    """
    errors, words = np.asarray(errors), np.asarray(words)
    count = int(units.max()) + 1
    totals = np.stack([_by_unit(row, units, count) for row in np.atleast_2d(errors)])  # (systems, units)
    lengths = np.stack([_by_unit(row, units, count) for row in np.atleast_2d(words)])
    generator = np.random.default_rng(seed)
    rates = np.empty((len(totals), replications))
    if count > MANY:
        rates = _by_kind(totals, lengths, replications, generator)
        return rates[0] if errors.ndim == 1 else rates
    rows = max(1, CHUNK // count)
    for first in range(0, replications, rows):
        drawn = generator.integers(0, count, size=(min(rows, replications - first), count))
        for system, (total, length) in enumerate(zip(totals, lengths, strict=True)):
            drawn_words = length[drawn].sum(1)
            drawn_words[drawn_words == 0] = np.nan
            rates[system, first : first + len(drawn)] = total[drawn].sum(1) / drawn_words
    return rates[0] if errors.ndim == 1 else rates


def _by_kind(totals: Floats, lengths: Floats, replications: int, generator: np.random.Generator) -> Floats:
    """The same where many units have the same counts: how often each kind is drawn is multinomial.

    (systems, units), (systems, units) -> (systems, replications)
    """
    kinds, members = np.unique(np.concatenate([totals, lengths]), axis=1, return_counts=True)  # (2 · systems, kinds)
    sums = np.empty((len(kinds), replications))
    units = totals.shape[1]
    rows = max(1, CHUNK // len(members))
    for first in range(0, replications, rows):
        size = min(rows, replications - first)
        drawn = generator.multinomial(units, members / units, size=size)  # (size, kinds)
        sums[:, first : first + size] = kinds @ drawn.T
    words = sums[len(totals) :]
    words[words == 0] = np.nan
    rates: Floats = sums[: len(totals)] / words
    return rates


def _by_unit(counts: Ints, units: Ints, count: int) -> Floats:
    return np.bincount(units, weights=counts, minlength=count).astype(np.float64)


def interval(rates: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The percentile interval; draws without any reference word say nothing and are left out."""
    finite = rates[np.isfinite(rates)]
    if not len(finite):
        return math.nan, math.nan
    low, high = np.quantile(finite, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def chance(errors: Ints, units: Ints) -> float:
    """How likely all units that two systems differ in would favour the same one by chance. (2, U), (U,)

    Draws from a few units differ too little to tell, so nothing may be surer than this.
    """
    differing = np.count_nonzero(_by_unit(errors[0] - errors[1], units, int(units.max()) + 1))
    return float(0.5**differing)


def two_sided(differences: Floats, by_chance: float = 0.0) -> float:
    """p of no difference: twice the smaller share of draws on either side of zero, never exactly zero."""
    finite = differences[np.isfinite(differences)]
    below, above = int((finite <= 0).sum()), int((finite >= 0).sum())
    return min(1.0, 2 * max((min(below, above) + 1) / (len(finite) + 1), by_chance))


@dataclass(frozen=True)
class MatchedPairs:
    """The matched-pairs sentence-segment word error test (MAPSSWE; Gillick & Cox 1989)."""

    segments: int
    mean: float  # errors of the first system minus errors of the second, per segment
    z: float
    p: float  # two-sided


def segments(first: Sequence[Edit], second: Sequence[Edit], good: int = GOOD_WORDS) -> list[tuple[int, int]]:
    """Errors of both systems in each stretch of an utterance that `good` words right in both separate from the next."""
    # An item i of the reference has slot 2i + 1, what is inserted before it slot 2i.
    errors: dict[int, list[int]] = {}
    for system, edits in enumerate((first, second)):
        for edit in edits:
            if edit.kind != "=":
                slot = 2 * edit.position + (edit.kind != "I")
                errors.setdefault(slot, [0, 0])[system] += 1
    found: list[list[int]] = []
    last = -1
    for slot in sorted(errors):
        right_between = slot // 2 - (last + 1) // 2
        if not found or right_between >= good:
            found.append([0, 0])
        found[-1][0] += errors[slot][0]
        found[-1][1] += errors[slot][1]
        last = slot
    return [(a, b) for a, b in found]


def matched_pairs(
    first: Sequence[Sequence[Edit]], second: Sequence[Sequence[Edit]], good: int = GOOD_WORDS
) -> MatchedPairs:
    """Compare two systems by their alignments of the same utterances, as NIST's sc_stats does.

    Unlike sc_stats, words that the second system inserts at the very end of an utterance count too.
    """
    pairs = [pair for a, b in zip(first, second, strict=True) for pair in segments(a, b, good)]
    differences = np.array([a - b for a, b in pairs], dtype=np.float64)
    if not len(differences) or not differences.any():
        return MatchedPairs(len(differences), 0.0, 0.0, 1.0)
    mean = float(differences.mean())
    deviation = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    if deviation == 0.0:  # every segment differs alike, so there is no normal approximation: the sign test instead
        return MatchedPairs(
            len(differences), mean, math.copysign(math.inf, mean), min(1.0, 2 * 0.5 ** len(differences))
        )
    z = mean / (deviation / math.sqrt(len(differences)))
    return MatchedPairs(len(differences), mean, z, math.erfc(abs(z) / math.sqrt(2)))
