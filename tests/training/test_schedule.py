"""Warm-up and newbob, against numbers worked out by hand."""

import math

import pytest
from pydantic import ValidationError

from fewer.training.schedule import Finished, NewbobConfig, ScheduleConfig, learning_rate, relative_changes


def rates(config: ScheduleConfig, losses: list[float]) -> list[float]:
    """The rate of every sub-epoch when the dev losses come out as given."""
    history: list[Finished] = []
    for loss in losses:
        history.append(Finished(learning_rate(config, history), loss))
    return [finished.rate for finished in history]


def test_warm_up_is_linear_and_ends_at_the_peak() -> None:
    config = ScheduleConfig(peak=8e-4, warm_up_from=3e-4, warm_up=10, newbob=NewbobConfig(window=20, decay=0.9))
    falling = [10.0 * 0.9**k for k in range(12)]
    found = rates(config, falling)
    assert found[:10] == pytest.approx([3e-4 + k * 5e-4 / 9 for k in range(10)])
    assert found[10:] == pytest.approx([8e-4, 8e-4])


def test_newbob_by_hand() -> None:
    """Window 2, hold 3, decay 0.7; the changes are corrected for the rate."""
    config = ScheduleConfig(peak=1.0, newbob=NewbobConfig(window=2, decay=0.7))
    losses = [4.0, 2.0, 1.99, 1.98, 1.97, 1.96, 1.95, 1.94, 1.93]
    # e_2 = -1, e_3 = -0.005025, e_4 = -0.00505 (all at rate 1): after 3 the mean is -0.5025; after 4 it is -0.00504
    # > -0.01: decay. Then hold 3 sub-epochs at 0.7, although e_5 = (-0.01/1.97)/0.7 = -0.00725: mean > -0.01 still.
    assert rates(config, losses) == pytest.approx([1, 1, 1, 1, 0.7, 0.7, 0.7, 0.49, 0.49])


def test_the_relative_change_is_corrected_for_the_rate() -> None:
    history = [Finished(1.0, 2.0), Finished(0.5, 1.6)]
    assert relative_changes(NewbobConfig(), 1.0, history) == pytest.approx([(-0.4 / 1.6) / 0.5])
    assert relative_changes(NewbobConfig(relative_to_rate=False), 1.0, history) == pytest.approx([-0.25])


def test_the_rate_never_falls_below_a_fiftieth_of_the_peak() -> None:
    config = ScheduleConfig(peak=1.0, newbob=NewbobConfig(window=1, decay=0.1, hold=1))
    assert rates(config, [1.0] * 6) == pytest.approx([1, 1, 0.1, 0.02, 0.02, 0.02])


def test_a_decay_on_perplexity_as_for_transformer_lms() -> None:
    newbob = NewbobConfig(window=1, decay=0.8, hold=1, threshold=0.0, measure="perplexity", relative_to_rate=False)
    config = ScheduleConfig(peak=1.0, newbob=newbob)
    ce = [math.log(ppl) for ppl in (100.0, 90.0, 91.0, 80.0, 80.5)]
    assert rates(config, [*ce, 0.0]) == pytest.approx([1, 1, 1, 0.8, 0.8, 0.64])


def test_absolute_changes_as_for_the_authors_transformer_lms() -> None:
    """A perplexity that falls by less than 0.01 is too little, whatever share of it that is."""
    newbob = NewbobConfig(window=1, decay=0.8, hold=1, measure="perplexity", change="absolute", relative_to_rate=False)
    config = ScheduleConfig(peak=1.0, newbob=newbob)
    ce = [math.log(ppl) for ppl in (100.0, 99.98, 99.975, 99.9)]
    assert rates(config, [*ce, 0.0]) == pytest.approx([1, 1, 1, 0.8, 0.8])


def test_changes_as_a_share_of_the_old_number() -> None:
    """1.0 → 0.981 is −0.019 of the old and −0.0194 of the new number; 0.981 → 0.9613 is −0.0201 and −0.0205."""
    newbob = {"window": 1, "decay": 0.5, "hold": 1, "threshold": -0.02, "relative_to_rate": False}
    of_old = ScheduleConfig(peak=1.0, newbob=NewbobConfig.model_validate(newbob | {"change": "of_old"}))
    assert rates(of_old, [1.0, 0.981, 0.9613, 0.9613]) == pytest.approx([1, 1, 0.5, 0.5])
    of_new = ScheduleConfig(peak=1.0, newbob=NewbobConfig.model_validate(newbob | {"threshold": -0.0192}))
    assert rates(of_new, [1.0, 0.981, 0.9613, 0.9613]) == pytest.approx([1, 1, 1, 1])


def test_losses_of_two_kinds_are_never_compared() -> None:
    """The third loss is far above the second, but of another kind; from the fourth on there is something to compare."""
    config = ScheduleConfig(peak=1.0, newbob=NewbobConfig(window=4, decay=0.5, hold=1, relative_to_rate=False))
    history: list[Finished] = []
    for loss, kind in [(2.0, "ctc"), (2.0, "ctc"), (6.0, "ce"), (3.0, "ce"), (3.0, "ce"), (3.0, "ce")]:
        history.append(Finished(learning_rate(config, history), loss, kind))
    assert [finished.rate for finished in history] == [1, 1, 0.5, 0.5, 0.5, 0.5]
    assert learning_rate(config, [*history, *history[-3:]]) == 0.25


def test_without_newbob_the_rate_stays() -> None:
    assert rates(ScheduleConfig(peak=0.3), [1.0, 2.0, 3.0]) == [0.3, 0.3, 0.3]


def test_half_a_warm_up_is_refused() -> None:
    with pytest.raises(ValidationError, match="come together"):
        ScheduleConfig(peak=1.0, warm_up=3)
