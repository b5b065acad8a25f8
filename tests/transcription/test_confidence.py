"""Confidences of words from the probabilities of their labels."""

import math
from collections.abc import Sequence

import pytest

from fewer.transcription.confidence import with_confidences
from fewer.transcription.words import Word

PIECES = [" the", " cat", "'s", " h", "at"]


def decode(labels: Sequence[int]) -> str:
    return "".join(PIECES[label] for label in labels).lstrip()


def words(*texts: str) -> list[Word]:
    return [Word(text, 0.0, 1.0) for text in texts]


def test_a_words_confidence_is_the_geometric_mean_of_its_labels() -> None:
    probabilities = [0.9, 0.8, 0.2, 0.5, 0.1]
    found = with_confidences(words("the", " cat's", " hat"), range(5), [math.log(p) for p in probabilities], decode)
    assert [word.confidence for word in found] == pytest.approx([0.9, math.sqrt(0.16), math.sqrt(0.05)])
    assert [word.text for word in found] == ["the", " cat's", " hat"]


def test_a_label_of_two_words_counts_for_both() -> None:
    found = with_confidences(words("the", " ca", "t"), [0, 1], [math.log(0.5), math.log(0.25)], decode)
    assert [word.confidence for word in found] == pytest.approx([0.5, 0.25, 0.25])


def test_labels_that_spell_one_character_together_count_together() -> None:
    spelled = {(): "", (0,): "\ufffd", (0, 1): "é"}
    found = with_confidences(words("é"), [0, 1], [math.log(0.5), math.log(0.02)], lambda ids: spelled[tuple(ids)])
    assert [word.confidence for word in found] == pytest.approx([0.1])
