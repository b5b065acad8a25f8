"""A function of every batch of a set, by any engine."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from fewer.compute.engines.engine import Engine, Work
from fewer.data.batches import Batch, TextBatch
from fewer.data.reading import Batches, one_thread
from fewer.progress import Bar

SomeBatch = TypeVar("SomeBatch", Batch, TextBatch)
Result = TypeVar("Result")


class _OnBatches(Work):
    """A shard is a batch of the plan."""

    def __init__(self, batches: Batches[Any], function: Callable[[Any], Any], device: torch.device):
        self.batches, self.function, self.device = batches, function, device
        self.groups = [items for group in batches.plan(1) for items in group]

    def __call__(self, shard: int, *_: Any) -> Any:
        with one_thread():
            batch = self.batches.load(self.groups[shard], 1)
        return self.function(batch)

    def name(self, shard: int) -> str:
        return f"batch {shard} of {len(self.groups)}"


def on_batches(
    engine: Engine,
    batches: Batches[SomeBatch],
    function: Callable[[SomeBatch], Result],
    device: torch.device,
    description: str,
) -> Iterator[Result]:
    """function(batch) of all batches, in order, with a bar. device: where it computes."""
    work = _OnBatches(batches, function, device)
    with Bar(description, len(work.groups)) as bar:
        for result in engine.in_order(work, range(len(work.groups))):
            yield result
            bar.advance()
