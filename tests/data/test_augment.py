import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.data.augment import SpecAugment, SpecAugmentConfig, draw_masks, mask_counts

LIBRISPEECH = SpecAugmentConfig()
SWITCHBOARD = SpecAugmentConfig(schedule="switchboard")


def runs(zero):
    """Lengths of the stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], zero.astype(int), [0]])))
    return edges[1::2] - edges[::2]


@pytest.mark.parametrize(
    ("config", "frames", "step", "time", "frequency"),
    [
        (LIBRISPEECH, 99, 0, (1, 1), (1, 2)),
        (LIBRISPEECH, 1234, 0, (1, 12), (1, 2)),
        (LIBRISPEECH, 1234, 99999, (1, 12), (1, 2)),
        (SWITCHBOARD, 99, 999, (0, 2), (0, 2)),
        (SWITCHBOARD, 1234, 999, (0, 12), (0, 2)),
        (SWITCHBOARD, 1234, 1000, (1, 24), (1, 3)),
        (SWITCHBOARD, 1234, 2000, (2, 48), (2, 5)),
        (SWITCHBOARD, 150, 2000, (2, 8), (2, 5)),
    ],
)
def test_counts_follow_the_papers_schedules(config, frames, step, time, frequency):
    assert mask_counts(config, frames, step) == (time, frequency)


def test_the_onset_of_the_switchboard_schedule_can_be_moved():
    early = SpecAugmentConfig(schedule="switchboard", onset=(3, 5))
    assert [mask_counts(early, 200, step)[1] for step in (2, 3, 4, 5)] == [(0, 2), (1, 3), (1, 3), (2, 5)]


@given(st.integers(1, 500), st.integers(0, 5), st.integers(0, 5), st.integers(1, 30), st.integers(0, 2**32))
def test_masks_keep_their_counts_and_sizes_and_stay_inside(length, fewest, more, size, seed):
    masks = draw_masks(length, fewest, fewest + more, size, np.random.default_rng(seed))
    assert min(fewest, length) <= len(masks) <= fewest + more
    assert len({start for start, _ in masks}) == len(masks)
    for start, end in masks:
        assert 0 <= start < end <= length
        assert end - start <= size


def test_every_count_and_every_size_occurs_equally_often():
    rng = np.random.default_rng(1)
    drawn = [draw_masks(1000, 1, 4, 5, rng) for _ in range(4000)]
    counts = np.bincount([len(masks) for masks in drawn], minlength=5)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:] / 4000, 0.25, atol=0.03)
    widths = np.bincount([end - start for masks in drawn for start, end in masks if start < 990], minlength=6)
    np.testing.assert_allclose(widths[1:] / widths.sum(), 0.2, atol=0.02)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 700),
    st.sampled_from([LIBRISPEECH, SWITCHBOARD]),
    st.sampled_from([0, 1500, 5000]),
    st.integers(0, 2**32),
)
def test_masked_frames_and_bins_are_zero_and_the_rest_is_untouched(frames, config, step, seed):
    features = torch.ones(frames, 40)
    masked = SpecAugment(config)(features, np.random.default_rng(seed), step)
    zero = masked.numpy() == 0
    rows, columns = zero.all(1), zero.all(0)
    assert (zero == (rows[:, None] | columns[None])).all()
    assert torch.equal(features, torch.ones(frames, 40))
    (_, most_time), (_, most_bins) = mask_counts(config, frames, step)
    assert rows.all() or rows.sum() <= 20 * most_time
    assert columns.all() or columns.sum() <= 8 * most_bins


def test_one_time_mask_and_up_to_two_frequency_masks_in_a_short_librispeech_utterance():
    augment = SpecAugment(LIBRISPEECH)
    for seed in range(200):
        zero = (augment(torch.ones(90, 40), np.random.default_rng(seed), 0) == 0).numpy()
        assert len(runs(zero.all(1))) == 1
        assert 1 <= runs(zero.all(1))[0] <= 20
        assert 1 <= len(runs(zero.all(0))) <= 2
        assert runs(zero.all(0)).max() <= 16


def test_the_same_generator_gives_the_same_masks_and_another_seed_others():
    features = torch.randn(300, 40)
    augment = SpecAugment(LIBRISPEECH)
    first, again, other = (augment(features, np.random.default_rng((1, 2, seed)), 0) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
