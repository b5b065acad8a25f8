"""Perplexities from sums."""

import math

import pytest

from fewer.errors import FewerError
from fewer.evaluation.perplexity import Perplexity, batch_perplexity


def test_labels_and_words_count_the_end() -> None:
    # "hello world" as three labels and the end, each of probability 1/8; two words and the end share the same sum.
    value = Perplexity.of(4 * math.log(1 / 8), labels=4, words=2)
    assert value.per_label == pytest.approx(8.0)
    assert value.per_word == pytest.approx(8.0 ** (4 / 3))


def test_sentences_add_up_to_the_perplexity_of_all() -> None:
    sentences = [(-3.2, 4, 2), (-10.0, 9, 5), (-0.5, 1, 0)]
    total = sum((Perplexity.of(*sentence) for sentence in sentences), Perplexity())
    assert total == Perplexity(pytest.approx(-13.7), 14, 7, 3)  # type: ignore[arg-type]
    assert total.per_label == pytest.approx(math.exp(13.7 / 14))
    assert total.per_word == pytest.approx(math.exp(13.7 / 10))
    assert batch_perplexity([-3.2, -10.0, -0.5], [4, 9, 1], ["a b", "a b c d e", ""]) == total


def test_a_uniform_model_has_the_perplexity_of_its_vocabulary() -> None:
    batch = batch_perplexity([n * math.log(1 / 534) for n in (3, 7)], [3, 7], ["x", "y z"])
    assert batch.per_label == pytest.approx(534)


def test_an_impossible_label_makes_the_perplexity_infinite() -> None:
    assert Perplexity.of(-math.inf, 2, 1).per_label == math.inf
    assert Perplexity.of(-1e6, 2, 1).per_word == math.inf


def test_nonsense_is_an_error() -> None:
    with pytest.raises(FewerError, match="nothing to take a perplexity of"):
        _ = Perplexity().per_label
    with pytest.raises(FewerError, match="log-probability is nan"):
        Perplexity.of(math.nan, 2, 1)
    with pytest.raises(FewerError, match="an end label counts"):
        Perplexity.of(-1.0, 0, 0)


def test_json_names() -> None:
    assert Perplexity.of(0.0, 3, 1).to_json() == {
        "ppl_label": 1.0, "ppl_word": 1.0, "log_prob": 0.0, "labels": 3, "words": 1, "sentences": 1,
    }  # fmt: skip
