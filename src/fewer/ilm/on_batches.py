"""A function of every batch of a set, by any engine; a GPU that runs out of memory gets smaller ones."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from fewer.compute.engines.engine import Engine, Work
from fewer.compute.memory import Halving
from fewer.data.batches import Batch, TextBatch
from fewer.data.plan import Items
from fewer.data.reading import Batches, one_thread
from fewer.progress import Bar

SomeBatch = TypeVar("SomeBatch", Batch, TextBatch)
Result = TypeVar("Result")


class _OnBatches(Work):
    """A shard is a batch of the plan."""

    def __init__(self, batches: Batches[Any], function: Callable[[Any], Any], device: torch.device):
        self.batches, self.function, self.device = batches, function, device
        self.groups = [items for group in batches.plan(1) for items in group]
        self.halving = Halving()

    def __call__(self, shard: int, *_: Any) -> Any:
        """A result, or those of its parts."""
        return list(self.halving(self._of, self.groups[shard]))

    def _of(self, items: Items) -> Any:
        with one_thread():
            batch = self.batches.load(items, 1)
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
    """function(batch) of all batches, or of parts of them, in order, with a bar. device: where it computes."""
    work = _OnBatches(batches, function, device)
    with Bar(description, len(work.groups)) as bar:
        for results in engine.in_order(work, range(len(work.groups))):
            yield from results
            bar.advance()
