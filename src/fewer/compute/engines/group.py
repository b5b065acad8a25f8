"""The processes that torchrun started: each does its share of the shards."""

from collections.abc import Iterator, Sequence
from typing import Any

from fewer.compute.engines.engine import Engine, Work
from fewer.compute.world import World


class Torchrun(Engine):
    """Every process takes each n-th shard, and learns of all results. torchrun itself replaces processes that die."""

    shared_memory = False

    def __init__(self, world: World):
        self.world, self.first = world, world.first

    def map(self, work: Work, shards: Sequence[int], *arguments: Any) -> Iterator[tuple[int, Any]]:
        mine = [(shard, work(shard, *arguments)) for shard in shards[self.world.rank :: self.world.size]]
        for results in self.world.gather(mine):
            yield from results

    def wait(self) -> None:
        self.world.wait()

    def same(self, value: Any) -> Any:
        return self.world.same(value)
