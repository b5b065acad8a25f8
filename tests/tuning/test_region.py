"""The point taken is in the middle of what is good, not where luck struck."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fewer.tuning.region import centre, depth, smooth


def test_a_flat_surface_gives_its_middle() -> None:
    assert centre(np.full((11, 21), 7.0), (1, 1), 0.1) == (5, 10)
    assert centre(np.full((151,), 7.0), (4,), 0.1) == (75,)


def test_the_middle_of_a_plateau_is_taken() -> None:
    wer = np.full((60, 60), 10.0)
    wer[20:41, 10:31] = 8.0
    assert centre(wer, (2, 2), 0.01) == (30, 20)


def test_a_lucky_corner_loses_against_a_good_region() -> None:
    wer = np.full((60, 60), 10.0)
    wer[20:41, 10:31] = 8.0
    wer[59, 59] = 7.9
    assert np.unravel_index(wer.argmin(), wer.shape) == (59, 59)
    assert centre(wer, (2, 2), 0.01) == (30, 20)


def test_a_pinhole_in_a_plateau_does_not_move_the_centre_far() -> None:
    wer = np.full((60, 60), 10.0)
    wer[20:41, 10:31] = 8.0
    wer[30, 20] = 8.1
    found = centre(wer, (3, 3), 0.02)
    assert np.abs(np.subtract(found, (30, 20))).max() <= 1


def test_a_valley_is_followed_to_its_lowest_stretch() -> None:
    x, y = np.meshgrid(np.linspace(0, 1.5, 151), np.linspace(0, 1.5, 151), indexing="ij")
    wer = 8 + 6 * (x - 0.6) ** 2 + 9 * (y - 0.35) ** 2
    i, j = centre(wer, (4, 4), 0.01)
    assert 0.01 * i == pytest.approx(0.6, abs=0.02)
    assert 0.01 * j == pytest.approx(0.35, abs=0.02)


@settings(max_examples=100, deadline=None)
@given(
    hnp.arrays(float, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6), elements=st.integers(0, 9)),
    st.integers(0, 3),
)
def test_smoothing_is_the_mean_of_the_box_inside_the_grid(wer: np.ndarray, radius: int) -> None:
    smoothed = smooth(wer, (radius,) * wer.ndim)
    for index in np.ndindex(wer.shape):
        box = wer[tuple(slice(max(i - radius, 0), i + radius + 1) for i in index)]
        assert smoothed[index] == pytest.approx(box.mean())


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(bool, st.tuples(st.integers(2, 7), st.integers(2, 7))))
def test_depth_is_the_size_of_the_largest_box_around_a_point_that_is_inside(inside: np.ndarray) -> None:
    found = depth(inside)
    for i, j in np.ndindex(inside.shape):
        expected = 0
        while all(
            0 <= a < inside.shape[0] and 0 <= b < inside.shape[1] and inside[a, b]
            for a, b in itertools.product(range(i - expected, i + expected + 1), range(j - expected, j + expected + 1))
        ):
            expected += 1
        assert found[i, j] == expected
