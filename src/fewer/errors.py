"""The one exception that speaks to the user: what is wrong, where, and what to do."""

import re

LONG = re.compile(r"\S{400,}")  # what a damaged file may hold where a name or a number should be
# RuntimeErrors of torch and of Python
OUT_OF_MEMORY = ("DefaultCPUAllocator: can't allocate memory", "CUDA out of memory", "can't start new thread")
NO_ROOM = "failed to map segment from shared object"  # of a library; with a reason behind it if that is another one


class FewerError(Exception):
    """A problem the user can mend. The command line prints its message without a traceback.

    Very long words of the message, which are quoted from files, are cut.
    """

    def __init__(self, message: str):
        super().__init__(LONG.sub(lambda found: f"{found[0][:200]}…{found[0][-100:]}", message))


class WorkerError(Exception):
    """An error of another process that nobody foresaw. Its traceback there is a note."""


def worker_error(told: str, where: str = "") -> WorkerError:
    """told: the traceback. where: what the process was doing."""
    last = told.strip().splitlines()[-1] if told.strip() else "it told nothing"
    error = WorkerError(f"{last}{where}")
    error.add_note(told)
    return error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether there was too little memory, whoever noticed it."""
    if isinstance(error, ImportError | OSError) and str(error).endswith(NO_ROOM):
        return True
    return isinstance(error, MemoryError) or any(mark in str(error) for mark in OUT_OF_MEMORY)
