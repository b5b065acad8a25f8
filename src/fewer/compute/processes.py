"""A training in several new processes of this machine, each with its rank, as torchrun would start them.

They are watched: an error of one is raised here, and none outlives this process. What is divided into shards is done by
`fewer.compute.engines` instead.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, cast

import torch
from torch.distributed import TCPStore

from fewer.errors import FewerError, is_out_of_memory, worker_error
from fewer.files import unwritable
from fewer.progress import is_shown, show_progress

HERE = "127.0.0.1"
DONE = None  # what a process says at its end; else its error
SERVE = "from fewer.compute.processes import serve; serve()"


def together(work: Callable[..., None], processes: int, *args: Any) -> None:
    """work(*args) in so many new processes, each with its rank; this machine's threads are divided among them.

    work: a function of a module, found there by its name; its arguments are values of JSON.
    """
    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False)  # on a port that is free
    shared = {"MASTER_ADDR": HERE, "MASTER_PORT": str(store.port), "WORLD_SIZE": str(processes)}
    shared |= {"LOCAL_WORLD_SIZE": str(processes)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}  # the store is here, not in the first of the processes
    shared |= {"OMP_NUM_THREADS": str(max(torch.get_num_threads() // processes, 1))}

    def start(rank: int, far_end: Connection) -> subprocess.Popen[bytes]:
        """It does not hear Ctrl-C: its standard input stays open as long as this process wants it to live."""
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE],  # -P: no module of the current folder is imported
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=2,  # what is printed is for people
            pass_fds=[far_end.fileno()],
            start_new_session=True,
        )
        assert child.stdin is not None
        job = {"end": far_end.fileno(), "shown": is_shown(), "work": [work.__module__, work.__name__], "args": args}
        child.stdin.write(json.dumps(job).encode() + b"\n")
        child.stdin.flush()
        return child

    _watch(start, processes)


def serve() -> None:
    """What a new process of `together` does; it leaves without a word, since threads left behind may hold locks."""
    job = json.loads(sys.stdin.buffer.readline())
    module, name = job["work"]
    far_end = Connection(job["end"], readable=False)
    show_progress(job["shown"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        getattr(importlib.import_module(module), name)(*job["args"])
        far_end.send(DONE)
    except FewerError as error:
        far_end.send(error)
    except Exception as error:
        if isinstance(error, OSError) and (problem := unwritable(error)) is not None:
            far_end.send(FewerError(problem))
        else:
            far_end.send(MemoryError() if is_out_of_memory(error) else worker_error(traceback.format_exc()))
    finally:
        os._exit(0)


def _end_with_parent() -> None:
    """End when the other end of standard input is closed, even if by a kill."""
    sys.stdin.buffer.read()
    os._exit(1)


def _watch(start: Callable[[int, Connection], subprocess.Popen[bytes]], processes: int) -> None:
    """Start processes, wait for all, and raise the first error; at the end none is left."""
    children: list[subprocess.Popen[bytes]] = []
    ends: list[Connection] = []
    try:
        for rank in range(processes):
            end, far_end = Pipe(duplex=False)
            children.append(start(rank, far_end))
            far_end.close()  # the child has it: when it dies, this end knows
            ends.append(end)
        while ends:
            for end in cast(list[Connection], wait(ends)):
                if (error := _receive(end)) is not DONE:
                    raise error
                ends.remove(end)
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.communicate()


def _receive(end: Connection) -> Exception | None:
    try:
        received: Exception | None = end.recv()
    except EOFError:
        raise FewerError(
            "a process that did a part of the work was killed: is there enough memory? Use fewer processes, "
            "and run the same command again"
        ) from None
    return received
