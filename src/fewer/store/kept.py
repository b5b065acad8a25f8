"""Tensors that take long to compute, kept by key for the next time."""

from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from fewer.store.checkpoint import load_tensors, save_tensors

DAMAGED = "delete it, and it will be made again"


class KeptTensors:
    """The first ones in memory, up to a budget; the others in files of a folder, each complete or absent."""

    def __init__(self, folder: str | Path | None = None, memory: int = 0):
        """folder: None: what has no room in memory is computed again. memory: bytes."""
        self.folder, self.memory = None if folder is None else Path(folder), memory
        self.held: dict[str, dict[str, Tensor]] = {}

    def get(self, key: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        """What `compute` gave when this key was first asked for."""
        if key in self.held:
            return self.held[key]
        path = None if self.folder is None else self.folder / f"{key}.safetensors"
        if path is not None and path.exists():
            return load_tensors(path, DAMAGED)[0]
        tensors = compute()
        size = sum(tensor.nbytes for tensor in tensors.values())
        if size <= self.memory:
            self.memory -= size
            self.held[key] = tensors
        elif path is not None:
            save_tensors(path, tensors)
        return tensors
