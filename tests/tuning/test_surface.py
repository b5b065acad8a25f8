"""The surface says for every grid point what re-ranking the pool by hand says."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.search.nbest import Hypothesis, LengthPolicy, NBest
from fewer.tuning.pool import Pool
from fewer.tuning.space import Scales, Space, SpaceOptions
from fewer.tuning.surface import Surface, choose, predicted_wer, surface

TERMS = ("aed", "lm", "ilm")
# Few distinct values, so that exact ties are common.
SCORES = st.sampled_from([-8.0, -4.0, -2.5, -1.0, -0.3]) | st.floats(-30.0, 0.0)
WORDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=4)


@st.composite
def pools(draw: st.DrawFn, terms: tuple[str, ...] = TERMS) -> Pool:
    lists = []
    for number in range(draw(st.integers(1, 3))):
        hypotheses = []
        for _ in range(draw(st.integers(1, 6))):
            words = draw(WORDS)
            tokens = tuple("abc".index(word) + 1 for word in words)
            scores = {term: draw(SCORES) for term in terms}
            ended = draw(st.booleans())
            hypotheses.append(Hypothesis(" ".join(words), tokens, scores, len(words) + 1, 0.0, ended))
        lists.append(NBest(f"u{number}", tuple(hypotheses), "a " + " ".join(draw(WORDS))))
    pool = Pool(terms)
    pool.add(lists)
    return pool


def by_hand(pool: Pool, scales: Scales) -> tuple[int, int]:
    """Errors and words when every utterance takes the first of its hypotheses with the highest `rescored`."""
    errors = words = 0
    for nbest in pool.lists():
        best, best_score = None, -math.inf
        for hypothesis in nbest.hypotheses:
            score = hypothesis.rescored(scales.terms, scales.length)
            if score > best_score:
                best, best_score = hypothesis, score
        assert best is not None
        assert nbest.ref is not None
        errors += edit_distance(nbest.ref.split(), best.text.split())
        words += len(nbest.ref.split())
    return errors, words


def edit_distance(ref: list[str], hyp: list[str]) -> int:
    row = list(range(len(hyp) + 1))
    for i, word in enumerate(ref, start=1):
        previous, row = row, [i]
        for j, other in enumerate(hyp, start=1):
            row.append(min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (word != other)))
    return row[-1]


@settings(max_examples=150, deadline=None)
@given(pools(), st.floats(0.0, 1.5), st.sampled_from(["fixed", "exponent", "reward"]))
def test_surface_over_two_scales_equals_reranking_by_hand(pool: Pool, length_value: float, length: str) -> None:
    space = Space(TERMS, SpaceOptions(length=length, step=0.5, length_step=0.5))
    at = {name: length_value for name in ("exponent", "reward") if name == length}
    found = surface(pool, space, ("lm", "ilm"), at)
    assert found.errors.shape == (4, 4)
    for index in np.ndindex(found.errors.shape):
        scales = space.scales(found.point(index))
        assert scales.terms["ilm"] <= 0
        assert (found.errors[index], found.words[index]) == by_hand(pool, scales)
        assert found.wer[index] == pytest.approx(predicted_wer(pool, scales))


@settings(max_examples=60, deadline=None)
@given(pools(("aed", "lm", "ilm", "ctc")), st.sampled_from(["exponent", "reward"]))
def test_surface_over_all_parameters_of_four_terms_equals_reranking_by_hand(pool: Pool, length: str) -> None:
    options = SpaceOptions(length=length, step=0.75, length_step=0.75, ranges={"ctc": (-0.5, 0.5)})
    space = Space(("aed", "lm", "ilm", "ctc"), options)
    names = [dimension.name for dimension in space.free]
    assert set(names) == {"lm", "ilm", "ctc", length}
    found = surface(pool, space, names, {})
    for index in np.ndindex(found.errors.shape):
        assert (found.errors[index], found.words[index]) == by_hand(pool, space.scales(found.point(index)))


@settings(max_examples=60, deadline=None)
@given(pools())
def test_surface_of_tied_scales_equals_reranking_by_hand(pool: Pool) -> None:
    space = Space(TERMS, SpaceOptions(length="fixed", step=0.25, tied={"ilm": (0.7, "lm")}))
    found = surface(pool, space, ("lm",), {})
    for index in np.ndindex(found.errors.shape):
        scales = space.scales(found.point(index))
        assert scales.terms["ilm"] == -0.7 * scales.terms["lm"]
        assert (found.errors[index], found.words[index]) == by_hand(pool, scales)


@settings(max_examples=60, deadline=None)
@given(pools(), st.floats(0, 2), st.floats(0, 2), st.floats(0, 1.5), st.floats(-1, 1))
def test_choose_takes_the_first_of_the_best(pool: Pool, lm: float, ilm: float, exponent: float, reward: float) -> None:
    scales = Scales({"aed": 1.0, "lm": lm, "ilm": -ilm}, LengthPolicy(exponent, reward))
    for chosen, nbest in zip(choose(pool, scales), pool.lists(), strict=True):
        ranked = [hypothesis.rescored(scales.terms, scales.length) for hypothesis in nbest.hypotheses]
        assert chosen == ranked.index(max(ranked))


def test_default_grid_has_step_0_01_over_0_to_1_5_in_both_directions() -> None:
    space = Space(TERMS, SpaceOptions(length="fixed"))
    pool = Pool(TERMS)
    pool.add([NBest("u", (Hypothesis("a", (1,), dict.fromkeys(TERMS, -1.0), 2, -0.5),), "a b")])
    found = surface(pool, space, ("lm", "ilm"), {})
    assert found.errors.shape == (151, 151)
    assert found.axes[0].tolist() == [round(0.01 * i, 2) for i in range(151)]
    assert (found.wer == 50.0).all()


def test_saved_surface_comes_back(tmp_path) -> None:
    axes = (np.array([0.0, 0.5]), np.array([0.0, 0.1, 0.2]))
    errors, words = np.arange(6).reshape(2, 3), np.full((2, 3), 9)
    Surface(("lm", "ilm"), axes, errors, words, {"exponent": 0.9}).save(tmp_path / "surface.npz")
    loaded = Surface.load(tmp_path / "surface.npz")
    assert loaded.names == ("lm", "ilm")
    assert loaded.point((1, 2)) == {"exponent": 0.9, "lm": 0.5, "ilm": 0.2}
    np.testing.assert_array_equal(loaded.errors, errors)
    np.testing.assert_array_equal(loaded.wer, 100 * errors / 9)


def test_damaged_surface_file_is_named(tmp_path) -> None:
    path = tmp_path / "surface.npz"
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(FewerError, match=r"surface\.npz"):
        Surface.load(path)
