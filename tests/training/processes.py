"""Running a function in two processes that torchrun might have started."""

import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any

import torch

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["fewer.ilm.estimate", "tests.training.tones", "torch._dynamo"])
SECONDS = 60  # until a process is given up


def run_in_two_processes(function: Callable[..., None], *arguments: Any) -> None:
    """function(*arguments) in both; both have to end well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    group = [PROCESSES.Process(target=_as_rank, args=(rank, port, function, arguments)) for rank in range(2)]
    for process in group:
        process.start()
    for process in group:
        process.join(SECONDS)
        process.kill()
        process.join()
    assert [process.exitcode for process in group] == [0, 0]


def _as_rank(rank: int, port: str, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    function(*arguments)
