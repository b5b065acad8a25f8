"""The processes of a run: one alone, or many under torchrun."""

import gc
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import distributed

from fewer.compute.device import choose_device, local_rank
from fewer.errors import FewerError


@dataclass(frozen=True)
class World:
    """Which process this is, among how many, on which device."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """True in the one process that writes files and talks."""
        return self.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """Element-wise sum over all processes."""
        if self.size == 1:
            return values
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return total.tolist()

    def gather(self, value: Any) -> list[Any]:
        """Every process's `value`, in every process."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def wait(self) -> None:
        """Until every process is here."""
        if self.size > 1:
            distributed.barrier()

    def same(self, value: Any) -> Any:
        """The first process's `value`, in every process."""
        if self.size == 1:
            return value
        values = [value]
        distributed.broadcast_object_list(values, src=0)
        return values[0]


def processes() -> tuple[int, int]:
    """This process's rank among those that torchrun started, and how many they are."""
    return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


def check_alone(command: str, instead: str = "") -> None:
    """An error under torchrun, at once, of a command that every process would do whole. instead: what else to do."""
    if processes()[1] > 1:
        raise FewerError(f"{command} runs in one process: start it without torchrun{instead and f', and {instead}'}")


def alone(device: str | torch.device = "cpu") -> World:
    """One process by itself."""
    return World(0, 1, torch.device(device))


@contextmanager
def joined(device: str | torch.device = "auto") -> Iterator[World]:
    """Join the processes that torchrun started, or be alone; leave them at the end.

    Inside another `joined` it is the same processes, which are left where they were joined.
    """
    if distributed.is_initialized():
        inside = _chosen(device)
        yield World(distributed.get_rank(), distributed.get_world_size(), inside)
        return
    rank, size = processes()
    chosen = _chosen(device)
    if size == 1:
        yield alone(chosen)
        return
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield World(rank, size, chosen)
    except BaseException as error:
        traceback.clear_frames(error.__traceback__)  # or they keep models that hold on to the group until the exit
        raise
    finally:
        gc.collect()
        distributed.destroy_process_group()


def _chosen(device: str | torch.device) -> torch.device:
    return choose_device(device, local_rank()) if isinstance(device, str) else device
