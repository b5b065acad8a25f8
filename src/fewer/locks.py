"""One command at a time in a folder: a lock file that says which process on which machine works there.

The lock itself belongs to the process, so that it goes when the process goes, even if killed. A lock file of this
machine whose process has ended is taken over; one of another machine is reported and never removed, because it cannot
be seen from here whether its process still runs.
"""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ValidationError

from fewer.errors import FewerError
from fewer.files import LOCK, remove_leftovers, uninterrupted, unwritable

UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # a file system without locks
LARGEST = 4096  # bytes of a lock file
_held: set[Path] = set()  # by this process, whose locks do not exclude each other


class Owner(BaseModel):
    """What a lock file says."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} (since {self.since})"


@contextmanager
def exclusive(folder: str | Path, name: str = LOCK, first: bool = True) -> Iterator[None]:
    """Be the only process that works in `folder`; an error if another one does. What killed ones left there is removed.

    Shards of a run have `name`s of their own, so that they do not lock each other out. Of processes that work together,
    only the `first` one holds the lock.
    """
    if not first:
        yield
        return
    folder = Path(folder)
    path = folder.resolve() / name
    if path in _held:
        raise FewerError(f"{folder} is in use by this process already")
    descriptor = None
    try:
        with uninterrupted():
            descriptor = _acquired(folder, path)
            _held.add(path)
        if name == LOCK:
            remove_leftovers(folder)
        yield
    finally:
        with uninterrupted():
            if descriptor is not None:
                _held.discard(path)
                path.unlink(missing_ok=True)  # before the lock goes: whoever opens the old file sees it has no name
                os.close(descriptor)


def _acquired(folder: Path, path: Path) -> int:
    """As `_acquire`; a disk that cannot be written is told."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _acquire(path)
    except OSError as error:
        problem = unwritable(error) or f"cannot lock {folder}: {error.strerror or error}; choose one that you may write"
        raise FewerError(problem) from error


def _acquire(path: Path) -> int:
    """The descriptor of the lock file, which holds the lock until it is closed."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            free, owner = _try_lock(descriptor), _read_owner(descriptor)
            if owner is not None and owner.host != socket.gethostname():
                raise FewerError(
                    f"{path.parent} is in use by {owner}; wait for it, or use another folder. "
                    f"If that process has ended, delete {path}"
                )
            if free is False or (free is None and owner is not None and _is_alive(owner.pid)):
                by = owner or "another process"
                raise FewerError(f"{path.parent} is in use by {by}; wait for it, or use another folder")
            if _is_still_there(path, descriptor):
                _write_owner(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its owner has just removed it: once more


def _try_lock(descriptor: int) -> bool | None:
    """Whether the lock is ours now; None if the file system has no locks. It is not inherited by forked processes."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return None
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _read_owner(descriptor: int) -> Owner | None:
    """Who wrote the lock file; None if it is new, or was cut short by a kill."""
    try:
        return Owner.model_validate_json(os.pread(descriptor, LARGEST, 0))
    except ValidationError:
        return None


def _write_owner(descriptor: int) -> None:
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, Owner(pid=os.getpid(), host=socket.gethostname(), since=since).model_dump_json().encode(), 0)


def _is_still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
