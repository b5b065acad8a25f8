"""Writing files so that they are complete or absent, and naming them by content."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

from fewer.errors import FewerError

TEMPORARY, LOCK = ".tmp", ".fewer.lock"  # in names of temporary files, before a process id; of a folder's lock
LARGEST_JSON = 1 << 28  # bytes
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` that takes its name only if the block ends without an error."""
    with AtomicFiles() as files:
        yield files.open(path, mode)


_waiting: list[BaseException] = []  # what stops the command when nothing is uninterrupted any more
_uninterrupted = 0


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM, as the command line handles them (`stop_by`), come after the block."""
    global _uninterrupted
    _uninterrupted += 1
    try:
        yield
    finally:
        _uninterrupted -= 1
        if _waiting and not _uninterrupted:
            raise _waiting.pop()


def stop_by(error: BaseException) -> None:
    """Raise it, or as soon as an interruption leaves nothing behind. For handlers of signals."""
    if not _uninterrupted:
        raise error
    _waiting[:] = [error]


class AtomicFiles:
    """Several files that take their names together, when all of them are written and on disk, or not at all."""

    def __init__(self) -> None:
        self._open: list[tuple[Path, Path, IO[Any]]] = []  # file, temporary file, stream

    def __enter__(self) -> "AtomicFiles":
        return self

    def open(self, path: str | Path, mode: str = "w") -> IO[Any]:
        """A temporary file beside `path`."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}{TEMPORARY}{os.getpid()}")
        with uninterrupted():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                stream = open(temporary, mode, encoding=None if "b" in mode else "utf-8")  # noqa: SIM115
            except OSError as error:
                raise cannot_write(path, error) from error
            self._open.append((path, temporary, stream))
        return stream

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        with uninterrupted():
            try:
                if error is None:
                    self._finish()
                elif isinstance(error, OSError) and (path := self._mine(error)) is not None:
                    raise cannot_write(path, error) from error
            finally:
                for _, temporary, stream in self._open:
                    with contextlib.suppress(OSError):
                        stream.close()  # what it could not write it tries to write again
                    with contextlib.suppress(OSError):
                        temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        for path, _, stream in self._open:
            try:
                stream.flush()
                os.fsync(stream.fileno())
                stream.close()
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            except OSError as error:
                raise cannot_write(path, error) from error
        for path, temporary, _ in self._open:
            try:
                os.replace(temporary, path)
            except OSError as error:
                raise cannot_write(path, error) from error

    def _mine(self, error: OSError) -> Path | None:
        """The file that an error of the block is about; a write knows no name, and so it is the last one."""
        for path, temporary, _ in self._open:
            if error.filename in (str(temporary), str(path), str(path.parent)):
                return path
        return self._open[-1][0] if error.filename is None and self._open else None


def cannot_write(path: Path, error: OSError) -> FewerError:
    """What to tell of a file that could not be written."""
    return FewerError(f"cannot write {path}: {error.strerror or error}; is the disk full or read-only?")


def remove_leftovers(folder: str | Path, names: Collection[str] | None = None) -> None:
    """Remove the temporary files that killed processes left in a folder and below; a lock must be held.

    names: of the files of this folder alone that they were to become; None: any.
    """
    pattern = f".*{TEMPORARY}[0-9]*"
    for path in Path(folder).rglob(pattern) if names is None else Path(folder).glob(pattern):
        match = re.fullmatch(rf"\.(.*){re.escape(TEMPORARY)}\d+", path.name)
        known = match is not None and (names is None or match[1] in names)
        if known and path.is_file() and not path.is_symlink():
            with contextlib.suppress(OSError):
                path.unlink()


def is_leftover(path: Path) -> bool:
    """Whether a name is that of a temporary file, or of a lock."""
    return path.name == LOCK or bool(re.fullmatch(rf"\..*{re.escape(TEMPORARY)}\d+", path.name))


def check_output(path: str | Path) -> None:
    """Make the folder of a file that is to be written later, and see that the file can be written there."""
    path = Path(path)
    if path.is_dir():
        raise FewerError(f"cannot write {path}: it is a folder; give the name of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except (FileExistsError, NotADirectoryError) as error:
        raise FewerError(f"cannot write {path}: {path.parent} is not a folder") from error
    except OSError as error:
        raise FewerError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def locked(folder: Path, wait: bool = True) -> Iterator[bool]:
    """Be the only process that works in `folder`; the lock goes when the process goes, however it ends.

    wait: for one that works there; else it yields False if there is one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        yield alone


def unwritable(error: OSError) -> str | None:
    """What to tell of a disk that is full or read-only; None if the error is another one."""
    if error.errno not in UNWRITABLE:
        return None
    what = error.filename or "a file"
    return f"cannot write {what}: {error.strerror}; make room or choose another folder, then start it again"


def write_json(path: str | Path, value: Any) -> None:
    """Write `value` as indented JSON, atomically."""
    with atomic_write(path) as stream:
        json.dump(value, stream, indent=1, ensure_ascii=False)
        stream.write("\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; say which file and line when it is missing or damaged."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(LARGEST_JSON + 1)
    except OSError as error:
        raise FewerError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > LARGEST_JSON:
        raise FewerError(f"{path} is larger than {LARGEST_JSON:,} bytes; is this the right file?")
    from pydantic_core import from_json

    try:
        return from_json(content)  # unlike the json module it limits nesting and refuses halves of characters
    except ValueError as error:
        raise FewerError(f"{path} is not valid JSON: {error}") from error


def read_json_object(path: str | Path) -> dict[str, Any]:
    """Read a JSON file that holds an object."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise FewerError(f"{path} should hold a JSON object, but holds a {type(value).__name__}")
    return value


def user_cache() -> Path:
    """A folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fewer"


def fingerprint(*parts: str | bytes | Path) -> str:
    """SHA-256 over strings, bytes and the contents of files, as 64 hex digits."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            with open(part, "rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
        else:
            digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()


def is_there(path: str | Path) -> bool:
    """Whether there is such a file or folder; a name that none can have is no error."""
    try:
        return Path(path).expanduser().exists()
    except OSError:
        return False
