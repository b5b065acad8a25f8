"""The same of Ray, and what only Ray can do. Its threads do not go with forks, so this has a process of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from fewer.compute.engines.cluster import SETTINGS, Ray
from fewer.compute.engines.engine import Engine
from fewer.decoding.decode import decode
from fewer.decoding.encoding import BATCH
from fewer.decoding.system import load_system
from fewer.search.beam import SearchOptions
from tests.compute.engines import test_engines as same


@pytest.fixture(scope="module", autouse=True)
def _two_processes() -> Iterator[None]:
    os.environ |= SETTINGS
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False, object_store_memory=100 << 20)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Ray() as engine:
        yield engine


def test_every_shard_is_done_once(engine: Engine, tmp_path: Path) -> None:
    same.check_shards(engine, tmp_path)


def test_jobs_are_done_side_by_side(engine: Engine, tmp_path: Path) -> None:
    same.check_side_by_side(engine, tmp_path)


def test_an_error_of_the_user_is_raised_at_once(engine: Engine, tmp_path: Path) -> None:
    same.check_error(engine, tmp_path)


def test_a_shard_that_fails_three_times_is_named_and_the_others_are_done(engine: Engine, tmp_path: Path) -> None:
    same.check_failures(engine, tmp_path)


def test_a_worker_that_is_killed_is_replaced(engine: Engine, tmp_path: Path) -> None:
    same.check_replaced(engine, tmp_path)


def test_what_workers_say_is_told_here(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    same.check_messages(engine, caplog)


def test_an_actor_that_is_killed_in_the_middle_of_a_decode_changes_nothing(
    engine: Engine, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewer.decoding.encoding.BATCH", BATCH.model_copy(update={"max_sequences": 2}))
    system, options = load_system(tones / "aed", tones / "lm"), SearchOptions(beam=4)
    decode(system, tones / "train.jsonl", tmp_path / "one.jsonl", {"lm": 0.3}, options)

    killed = []
    map_shards = engine.map

    def killing(*arguments: object) -> Iterator[tuple[int, object]]:
        for number, result in enumerate(map_shards(*arguments)):  # type: ignore[arg-type]
            yield result
            if number == 1:
                actor = engine.actors[0]  # type: ignore[attr-defined]
                killed.append(actor)
                ray.kill(actor)

    monkeypatch.setattr(engine, "map", killing)
    decode(system, tones / "train.jsonl", tmp_path / "ray.jsonl", {"lm": 0.3}, options, engine)
    assert killed
    assert (tmp_path / "ray.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.jsonl", "ray.jsonl"]


def test_searches_of_a_tuning_send_the_models_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    put = ray.put
    monkeypatch.setattr(ray, "put", lambda value: sent.append(value) or put(value))
    work = same.Squares()
    for addend in (0, 1):
        assert [square for square, _ in engine.in_order(work, range(4), addend)] == [n**2 + addend for n in range(4)]
    assert sent == [work]
