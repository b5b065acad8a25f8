"""A Ray cluster, or Ray on this machine: actors that hold the job and do its shards."""

import logging
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from fewer.compute.bfloat16 import VARIABLE
from fewer.compute.engines.engine import DONE, FAILED, LOST, REFUSED, Attempts, Engine, Work, attempt
from fewer.errors import FewerError
from fewer.progress import tell_again, warn

GONE = "its worker or node was lost; is there enough memory?"
SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # no reports; workers as urgent as any other
SECONDS = 5.0  # until an address that does not answer is given up


class _Actor:
    """Holds the job that it is asked for, and does its shards."""

    def __init__(self, environment: dict[str, str]) -> None:
        """environment: variables that change results, as the first process has them."""
        os.environ |= environment
        import torch

        torch.set_num_threads(1)
        self.number, self.work = -1, None

    def ready(self) -> None:
        """Answers once the actor is there."""

    def do(self, number: int, held: list[Any], shard: int, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """held: a reference to the job of this number, which is fetched once."""
        import ray

        if number != self.number:
            self.number, self.work = number, None
            self.work = ray.get(held[0])
        assert self.work is not None
        return attempt(self.work, shard, arguments)


class Ray(Engine):
    """One actor for each CPU of the cluster, or for each GPU if the job computes on one.

    Actors that are lost are replaced, and their shards done again.
    """

    shared_memory = False

    def __init__(self, address: str | None = None):
        try:
            import ray
        except ImportError as error:
            raise FewerError("--engine ray: Ray is not installed; pip install 'fewer[ray]'") from error
        self.ray, self.actors, self.kind = ray, list[Any](), ""
        self.number, self.work, self.held = 0, cast(Work | None, None), list[Any]()  # the job that the actors hold
        self.mine = not ray.is_initialized()
        if self.mine:
            if address not in (None, "auto", "local"):
                _check_reachable(str(address))
            for name, value in SETTINGS.items():
                os.environ.setdefault(name, value)
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, TimeoutError, RuntimeError, ValueError) as error:
                raise _unreachable(str(address), str(error).splitlines()[0]) from error

    def map(self, work: Work, shards: Sequence[int], *arguments: Any) -> Iterator[tuple[int, Any]]:
        ray, attempts, waiting = self.ray, Attempts(work), deque(shards)
        if work is not self.work:
            self.number, self.work, self.held = self.number + 1, work, [ray.put(work)]
        number, held = self.number, self.held
        asked: dict[Any, tuple[Any, int | None]] = {}  # what was asked for -> the actor, and the shard if it is one
        try:
            for actor in self._actors(work, len(shards)):
                asked[actor.ready.remote()] = actor, None
            while waiting or any(shard is not None for _, shard in asked.values()):
                (reference,), _ = ray.wait(list(asked), num_returns=1)
                actor, shard = asked.pop(reference)
                kind, value = self._answer(reference)
                if kind == REFUSED:
                    raise value
                if kind == LOST and value == GONE:
                    self._drop(actor)
                    actor = self._start(work)
                    if shard is not None:
                        warn(f"{work.name(shard)}: {GONE} It is done again by another one")
                    asked[actor.ready.remote()] = actor, None
                if shard is not None:
                    if kind == DONE:
                        yield shard, value
                    elif attempts.failed(shard, kind, value):
                        waiting.append(shard)
                if waiting and actor not in (busy for busy, _ in asked.values()):
                    shard = waiting.popleft()
                    asked[actor.do.remote(number, held, shard, arguments)] = actor, shard
        except BaseException:
            self._drop(*(actor for actor, _ in asked.values()))  # they may be busy for long
            raise
        attempts.check()

    def _answer(self, reference: Any) -> tuple[int, Any]:
        try:
            answer = self.ray.get(reference)
        except (self.ray.exceptions.RayActorError, self.ray.exceptions.ObjectLostError):
            return LOST, GONE
        except self.ray.exceptions.RayTaskError as error:
            return FAILED, str(error)
        if answer is None:  # it is ready
            return DONE, None
        kind, value, messages = answer
        tell_again(messages)
        return kind, value

    def _actors(self, work: Work, most: int) -> list[Any]:
        """As many as the cluster has room for, those that are there already taken first."""
        kind = "GPU" if work.device.type == "cuda" else "CPU"
        if kind != self.kind:
            self._drop(*self.actors)
            self.kind = kind
        room = int(self.ray.cluster_resources().get(kind, 0))
        if not room:
            raise FewerError(f"--engine ray: the cluster has no {kind}; add nodes that have one, or change --device")
        while len(self.actors) < min(room, most):
            self._start(work)
        return self.actors[:most]

    def _start(self, work: Work) -> Any:
        on_gpu = work.device.type == "cuda"
        environment = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
        actor = self.ray.remote(_Actor).options(num_cpus=1, num_gpus=int(on_gpu), max_restarts=0).remote(environment)
        self.actors.append(actor)
        return actor

    def _drop(self, *actors: Any) -> None:
        for actor in actors:
            self.actors.remove(actor)
            self.ray.kill(actor)

    def __exit__(self, *_: object) -> None:
        self._drop(*self.actors)
        if self.mine:
            self.ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _unreachable(address, str(error)) from error
    if host is None or port is None:
        raise FewerError(f"--engine ray:{address}: write HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host, port), SECONDS).close()
    except OSError as error:
        raise _unreachable(address, error.strerror or str(error)) from error


def _unreachable(address: str, problem: str) -> FewerError:
    return FewerError(
        f"--engine ray:{address}: no Ray cluster answers ({problem}); start one with `ray start --head`, "
        "or write --engine ray to use this machine"
    )
