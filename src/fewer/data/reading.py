"""Reading batches ahead of their use, in worker processes, always in the planned order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from fewer.data.plan import Items, Plan
from fewer.errors import FewerError

Job = TypeVar("Job")
Result = TypeVar("Result")


class Batches(ABC, Generic[Result]):
    """Data that can be planned and loaded. Nothing here has a state: the same arguments give the same batches."""

    @abstractmethod
    def plan(self, sub_epoch: int) -> Plan:
        """The steps of a sub-epoch (counted from 1)."""

    @abstractmethod
    def load(self, items: Items, sub_epoch: int, step: int = 0) -> Result:
        """One batch. `step`, the optimiser steps before this one, is what augmentation schedules go by."""

    def steps(
        self,
        sub_epoch: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
        workers: int = 0,
        steps_before: int = 0,
    ) -> Iterator[list[Result]]:
        """The steps of a sub-epoch from step `start` on, each a list of batches whose gradients are summed.

        rank, world: one process's share of every step, which may hold empty batches.
        workers: processes that read ahead; the batches are the same for any number.
        steps_before: optimiser steps of the run before this sub-epoch.
        """
        plan = self.plan(sub_epoch)
        groups = _Groups(plan, range(start, len(plan)), rank, world)
        return read_ahead(partial(self._load_group, sub_epoch, steps_before), groups, workers)

    def _load_group(self, sub_epoch: int, steps_before: int, job: tuple[int, list[Items]]) -> list[Result]:
        step, group = job
        return [self.load(items, sub_epoch, steps_before + step) for items in group]


def read_ahead(load: Callable[[Job], Result], jobs: Sequence[Job], workers: int = 0) -> Iterator[Result]:
    """load(job) of each job in turn. An error is raised where its result would come, without a worker's traceback."""
    if workers == 0:
        for number in range(len(jobs)):
            with one_thread():
                result = load(jobs[number])
            yield result
        return
    loader: Any = DataLoader(_Loads(load, jobs), batch_size=None, num_workers=workers, collate_fn=_as_it_is)
    for result in loader:
        if isinstance(result, FewerError):
            raise result
        yield result


class _Groups(Sequence[tuple[int, list[Items]]]):
    """The numbered groups of a plan that one process reads, made when they are asked for."""

    def __init__(self, plan: Plan, numbers: range, rank: int, world: int):
        self.plan, self.numbers, self.rank, self.world = plan, numbers, rank, world

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any) -> Any:
        step = self.numbers[index]
        return step, self.plan.group(step, self.rank, self.world)


class _Loads(Dataset[Any]):
    def __init__(self, load: Callable[[Any], Any], jobs: Sequence[Any]):
        self.load, self.jobs = load, jobs

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, index: int) -> Any:
        try:
            return self.load(self.jobs[index])
        except FewerError as error:
            return error


def _as_it_is(result: Any) -> Any:
    return result


@contextmanager
def one_thread() -> Iterator[None]:
    """As in worker processes, so that sums are formed in the same order. Small products gain nothing from more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
