"""Joining the processes of a run."""

import pytest
from torch import distributed

from fewer.compute.device import choose_device
from fewer.compute.world import joined
from fewer.errors import FewerError
from tests.training.processes import run_in_two_processes


def test_one_process_is_alone_however_often_it_joins() -> None:
    with joined("cpu") as outer, joined("cpu") as inner:
        assert (outer.rank, outer.size) == (inner.rank, inner.size) == (0, 1)
        assert inner.sum([1.5]) == [1.5]
        assert not distributed.is_initialized()


def test_joining_inside_is_joining_the_same_processes() -> None:
    run_in_two_processes(_join_twice)


def _join_twice() -> None:
    with joined("cpu") as outer:
        with joined("cpu") as inner:
            assert inner == outer
            assert inner.sum([1.0 + inner.rank]) == [3.0]
        assert outer.gather(outer.rank) == [0, 1]  # the inner one has not left for the outer one
    assert not distributed.is_initialized()


def test_a_device_that_is_none_is_named() -> None:
    with pytest.raises(FewerError, match="toaster"):
        choose_device("toaster")
