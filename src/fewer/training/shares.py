"""What each process reads of a step."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fewer.compute.world import World
from fewer.data.plan import Items, Plan
from fewer.data.reading import Batches, read_ahead


@dataclass(frozen=True)
class Share:
    """One process's part of a step."""

    step: int  # of the sub-epoch, from 0 on
    groups: list[Items]  # the batches it reads; at least one, none empty
    weight: float  # what its losses count: 1, or 0 for a stand-in
    planned: int  # batches in the whole step, over all processes


def share(plan: Plan, step: int, rank: int, size: int) -> Share:
    """Whole batches if there is one for each process, else a slice of every batch.

    A process for which nothing is left does the first sequence once more and counts it 0, so that all processes do the
    same number of exchanges.
    """
    whole = plan.group(step)
    groups = whole[rank::size] if len(whole) >= size else plan.group(step, rank, size)
    groups = [items for items in groups if len(items)]
    return Share(step, groups or [whole[0][:1]], 1.0 if groups else 0.0, len(whole))


def read_shares(
    data: Batches[Any], plan: Plan, world: World, sub_epoch: int, start: int, steps_before: int, workers: int
) -> Iterator[tuple[Share, list[Any]]]:
    """This process's share of every step from `start` on, with its batches.

    steps_before: optimiser steps of the run before this sub-epoch.
    """
    shares = [share(plan, step, world.rank, world.size) for step in range(start, len(plan))]
    return read_ahead(partial(_load, data, sub_epoch, steps_before), shares, workers)


def _load(data: Batches[Any], sub_epoch: int, steps_before: int, share: Share) -> tuple[Share, list[Any]]:
    return share, [data.load(items, sub_epoch, steps_before + share.step) for items in share.groups]
