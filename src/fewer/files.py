"""Writing files so that they are complete or absent, and naming them by content."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from fewer.errors import FewerError

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


@contextlib.contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path` that takes its name only if the block ends without an error."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, mode, encoding=None if "b" in mode else "utf-8") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename not in (str(temporary), str(path), str(path.parent), None):
            raise
        raise FewerError(f"cannot write {path}: {error.strerror or error}; is the disk full or read-only?") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


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
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except OSError as error:
        raise FewerError(f"cannot read {path}: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FewerError(f"{path} is not valid JSON: {error}") from error


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
