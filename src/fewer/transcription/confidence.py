"""How sure the recogniser is of each word."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from fewer.transcription.words import Word


def with_confidences(
    words: Sequence[Word], labels: Sequence[int], log_probs: Sequence[float], decode: Callable[[Sequence[int]], str]
) -> tuple[Word, ...]:
    """Words with the geometric mean of the probabilities of the labels that spell them.

    log_probs: of each label. words: together they spell what the labels spell.
    """
    text = decode(labels)
    sums, counts = [0.0] * len(words), [0] * len(words)
    owner = [number for number, word in enumerate(words) for _ in word.text]  # of each character
    done = first = 0  # characters, and the label after those that spell them
    for last in range(len(labels)):
        known = decode(labels[: last + 1])
        if len(known) == done or not text.startswith(known):  # the last character is not complete
            continue
        for number in set(owner[done : len(known)]):
            sums[number] += sum(log_probs[first : last + 1])
            counts[number] += last + 1 - first
        done, first = len(known), last + 1
    means = [math.exp(total / count) if count else None for total, count in zip(sums, counts, strict=True)]
    return tuple(replace(word, confidence=mean) for word, mean in zip(words, means, strict=True))
