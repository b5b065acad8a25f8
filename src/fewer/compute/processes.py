"""A training in several new processes of this machine, started by `torch.multiprocessing`, with ranks as torchrun's.

An error of one is raised here, and none outlives this process. What is divided into shards is done by
`fewer.compute.engines` instead.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from typing import Any

import torch
from torch.distributed import TCPStore
from torch.multiprocessing import ProcessExitedException, get_context, start_processes

from fewer.errors import FewerError, is_out_of_memory, worker_error
from fewer.files import unwritable
from fewer.progress import is_shown, show_progress

HERE = "127.0.0.1"
KILLED = (
    "a process that did a part of the work was killed: is there enough memory? Use fewer processes, "
    "and run the same command again"
)


def together(work: Callable[..., None], processes: int, *args: Any) -> None:
    """work(*args) in so many new processes, each with its rank; this machine's threads are divided among them."""
    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)  # on a port that is free
    shared = {"MASTER_ADDR": HERE, "MASTER_PORT": str(store.port), "WORLD_SIZE": str(processes)}
    shared |= {"LOCAL_WORLD_SIZE": str(processes)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # the store is here, not in the first of the processes
    threads = max(torch.get_num_threads() // processes, 1)
    errors = get_context("spawn").SimpleQueue()
    told = (shared, threads, is_shown(), errors, work, args)
    children = start_processes(_serve, told, processes, join=False, start_method="spawn")
    try:
        while not children.join():
            pass
    except ProcessExitedException as error:
        raise (FewerError(KILLED) if errors.empty() else errors.get()) from error
    finally:
        for child in children.processes:
            child.kill()
            child.join()


def _serve(
    rank: int,
    shared: dict[str, str],
    threads: int,
    shown: bool,
    errors: "SimpleQueue[Exception]",
    work: Callable[..., None],
    args: tuple[Any, ...],
) -> None:
    """What a new process does; it leaves without cleaning up, since threads left behind may hold locks."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as good as the kill that follows Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.environ |= {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.dup2(2, 1)  # what is printed is for people
    torch.set_num_threads(threads)
    show_progress(shown)
    failed = True
    try:
        work(*args)
        failed = False
    except FewerError as error:
        errors.put(error)
    except Exception as error:
        if isinstance(error, OSError) and (problem := unwritable(error)) is not None:
            errors.put(FewerError(problem))
        else:
            errors.put(MemoryError() if is_out_of_memory(error) else worker_error(traceback.format_exc()))
    finally:
        os._exit(failed)


def _end_with_parent() -> None:
    """End when the process that started this one ends, even if by a kill."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
