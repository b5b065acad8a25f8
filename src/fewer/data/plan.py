"""Which sequences every training step sees: a pure function of the options, the seed and the sub-epoch.

Utterances and sentences are planned by the same code: both are numbers 0…count−1 with a length in frames or labels.
Only the sub-epoch's own share of the numbers is ever in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from fewer.config import Config
from fewer.errors import FewerError

Items = np.ndarray  # (n,) int64: numbers of utterances or sentences


class PlanConfig(Config):
    max_size: int = Field(10_000, ge=1)  # padded frames (of text: labels) in one batch: sequences × the longest
    max_size_from: dict[PositiveInt, PositiveInt] = Field(
        {}
    )  # other limits from given sub-epochs on, such as {1: 20000, 31: 10000}
    max_sequences: int = Field(200, ge=1)  # sequences in one batch
    accumulate: int = Field(1, ge=1)  # batches whose gradients make one step
    sub_epochs: int = Field(1, ge=1)  # a sub-epoch is one of so many parts of the data; together they are all of it
    # bins: shuffled, then sorted by length in each bin; blocks: the same of what is not shuffled
    order: Literal["bins", "blocks", "random", "sorted", "corpus"] = "bins"
    bin_size: int = Field(1000, ge=1)  # sequences in one bin; up and down by turns, so that lengths change smoothly
    shuffle_batches: bool = False  # take the batches in random order instead
    skip_long: bool = False  # leave out sequences that are longer than a batch may be, instead of an error

    def max_size_at(self, sub_epoch: int) -> int:
        """The limit that holds in a sub-epoch."""
        begun = [first for first in self.max_size_from if first <= sub_epoch]
        return self.max_size_from[max(begun)] if begun else self.max_size


@dataclass(frozen=True)
class Plan:
    """The steps of one sub-epoch. Step i is a group of batches whose gradients are summed: the global batch."""

    items: Items  # in the order in which they are seen
    starts: np.ndarray  # (batches + 1,) int64: where in `items` each batch begins, and the end
    accumulate: int

    def __len__(self) -> int:
        return -(-self.batches // self.accumulate)

    @property
    def batches(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, step: int) -> list[Items]:
        return self.group(step)

    def __iter__(self) -> Iterator[list[Items]]:
        return (self.group(step) for step in range(len(self)))

    def group(self, step: int, rank: int = 0, world: int = 1) -> list[Items]:
        """A step's batches, or what one of `world` processes has of them.

        A step is the same set of items for any `world`; shares differ by at most one item per batch and may be empty.
        """
        if not 0 <= step < len(self):
            raise IndexError(f"step {step} of a plan with {len(self)} steps")
        first, last = step * self.accumulate, min((step + 1) * self.accumulate, self.batches)
        return [self.items[self.starts[b] : self.starts[b + 1]][rank::world] for b in range(first, last)]


def make_plan(
    config: PlanConfig,
    seed: int,
    sub_epoch: int,
    count: int,
    lengths: Callable[[Items], np.ndarray],
    keep: Callable[[Items], Items] = lambda items: items,
) -> Plan:
    """Plan a sub-epoch (from 1 on) over items 0…count−1.

    `lengths` gives items' frames or labels; `keep` may leave items of the sub-epoch's share out (a curriculum).
    """
    if sub_epoch < 1:
        raise ValueError("sub-epochs are counted from 1")
    rng = np.random.default_rng((seed, sub_epoch))
    items = keep(share(config, seed, sub_epoch, count))
    sizes = lengths(items)
    limit = config.max_size_at(sub_epoch)
    if len(items) and sizes.max() > limit:
        if not config.skip_long:
            raise FewerError(f"a sequence of {sizes.max()} is longer than a batch may be ({limit}); set skip_long")
        items, sizes = items[sizes <= limit], sizes[sizes <= limit]
    if not len(items):
        raise FewerError(
            f"sub-epoch {sub_epoch} has no data: {count} sequences in {config.sub_epochs} parts, less what a "
            "curriculum, a duration limit and skip_long leave out"
        )
    order = _order(config, sizes, rng)
    items, sizes = items[order], sizes[order]
    starts = _batch_starts(sizes, limit, config.max_sequences)
    if config.shuffle_batches:
        items, starts = _shuffle_batches(items, starts, rng)
    return Plan(items, starts, config.accumulate)


def share(config: PlanConfig, seed: int, sub_epoch: int, count: int) -> Items:
    """The part of 0…count−1 that a sub-epoch sees; the sub-epochs of one epoch see each number exactly once."""
    epoch, part = divmod(sub_epoch - 1, config.sub_epochs)
    if config.order in ("sorted", "corpus", "blocks"):
        return np.arange(part, count, config.sub_epochs, dtype=np.int64)
    first, last = part * count // config.sub_epochs, (part + 1) * count // config.sub_epochs
    return permuted(np.arange(first, last, dtype=np.int64), count, (seed, epoch))


def permuted(positions: np.ndarray, count: int, key: tuple[int, ...]) -> np.ndarray:
    """What stands at `positions` of a random permutation of 0…count−1, without making the whole permutation.

    A Feistel network on pairs (left, right) with side² ≥ count is a permutation of 0…side²−1; numbers that fall beyond
    `count` are sent through it again until they land inside.
    """
    side = np.uint64(max(int(np.ceil(np.sqrt(count))), 1))
    keys = np.random.SeedSequence(key).generate_state(8, np.uint64)
    result = positions.astype(np.uint64)
    outside = np.ones(len(result), dtype=bool)
    while outside.any():
        left, right = np.divmod(result[outside], side)
        for even, odd in keys.reshape(-1, 2):
            left = (left + mixed(right, even)) % side
            right = (right + mixed(left, odd)) % side
        result[outside] = left * side + right
        outside = result >= count
    return result.astype(np.int64)


def mixed(numbers: np.ndarray, key: np.uint64) -> np.ndarray:
    """Random-looking 32-bit numbers, each a function of one number and the key (SplitMix64's finaliser)."""
    bits = numbers.astype(np.uint64) ^ key
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (bits ^ (bits >> np.uint64(31))) >> np.uint64(32)


def _order(config: PlanConfig, sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    count = len(sizes)
    if config.order == "corpus":
        return np.arange(count)
    if config.order == "sorted":
        return np.argsort(sizes, kind="stable")
    order = np.arange(count) if config.order == "blocks" else rng.permutation(count)
    if config.order in ("bins", "blocks"):
        for number, first in enumerate(range(0, count, config.bin_size)):
            bin = order[first : first + config.bin_size]
            by_length = bin[np.argsort(sizes[bin], kind="stable")]
            order[first : first + config.bin_size] = by_length[::-1] if number % 2 else by_length
    return order


def _batch_starts(sizes: np.ndarray, max_size: int, max_sequences: int) -> np.ndarray:
    """Cut the order into batches, each as large as it may be."""
    starts, longest = [0], 0
    for position, size in enumerate(sizes.tolist()):
        sequences = position - starts[-1] + 1
        longest = max(longest, size)
        if sequences > max_sequences or sequences * longest > max_size:
            starts.append(position)
            longest = size
    return np.array([*starts, len(sizes)], dtype=np.int64)


def _shuffle_batches(items: Items, starts: np.ndarray, rng: np.random.Generator) -> tuple[Items, np.ndarray]:
    order = rng.permutation(len(starts) - 1)
    shuffled = np.concatenate([items[starts[b] : starts[b + 1]] for b in order])
    return shuffled, np.concatenate([[0], np.cumsum(np.diff(starts)[order])])
