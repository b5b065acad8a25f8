"""A job in shards, and who does them.

A job is divided into shards in one way, however many workers there are, and each shard's result depends on nothing
but its number. So results are the same, bit for bit, for any engine; a shard that was lost is done again.
"""

import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from fewer.config import first_of
from fewer.errors import FewerError, is_out_of_memory, worker_error
from fewer.files import unwritable
from fewer.progress import collected

DONE, REFUSED, LOST, FAILED = range(4)  # what became of a shard: LOST with its worker, FAILED by a bug
ATTEMPTS = 3  # after which a shard is given up
NO_MEMORY = "its worker was out of memory; use fewer or larger workers"


class Work(ABC):
    """What a worker holds: models and data. It goes to other machines by pickle."""

    device = torch.device("cpu")  # where it computes

    @abstractmethod
    def __call__(self, shard: int, *arguments: Any) -> Any:
        """Do a shard. The result, or the files that it leaves, are the same whenever and wherever it is done."""

    def name(self, shard: int) -> str:
        """A shard as users know it."""
        return f"shard {shard}"


@dataclass(frozen=True)
class Job:
    """Work with those of its shards that are to be done."""

    work: Work
    shards: Sequence[int]
    arguments: tuple[Any, ...] = ()


class SideBySide(Work):
    """The work of several jobs as one, whose shards take turns: no worker waits for the last shards of a job."""

    def __init__(self, works: Sequence[Work]):
        self.works, self.device = works, works[0].device

    def number(self, work: int, shard: int) -> int:
        """Of a shard of one of them."""
        return shard * len(self.works) + work

    def place(self, number: int) -> tuple[int, int]:
        """Whose shard that is, and its number there."""
        shard, work = divmod(number, len(self.works))
        return work, shard

    def __call__(self, shard: int, *arguments: Any) -> Any:
        """arguments: a tuple for each of the works."""
        work, own = self.place(shard)
        return self.works[work](own, *arguments[work])

    def name(self, shard: int) -> str:
        work, own = self.place(shard)
        return self.works[work].name(own)


class Engine(AbstractContextManager["Engine"], ABC):
    """One of the ways to do the shards of a job. Used as a context manager, it leaves no workers behind."""

    first = True  # whether this process writes files and talks, if several are started with the same command
    shared_memory = True  # whether workers see what this process holds in memory
    together: SideBySide | None = None  # the last jobs that were done side by side

    @abstractmethod
    def map(self, work: Work, shards: Sequence[int], *arguments: Any) -> Iterator[tuple[int, Any]]:
        """work(shard, *arguments) of each shard with its number, in any order."""

    def side_by_side(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Any]]:
        """The results of several jobs, each with the number of its job, in any order."""
        if not jobs:
            return
        works = [job.work for job in jobs]
        if self.together is None or self.together.works != works:  # else workers have it from before
            self.together = SideBySide(works)
        together = self.together
        numbers = sorted(together.number(work, shard) for work, job in enumerate(jobs) for shard in job.shards)
        for number, result in self.map(together, numbers, *(job.arguments for job in jobs)):
            yield together.place(number)[0], result

    def in_order(self, work: Work, shards: Sequence[int], *arguments: Any) -> Iterator[Any]:
        """The results alone, in the order of the shards."""
        done: dict[int, Any] = {}
        waiting = iter(shards)
        wanted = next(waiting, None)
        for shard, result in self.map(work, shards, *arguments):
            done[shard] = result
            while wanted in done:
                yield done.pop(wanted)
                wanted = next(waiting, None)

    def wait(self) -> None:
        """Until every process that was started with the same command is here."""

    def same(self, value: Any) -> Any:
        """The first process's `value`, in every process that was started with the same command."""
        return value

    def __exit__(self, *_: object) -> None:
        pass


class Local(Engine):
    """This process alone."""

    def map(self, work: Work, shards: Sequence[int], *arguments: Any) -> Iterator[tuple[int, Any]]:
        for shard in shards:
            yield shard, work(shard, *arguments)


def attempt(work: Work, shard: int, arguments: tuple[Any, ...]) -> tuple[int, Any, list[tuple[int, str]]]:
    """In a worker: a shard's result, an error of the user's, which would come again, or the traceback of any other one;
    messages."""
    with collected() as messages:
        try:
            return DONE, work(shard, *arguments), messages
        except FewerError as error:
            return REFUSED, FewerError(str(error)), messages
        except OSError as error:
            if (problem := unwritable(error)) is not None:
                return REFUSED, FewerError(problem), messages
            return FAILED, traceback.format_exc(), messages
        except Exception as error:
            if is_out_of_memory(error):
                return LOST, NO_MEMORY, messages
            return FAILED, traceback.format_exc(), messages


class Attempts:
    """How often the shards of a job were tried; what fails three times is given up, and the others are done."""

    def __init__(self, work: Work):
        self.work, self.counts = work, dict[int, int]()
        self.given_up = dict[int, tuple[int, str]]()  # shard -> how it ended, and why

    def failed(self, shard: int, kind: int, problem: str) -> bool:
        """Note it; whether to try again. problem: a sentence of one that is LOST, the traceback of one that FAILED."""
        self.counts[shard] = self.counts.get(shard, 0) + 1
        if self.counts[shard] < ATTEMPTS:
            return True
        self.given_up[shard] = kind, problem
        return False

    def check(self) -> None:
        """At the end: an error that names what was given up; that of a bug has the traceback."""
        if not self.given_up:
            return
        count = f"{len(self.given_up)} shards failed {ATTEMPTS} times; all others are done"
        for shard, (kind, problem) in self.given_up.items():
            if kind == FAILED:
                raise worker_error(problem, f" ({self.work.name(shard)}; {count})")
        told = [f"{self.work.name(shard)}: {problem}" for shard, (_, problem) in self.given_up.items()]
        raise FewerError(f"{count}, and the same command goes on with these:\n{first_of(told)}")
