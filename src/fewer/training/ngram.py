"""Interpolated modified Kneser-Ney estimation of token n-grams (Chen & Goodman 1999), as in kenlm's lmplz.

The longest n-grams are counted as they occur; a shorter one by how many different labels precede it, unless it begins
a sentence. With c the count, D₁, D₂, D₃ the discounts of its length for c = 1, 2, ≥ 3, and h′ the history without its
first label,

    P(v | h) = (c(h v) − D(c(h v))) / Σ_u c(h u)  +  γ(h) · P(v | h′),      γ(h) = Σ_u D(c(h u)) / Σ_u c(h u)

and below the unigrams stands the uniform distribution over the whole vocabulary. Pruned n-grams give all of their
count to γ, so every history still sums to 1.

Two things differ from lmplz, in the discounts of very small texts only. lmplz accepts a discount of 0, under which
labels that a history has not been seen with may get the probability 0. And for the last n-gram of each length but the
longest, it takes how often it occurs instead of its count when it counts counts.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.models.ngram import Level, NGram

FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for a length whose counts of counts allow no closed form, as lmplz's


class Counts(NamedTuple):
    """The different n-grams of one length, sorted. Indices count from 0 within the level of n-grams one shorter."""

    parents: Tensor  # (L,) index of the n-gram without its last label
    labels: Tensor  # (L,) last label
    suffixes: Tensor  # (L,) index of the n-gram without its first label
    occurrences: Tensor  # (L,)


def estimate(
    stream: Tensor | np.ndarray,
    order: int,
    vocab_size: int,
    end: int = 0,
    prune: Sequence[int] = (),
    dtype: torch.dtype = torch.float32,
) -> NGram:
    """The modified Kneser-Ney model of a text given as one stream of labels, each sentence closed by the end label
    (such as the `labels` of a token store).

    prune: for each length, drop n-grams that occur at most so often; not for unigrams, not falling, and the last
    value goes for all longer n-grams. Needs up to 200 bytes of memory for each label of the stream.
    """
    thresholds = thresholds_of(prune, order)
    labels = _checked(stream, vocab_size, end)
    levels = _kneser_ney(count_ngrams(labels, order, vocab_size, end), thresholds, end, dtype)
    return NGram.from_levels(levels, end)


def count_ngrams(stream: Tensor, order: int, vocab_size: int, end: int = 0) -> list[Counts]:
    """Count all n-grams up to `order` that lie in one sentence, its start and its end included.

    An n-gram's number is its rank in sorted order; the next length sorts pairs (number, next label).
    """
    stream = torch.cat([stream.new_tensor([end]), stream])
    vocabulary = torch.arange(vocab_size)
    nowhere = torch.zeros_like(vocabulary)
    levels = [Counts(nowhere, vocabulary, nowhere, torch.bincount(stream[1:], minlength=vocab_size))]
    numbers, starts = stream, torch.arange(len(stream))  # number of the n-gram that starts at each place; the places
    for n in range(2, order + 1):
        starts = starts[starts < len(stream) - n + 1]
        if n > 2:
            starts = starts[stream[starts + n - 2] != end]
        if not len(starts):
            break
        keys, by_key = torch.sort(numbers[starts] * vocab_size + stream[starts + n - 1])
        starts_by_key = starts[by_key]
        is_first = torch.cat([torch.ones(1, dtype=torch.bool), keys[1:] != keys[:-1]])
        firsts = is_first.nonzero().squeeze(1)
        example = starts_by_key[firsts]
        occurrences = torch.cat([firsts, firsts.new_tensor([len(keys)])]).diff()
        levels.append(Counts(numbers[example], stream[example + n - 1], numbers[example + 1], occurrences))
        numbers = torch.empty_like(stream)
        numbers[starts_by_key] = is_first.cumsum(0) - 1
    return levels


def discounts(counts: Tensor) -> Tensor:
    """D for a count of 0, 1, 2 and ≥ 3, in closed form from how many n-grams have the counts 1 to 4. (4,)

    D_k = k − (k + 1) · Y · n_{k+1} / n_k with Y = n₁ / (n₁ + 2 n₂). Where no n-gram has the count 1, 2 or 3, or D_k is
    not in (0, k], as in very small or artificial texts, FALLBACK_DISCOUNTS. Without n-grams of count 4, D₃ is 3.
    """
    return discounts_of(torch.bincount(counts.clamp(max=5), minlength=6))


def discounts_of(having: Tensor) -> Tensor:
    """The same from how many n-grams have the counts 0, 1, …, 4 and ≥ 5. (6,) -> (4,)"""
    having = having.double()
    y = having[1] / (having[1] + 2 * having[2])
    k = torch.arange(1, 4, dtype=torch.double)
    closed = k - (k + 1) * y * having[2:5] / having[1:4]
    good = bool((having[1:4] > 0).all() and (closed > 0).all() and (closed <= k).all())
    return torch.cat([torch.zeros(1), closed if good else torch.tensor(FALLBACK_DISCOUNTS)]).double()


def _kneser_ney(levels: Sequence[Counts], thresholds: Sequence[int], end: int, dtype: torch.dtype) -> list[Level]:
    vocab_size = len(levels[0].labels)
    lower = torch.full((1,), 1 / vocab_size, dtype=torch.double)  # P of every n-gram one shorter
    first_labels = levels[0].labels
    nodes = torch.zeros(1, dtype=torch.long)  # node of every n-gram one shorter in the model without the pruned ones
    next_node, result = 1, list[Level]()
    for n, level in enumerate(levels, start=1):
        first_labels = first_labels if n == 1 else first_labels[level.parents]
        counts = level.occurrences
        if n < len(levels):
            counts = torch.bincount(levels[n].suffixes, minlength=len(counts))
            if n > 1:
                counts = torch.where(first_labels == end, level.occurrences, counts)
        kept = level.occurrences > thresholds[n - 1] if n > 1 else torch.ones_like(counts, dtype=torch.bool)
        discount = discounts(counts)[counts.clamp(max=3)]
        totals = torch.bincount(level.parents, weights=counts.double(), minlength=len(lower))
        saved = torch.bincount(level.parents, weights=torch.where(kept, discount, counts), minlength=len(lower))
        gammas = torch.where(totals > 0, saved / totals, 1.0)
        if n > 1:
            result[-1] = result[-1]._replace(backoffs=gammas.log()[nodes >= 0].to(dtype))
        lower = (counts - discount) / totals[level.parents] + gammas[level.parents] * lower[level.suffixes]

        parents, suffixes = nodes[level.parents[kept]], nodes[level.suffixes[kept]]
        log_probs = lower[kept].log().to(dtype)
        result.append(Level(parents, level.labels[kept], suffixes, log_probs, torch.zeros_like(log_probs)))
        nodes = torch.where(kept, kept.cumsum(0) - 1 + next_node, -1)
        next_node += len(log_probs)
    return result


def thresholds_of(prune: Sequence[int], order: int) -> list[int]:
    if order < 1:
        raise FewerError(f"order {order}: an n-gram has at least one label")
    thresholds = [*prune, *[prune[-1] if prune else 0] * order][:order]
    if any(a > b for a, b in pairwise(thresholds)) or min(thresholds) < 0:
        raise FewerError(f"pruning counts {list(prune)}: they must not be negative and not fall with the order")
    if thresholds[0] > 0:
        raise FewerError(f"pruning counts {list(prune)}: the first one, for unigrams, must be 0; no label may be lost")
    return thresholds


def _checked(stream: Tensor | np.ndarray, vocab_size: int, end: int) -> Tensor:
    labels = stream.long() if isinstance(stream, Tensor) else torch.from_numpy(np.asarray(stream).astype(np.int64))
    if not len(labels):
        raise FewerError("there is no text to count n-grams of")
    low, high = (int(x) for x in labels.aminmax())
    if low < 0 or high >= vocab_size:
        raise FewerError(f"the text has label {low if low < 0 else high}, but the vocabulary has {vocab_size} labels")
    if int(labels[-1]) != end:
        raise FewerError(f"the last sentence is not closed by the end label {end}")
    return labels
