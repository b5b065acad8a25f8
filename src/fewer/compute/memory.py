"""How much a GPU can hold at once: batches by the memory that is free, halved where that was too hopeful."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from fewer.errors import FewerError
from fewer.progress import warn

Result = TypeVar("Result")
SHARE = 0.6  # of the free memory that a batch may take by estimate
MOST = 256  # utterances in a batch at most: more gain nothing


def free_memory(device: torch.device) -> int | None:
    """Bytes that are free on a GPU; None: not a GPU, or one that does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    return None


def how_many(device: torch.device, each: float) -> int | None:
    """Items of so many bytes each that a batch may have; None: as many as usual."""
    free = free_memory(device)
    return None if free is None else max(1, min(MOST, int(SHARE * free / each)))


class Halving:
    """Work on batches that are halved when the device runs out of memory; from then on all are as small."""

    def __init__(self, what: str = "utterance"):
        self.what = what
        self.most: int | None = None  # items at once; None: no limit is known

    def __call__(self, work: Callable[[Any], Result], items: Any) -> Iterator[Result]:
        """work(items), or work of parts of them in order. items: a sequence or an array"""
        first = 0
        while first < len(items):
            count = len(items) - first if self.most is None else min(self.most, len(items) - first)
            if (result := self._tried(work, items[first : first + count])) is None:
                self._smaller(count)
            else:
                first += count
                yield result[0]

    def _tried(self, work: Callable[[Any], Result], items: Any) -> tuple[Result] | None:
        """None: out of memory. What the failed work held is free when this returns."""
        try:
            return (work(items),)
        except torch.OutOfMemoryError:
            return None

    def _smaller(self, count: int) -> None:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if count == 1:
            raise FewerError(
                f"the GPU has not enough memory for one {self.what}: use a smaller beam or model, a lower --precision, "
                "or --device cpu"
            )
        self.most = count // 2
        warn(f"the GPU ran out of memory with {count} {self.what}s at once; going on with {self.most}")
