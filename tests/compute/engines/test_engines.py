"""Every engine does every shard once, replaces workers that die, and leaves nothing behind."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fewer.compute.engines import started
from fewer.compute.engines.engine import Engine, Job, Local, Work
from fewer.compute.engines.forked import Processes
from fewer.errors import FewerError, WorkerError
from fewer.progress import warn

forks = pytest.mark.skipif(sys.platform != "linux", reason="forks are safe on Linux only")
ENGINES = ["local", pytest.param("processes:2", marks=forks)]


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with started(request.param) as engine:
        yield engine


class Squares(Work):
    def __init__(self, also: Callable[[int], Any] = lambda shard: None):
        self.also = also

    def __call__(self, shard: int, *arguments: Any) -> tuple[int, int]:
        self.also(shard)
        return shard**2 + sum(arguments), os.getpid()

    def name(self, shard: int) -> str:
        return f"the square of {shard}"


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_every_shard_is_done_once_by_as_many_workers_as_there_are(engine: Engine, tmp_path: Path) -> None:
    check_shards(engine, tmp_path)


def check_shards(engine: Engine, tmp_path: Path) -> None:
    alone = isinstance(engine, Local)

    def together(shard: int) -> None:
        """However late a worker starts, the other waits for it."""
        (tmp_path / str(os.getpid())).touch()
        while not alone and len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)

    work = Squares(together)
    results = dict(engine.map(work, range(3, 40), 1000))
    assert {shard: square for shard, (square, _) in results.items()} == {n: n**2 + 1000 for n in range(3, 40)}
    workers = {pid for _, pid in results.values()}
    assert workers == {os.getpid()} if alone else len(workers - {os.getpid()}) == 2
    assert [square for square, _ in engine.in_order(work, range(5))] == [0, 1, 4, 9, 16]
    assert list(engine.map(work, [])) == []


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_jobs_are_done_side_by_side(engine: Engine, tmp_path: Path) -> None:
    check_side_by_side(engine, tmp_path)


def check_side_by_side(engine: Engine, tmp_path: Path) -> None:
    """The second one does not wait for the end of the first."""
    alone = isinstance(engine, Local)

    def waits(shard: int) -> None:
        while shard == 1 and not alone and not (tmp_path / "second").exists():
            time.sleep(0.01)

    first, second = Squares(waits), Squares(lambda shard: (tmp_path / "second").touch())
    done = list(engine.side_by_side([Job(first, [0, 1], (5,)), Job(second, range(3)), Job(second, [])]))
    assert sorted((job, square) for job, (square, _) in done) == [(0, 5), (0, 6), (1, 0), (1, 1), (1, 4)]
    assert list(engine.side_by_side([])) == []


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_an_error_of_the_user_is_raised_at_once(engine: Engine, tmp_path: Path) -> None:
    check_error(engine, tmp_path)


def check_error(engine: Engine, tmp_path: Path) -> None:
    def too_short(shard: int) -> None:
        (tmp_path / f"{shard}-{time.monotonic_ns()}").touch()
        if shard == 2:
            raise FewerError("utterance 7 is too short")
        time.sleep(0.02)

    with pytest.raises(FewerError, match=r"^utterance 7 is too short$"):
        list(engine.map(Squares(too_short), range(100)))
    assert len(list(tmp_path.glob("2-*"))) == 1
    assert len(list(tmp_path.iterdir())) < 50


@pytest.mark.parametrize("engine", ENGINES[1:], indirect=True)
def test_a_shard_that_fails_three_times_is_named_and_the_others_are_done(engine: Engine, tmp_path: Path) -> None:
    check_failures(engine, tmp_path)


def check_failures(engine: Engine, tmp_path: Path) -> None:
    def failing(shard: int) -> None:
        (tmp_path / f"{shard}-{time.monotonic_ns()}").touch()
        if shard == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if shard == 3:
            raise ZeroDivisionError("a bug")
        if shard > 5:
            raise MemoryError

    results: dict[int, Any] = {}
    bug = r"^ZeroDivisionError: a bug \(the square of 3; 2 shards failed 3 times; all others are done\)"
    with pytest.raises(WorkerError, match=bug) as caught:
        results.update(engine.map(Squares(failing), range(6)))
    assert "in failing" in caught.value.__notes__[0]  # the traceback
    assert sorted(results) == [0, 1, 4, 5]
    assert len(list(tmp_path.glob("2-*"))) == len(list(tmp_path.glob("3-*"))) == 3
    with pytest.raises(FewerError, match="shards failed 3 times; all others are done, and the same") as lost:
        list(engine.map(Squares(failing), [*range(3), *range(6, 9)]))
    told = str(lost.value).splitlines()
    assert len(told) <= 3
    assert "the square of" in told[1]
    assert "memory" in told[1]


@pytest.mark.parametrize("engine", ENGINES[1:], indirect=True)
def test_a_worker_that_is_killed_is_replaced_and_the_results_are_the_same(engine: Engine, tmp_path: Path) -> None:
    check_replaced(engine, tmp_path)


def check_replaced(engine: Engine, tmp_path: Path) -> None:
    def mortal(shard: int) -> None:
        if shard in (1, 4) and not (tmp_path / str(shard)).exists():
            (tmp_path / str(shard)).touch()
            os.kill(os.getpid(), signal.SIGKILL)

    results = [square for square, _ in engine.in_order(Squares(mortal), range(8))]
    assert results == [n**2 for n in range(8)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "4"]


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_what_workers_say_is_told_here(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    check_messages(engine, caplog)


def check_messages(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    list(engine.map(Squares(lambda shard: warn(f"shard {shard} is odd") if shard % 2 else None), range(4)))
    assert sorted(record.message for record in caplog.records if "odd" in record.message) == [
        "shard 1 is odd",
        "shard 3 is odd",
    ]


@forks
def test_who_stops_early_leaves_no_process_behind() -> None:
    results = Processes(2).map(Squares(lambda shard: time.sleep(600 if shard > 1 else 0)), range(4))
    _, (_, pid) = next(results)
    results.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("cluster", "--engine cluster is unknown; write local, processes:N, torchrun, ray or ray:ADDRESS"),
        ("local:2", "--engine local:2 is unknown"),
        ("processes", "write the number of processes, such as processes:4"),
        ("processes:0", "write the number of processes"),
        ("torchrun", "start it as `torchrun --nproc-per-node N -m fewer …`"),
        ("ray:127.0.0.1:9", "no Ray cluster answers"),
        ("ray:nowhere", "write HOST:PORT, ray://HOST:PORT or auto"),
        ("ray:127.0.0.1:port", "no Ray cluster answers"),
    ],
)
def test_an_engine_that_is_none(name: str, problem: str) -> None:
    if name.startswith("ray"):
        pytest.importorskip("ray")
    with pytest.raises(FewerError) as caught, started(name):
        pass
    assert problem in str(caught.value)


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(FewerError, match=r"Ray is not installed; pip install 'fewer\[ray\]'"), started("ray"):
        pass


@pytest.mark.parametrize("name", ["processes:2", "ray"])
def test_under_torchrun_nothing_else_is_started(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(FewerError, match="under torchrun: every process would start its own"), started(name):
        pass
