"""Arrays that lie in files and are read in pieces, so that they take no memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np


class Column:
    """Numbers in a file."""

    def __init__(self, path: Path, dtype: np.typing.DTypeLike):
        self.path, self.dtype = path, np.dtype(dtype)

    def __len__(self) -> int:
        return self.path.stat().st_size // self.dtype.itemsize if self.path.exists() else 0

    def read(self, first: int, last: int) -> np.ndarray:
        size = self.dtype.itemsize
        with open(self.path, "rb") as stream:
            return np.fromfile(stream, self.dtype, max(last - first, 0), offset=first * size)

    def append(self, values: np.ndarray) -> None:
        with open(self.path, "ab") as stream:
            np.ascontiguousarray(values, self.dtype).tofile(stream)

    def chunks(self, size: int) -> Iterator[tuple[int, np.ndarray]]:
        for first in range(0, len(self), size):
            yield first, self.read(first, min(first + size, len(self)))

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def sorted_lookup(table: Column, places: np.ndarray) -> np.ndarray:
    """table[places] for places that rise."""
    first, last = int(places[0]), int(places[-1]) + 1
    return table.read(first, last)[places - np.uint32(first)]
