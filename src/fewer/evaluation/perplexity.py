"""Perplexity from summed log-probabilities and counts, added up as they come.

    total = sum((Perplexity.of(log_prob, labels, words) for … in sentences), Perplexity())
    total.per_label, total.per_word

Both count the end of the sentence: it is one more label to the model and one more word to the reader, so that models
over different labels compare by `per_word`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fewer.errors import FewerError


@dataclass(frozen=True)
class Perplexity:
    """What a language model gave to some sentences; add up with +."""

    log_prob: float = 0.0  # natural logarithm, summed
    labels: int = 0  # end labels counted
    words: int = 0  # ends of sentences not counted
    sentences: int = 0

    @classmethod
    def of(cls, log_prob: float, labels: int, words: int, sentences: int = 1) -> "Perplexity":
        """The counts of a sentence, or of several together."""
        if math.isnan(log_prob) or log_prob == math.inf:
            raise FewerError(f"a log-probability is {log_prob}; the model has gone astray")
        if labels < sentences or min(words, sentences) < 0:
            raise FewerError(f"{labels} labels, {words} words, {sentences} sentences: an end label counts as a label")
        return cls(float(log_prob), labels, words, sentences)

    @property
    def per_label(self) -> float:
        return _perplexity(self.log_prob, self.labels)

    @property
    def per_word(self) -> float:
        return _perplexity(self.log_prob, self.words + self.sentences)

    def __add__(self, other: "Perplexity") -> "Perplexity":
        return Perplexity(
            self.log_prob + other.log_prob,
            self.labels + other.labels,
            self.words + other.words,
            self.sentences + other.sentences,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "ppl_label": self.per_label,
            "ppl_word": self.per_word,
            "log_prob": self.log_prob,
            "labels": self.labels,
            "words": self.words,
            "sentences": self.sentences,
        }


def batch_perplexity(log_probs: Sequence[float], labels: Sequence[int], texts: Sequence[str]) -> Perplexity:
    """The counts of a batch: each sentence's summed log-probability, number of labels (end label counted) and text."""
    rows = zip(log_probs, labels, texts, strict=True)
    return sum((Perplexity.of(float(p), int(n), len(text.split())) for p, n, text in rows), Perplexity())


def _perplexity(log_prob: float, count: int) -> float:
    if not count:
        raise FewerError("there is nothing to take a perplexity of: no sentence was scored")
    try:
        return math.exp(-log_prob / count)
    except OverflowError:
        return math.inf
