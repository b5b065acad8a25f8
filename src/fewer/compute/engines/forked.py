"""Processes of this machine: forks of this one, with everything that is loaded here."""

import contextlib
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import torch

from fewer.compute.engines.engine import DONE, LOST, REFUSED, Attempts, Engine, Work, attempt
from fewer.errors import FewerError
from fewer.progress import tell_again

DEAD = "its process was killed; is there enough memory? Use fewer processes"


class Processes(Engine):
    """Forks take the next shard whenever they are ready; one that dies is replaced, and its shard done again."""

    def __init__(self, count: int):
        if sys.platform != "linux":
            raise FewerError(f"--engine processes:{count}: forks are safe on Linux only; write local, or ray")
        self.count = count

    def map(self, work: Work, shards: Sequence[int], *arguments: Any) -> Iterator[tuple[int, Any]]:
        if work.device.type != "cpu":
            raise FewerError(
                f"--engine processes:{self.count}: processes would share the device {work.device}; "
                "use torchrun or ray, which give each process a GPU of its own"
            )
        attempts, waiting = Attempts(work), deque(shards)
        children: dict[Connection, _Child] = {}  # by the end of their pipe that is here
        try:
            for _ in range(min(self.count, len(waiting))):
                _Child(work, arguments, children).give(waiting)
            while children:
                for end in cast(list[Connection], wait(list(children))):
                    child = children[end]
                    kind, value = child.answer()
                    if kind == DONE:
                        yield child.shard, value
                    elif kind == REFUSED:
                        raise value
                    elif attempts.failed(child.shard, kind, value):
                        waiting.append(child.shard)
                    if child.dead:
                        child.end()
                        child = _Child(work, arguments, children)
                    child.give(waiting)
        finally:
            for child in list(children.values()):
                child.end()
        attempts.check()


class _Child:
    """A fork, which does the shards that it is given one after the other."""

    def __init__(self, work: Work, arguments: tuple[Any, ...], children: dict[Connection, "_Child"]):
        """children: all that there are; this one becomes one of them until it ends."""
        context = multiprocessing.get_context("fork")
        self.pipe, far_end = context.Pipe()
        self.shard, self.dead, self.children = -1, False, children
        children[self.pipe] = self
        self.process = context.Process(target=_serve, args=(work, arguments, far_end, list(children)), daemon=True)
        self.process.start()
        far_end.close()  # the child has it: when it dies, this end knows

    def give(self, waiting: deque[int]) -> None:
        """The next shard; if there is none, it ends."""
        if not waiting:
            self.end()
            return
        self.shard = waiting.popleft()
        with contextlib.suppress(OSError):  # if it died, `answer` will tell
            self.pipe.send(self.shard)

    def answer(self) -> tuple[int, Any]:
        try:
            kind, value, messages = self.pipe.recv()
        except (EOFError, OSError):
            self.dead = True
            return LOST, DEAD
        tell_again(messages)
        return kind, value

    def end(self) -> None:
        del self.children[self.pipe]
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _serve(work: Work, arguments: tuple[Any, ...], pipe: Connection, others: Sequence[Connection]) -> None:
    """What a fork does until the other end is closed. It leaves without cleaning up what belongs to its parent."""
    try:
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.SIG_IGN)  # the first process decides
        for other in others:
            other.close()  # or it would not be noticed that the first process ended
        torch.set_num_threads(1)
        while True:
            pipe.send(attempt(work, pipe.recv(), arguments))
    except (EOFError, OSError):  # nobody listens any more
        pass
    finally:
        os._exit(0)
