"""A pool keeps each hypothesis once, counts its errors, and refuses what would make tuning lie."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fewer.errors import FewerError
from fewer.evaluation.normalise import load_normaliser
from fewer.search.nbest import Header, Hypothesis, NBest, write_nbest
from fewer.tuning.pool import Metric, Pool
from fewer.tuning.space import Scales

TERMS = ("aed", "lm")


def hypothesis(text: str, aed: float = -1.0, lm: float = -2.0, ended: bool = True) -> Hypothesis:
    tokens = tuple(ord(word[0]) for word in text.split())
    return Hypothesis(text, tokens, {"aed": aed, "lm": lm}, len(tokens) + ended, aed, ended)


def lists(*texts: str) -> list[NBest]:
    return [NBest("u1", tuple(hypothesis(text) for text in texts), "a b c", "s1")]


def test_only_what_is_new_is_added() -> None:
    pool = Pool(TERMS)
    assert pool.add(lists("a b", "a c")) == 2
    assert pool.add(lists("a c", "a b c")) == 1
    assert len(pool) == 3
    (nbest,) = pool.lists()
    assert [h.text for h in nbest.hypotheses] == ["a b", "a c", "a b c"]


def test_the_same_lists_again_add_nothing() -> None:
    pool, found = Pool(TERMS), lists("a b", "a c")
    assert (pool.add(found), pool.add(found)) == (2, 0)
    assert pool.arrays().errors.tolist() == [[1, 1]]


def test_the_first_scores_of_a_hypothesis_stay() -> None:
    pool = Pool(TERMS)
    pool.add([NBest("u1", (hypothesis("a b", aed=-1.0),), "a b c")])
    pool.add([NBest("u1", (hypothesis("a b", aed=-1.00001),), "a b c")])
    assert pool.arrays().scores[0, :, 0].tolist() == [-1.0]


def test_ended_and_not_ended_are_two_hypotheses() -> None:
    pool = Pool(TERMS)
    pool.add([NBest("u1", (hypothesis("a b"), hypothesis("a b", aed=-0.5, ended=False)), "a b c")])
    arrays = pool.arrays()
    assert arrays.valid.tolist() == [[True, True]]
    assert arrays.length.tolist() == [[3, 2]]


def test_arrays_are_padded() -> None:
    pool = Pool(TERMS)
    one = NBest("u1", (hypothesis("a b", -1, -4), hypothesis("b", -2, -5), hypothesis("a b c d", -3, -6)), "a b c")
    two = NBest("u2", (hypothesis("x"),), "x y")
    pool.add([one, two])
    arrays = pool.arrays()
    assert arrays.scores.shape == (2, 3, 2)
    assert arrays.scores[0].tolist() == [[-1, -4], [-2, -5], [-3, -6]]
    assert arrays.errors.tolist() == [[1, 2, 1], [1, 0, 0]]
    assert arrays.words[arrays.valid].tolist() == [3, 3, 3, 2]
    assert arrays.valid.tolist() == [[True] * 3, [True, False, False]]
    assert (arrays.length >= 1).all()


def test_errors_are_counted_after_normalising() -> None:
    given = [NBest("u1", (hypothesis("A, b; C!"),), "a b c")]
    plain, normalised = Pool(TERMS), Pool(TERMS, Metric(load_normaliser("librispeech")))
    plain.add(given)
    normalised.add(given)
    assert plain.arrays().errors[0, 0] == 3
    assert normalised.arrays().errors[0, 0] == 0
    assert normalised.score(given).wer == 0.0


def test_a_reference_with_alternatives_counts_as_sclite_does() -> None:
    pool = Pool(TERMS, Metric(rules="sclite"))
    pool.add([NBest("u1", (hypothesis("a b"), hypothesis("a c d")), "a { b / c d }")])
    assert pool.arrays().errors.tolist() == [[0, 0]]
    assert pool.arrays().words.tolist() == [[2, 3]]


def test_characters_can_be_counted() -> None:
    pool = Pool(TERMS, Metric(characters=True))
    pool.add([NBest("u1", (hypothesis("abd"),), "abc")])
    assert (pool.arrays().errors[0, 0], pool.arrays().words[0, 0]) == (1, 3)


def test_saved_pool_comes_back(tmp_path: Path) -> None:
    pool = Pool(TERMS)
    pool.add(lists("a b", "a c", "a b c"))
    pool.save(tmp_path / "pool.jsonl", Scales({"aed": 1.0, "lm": 0.3}), {"set": "dev"})
    loaded = Pool.load(tmp_path / "pool.jsonl")
    assert list(loaded.lists()) == list(pool.lists())
    assert loaded.terms == TERMS
    np.testing.assert_array_equal(loaded.arrays().errors, pool.arrays().errors)


def test_any_nbest_file_is_a_pool(tmp_path: Path) -> None:
    write_nbest(tmp_path / "nbest.jsonl", Header(TERMS, {"aed": 1.0, "lm": 0.3}), lists("a b", "a b", "a c"))
    assert len(Pool.load(tmp_path / "nbest.jsonl")) == 2


def broken(change: dict[str, float]) -> list[NBest]:
    bad = hypothesis("a b")
    scores = {term: value for term, value in (bad.scores | change).items() if value is not None}
    return [NBest("u7", (hypothesis("a"), replace(bad, scores=scores)), "a b c")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([NBest("u7", (), "a b")], "utterance u7 has an empty N-best list"),
        ([NBest("u7", (hypothesis("a"),))], "utterance u7 has no reference"),
        (broken({"lm": None}), "utterance u7.*no score of the term 'lm'"),
        (broken({"lm": float("nan")}), "utterance u7.*'lm' is nan"),
        (broken({"aed": float("-inf")}), "utterance u7.*'aed' is -inf"),
        ([NBest("u7", (replace(hypothesis("a"), length=0),), "a")], "utterance u7.*length 0"),
        ([NBest("u7", (hypothesis("a"),), "a")] * 2, "u7 is there twice"),
        ([NBest("u7", (hypothesis("a"),), " ")], "references are empty"),
        ([], "no utterances"),
    ],
)
def test_what_would_spoil_the_pool_is_refused(given: list[NBest], message: str) -> None:
    with pytest.raises(FewerError, match=message):
        Pool(TERMS).add(given)


def test_a_decode_of_another_set_is_refused() -> None:
    pool = Pool(TERMS)
    pool.add(lists("a b"))
    with pytest.raises(FewerError, match="u1 is missing"):
        pool.add([NBest("u2", (hypothesis("a"),), "a")])
    with pytest.raises(FewerError, match="another reference"):
        pool.add([NBest("u1", (hypothesis("a"),), "a b d")])
    assert len(pool) == 1
