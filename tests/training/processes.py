"""Running a function in processes of its own: some that torchrun might have started, or one that is killed."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["fewer.ilm.estimate", "tests.training.tones", "torch._dynamo"])  # import once
SECONDS = 600  # until a process that hangs is given up


def run_in_group(size: int, function: Callable[..., None], *arguments: Any) -> list[int | None]:
    """function(*arguments) in `size` processes; their exit codes.

    As torchrun does, this process holds the store where they meet: its port is its own before anyone is told of it.
    """
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    group = [PROCESSES.Process(target=_as_rank, args=(r, size, store.port, function, arguments)) for r in range(size)]
    for process in group:
        process.start()
    for process in group:
        _end(process)
    return [process.exitcode for process in group]


def run_in_two_processes(function: Callable[..., None], *arguments: Any) -> None:
    """function(*arguments) in both; both have to end well."""
    assert run_in_group(2, function, *arguments) == [0, 0]


def _as_rank(rank: int, size: int, port: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    function(*arguments)


def exit_code(function: Callable[..., None], *arguments: Any) -> int | None:
    """How a process ends that runs function(*arguments)."""
    process = PROCESSES.Process(target=function, args=arguments)
    process.start()
    _end(process)
    return process.exitcode


def run_to_end(function: Callable[..., None], *arguments: Any) -> None:
    """function(*arguments) in a process that has to end well."""
    assert exit_code(function, *arguments) == 0


def run_killed(change: int, folder: Path, function: Callable[..., None], *arguments: Any) -> None:
    """function(*arguments) in a process that is killed just before its n-th `change` of the files in `folder`.

    Between two changes nothing of it would outlive it, so these are all the moments there are, on fast and on slow
    machines alike. A file that was to take its final name is cut in half first, as if death had come while it was
    written.
    """
    code = exit_code(_mortal, change, str(folder), function, arguments)
    assert code == -signal.SIGKILL, f"it made fewer than {change} changes"


def _end(process: Any) -> None:
    process.join(SECONDS)
    process.kill()
    process.join()


def _mortal(change: int, folder: str, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    left = change

    def watch(event: str, details: tuple[Any, ...]) -> None:
        nonlocal left
        if not _changes(event, details) or not str(details[0]).startswith(folder):
            return
        left -= 1
        if left == 0:
            if event == "os.rename" and os.path.isfile(details[0]):
                os.truncate(details[0], os.path.getsize(details[0]) // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    function(*arguments)


def _changes(event: str, details: tuple[Any, ...]) -> bool:
    if event == "open":
        return isinstance(details[2], int) and bool(details[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
    return event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
