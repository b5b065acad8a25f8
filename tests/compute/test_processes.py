"""Work divided among processes."""

import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from fewer.compute.processes import divided
from fewer.errors import FewerError

forks = pytest.mark.skipif(sys.platform != "linux", reason="work is divided on Linux alone")


def squares(rank: int, size: int) -> Iterator[tuple[int, int]]:
    for number in range(rank, 10, size):
        yield number**2, os.getpid()


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_part_is_done_once(processes: int) -> None:
    assert sorted(square for square, _ in divided(squares, processes)) == [n**2 for n in range(10)]


@forks
def test_each_part_has_its_process() -> None:
    assert len({pid for _, pid in divided(squares, 3)}) == 3
    assert {pid for _, pid in divided(squares, 1)} == {os.getpid()}


@forks
def test_an_error_of_a_part_is_raised_here() -> None:
    def work(rank: int, size: int) -> Iterator[int]:
        yield rank
        if rank == 1:
            raise FewerError("utterance 7 is too short")

    with pytest.raises(FewerError, match="utterance 7 is too short"):
        list(divided(work, 2))


@forks
def test_a_bug_in_a_part_comes_with_its_traceback() -> None:
    def work(rank: int, size: int) -> Iterator[float]:
        yield 1 / rank

    with pytest.raises(RuntimeError, match=r"(?s)yield 1 / rank.*ZeroDivisionError"):
        list(divided(work, 2))


@forks
def test_a_part_that_is_killed_is_noticed() -> None:
    def work(rank: int, size: int) -> Iterator[int]:
        yield rank
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(FewerError, match="killed: is there enough memory"):
        list(divided(work, 2))


@forks
def test_who_stops_early_leaves_no_process_behind() -> None:
    def work(rank: int, size: int) -> Iterator[int]:
        yield os.getpid()
        time.sleep(600)

    results = divided(work, 2)
    pid = next(results)
    results.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
