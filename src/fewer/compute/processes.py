"""Work divided among processes of this machine."""

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar, cast

import torch

from fewer.errors import FewerError

Result = TypeVar("Result")
Work = Callable[[int, int], Iterable[Result]]
RESULT, ERROR, END = range(3)


def divided(work: Work[Result], processes: int) -> Iterator[Result]:
    """What work(0, n) … work(n − 1, n) yield, in the order in which it comes.

    Each runs in a fork of this process, with all that is loaded here and one thread; `work` must neither print nor
    train. Elsewhere than on Linux forks are not safe, so this process does everything.
    """
    if processes == 1 or sys.platform != "linux":
        yield from work(0, 1)
        return
    context = multiprocessing.get_context("fork")
    children, ends = [], []
    try:
        for rank in range(processes):
            end, far_end = context.Pipe(duplex=False)
            child = context.Process(target=_share, args=(work, rank, processes, far_end), daemon=True)
            child.start()
            far_end.close()  # the child has it: when it dies, this end knows
            children.append(child)
            ends.append(end)
        while ends:
            for end in cast(list[Connection], wait(ends)):
                kind, value = _receive(end)
                if kind == END:
                    ends.remove(end)
                elif kind == ERROR:
                    raise value
                else:
                    yield value
    finally:
        for child in children:
            child.kill()
            child.join()


def _receive(end: Connection) -> tuple[int, Any]:
    try:
        received: tuple[int, Any] = end.recv()
    except EOFError:
        raise FewerError(
            "a process that did a part of the work was killed: is there enough memory? Fewer `processes` need less"
        ) from None
    return received


def _share(work: Work[Any], rank: int, processes: int, far_end: Connection) -> None:
    """One process's part; it leaves without a word, since locks of what prints may be held by threads left behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides
    torch.set_num_threads(1)
    try:
        for result in work(rank, processes):
            far_end.send((RESULT, result))
        far_end.send((END, None))
    except FewerError as error:
        far_end.send((ERROR, error))
    except OSError:  # nobody listens any more
        pass
    except Exception:
        far_end.send((ERROR, RuntimeError(traceback.format_exc())))
    finally:
        os._exit(0)
