"""Copies of audio on this machine's disk: of what is fetched from elsewhere, and of what can only be read in one go.

All processes of a machine share them. Together they take a limited amount of disk: those that were not used for the
longest time go first.
"""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import soundfile

from fewer.config import shortened, shown
from fewer.data.media import MediaFile
from fewer.errors import FewerError
from fewer.files import TEMPORARY, fingerprint, locked, user_cache

ROOM = int(os.environ.get("FEWER_AUDIO_CACHE", 50 << 30))  # bytes that all copies may take
REMOTE = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}(?=[^/])")  # pathlib makes one slash of two
BLOCK = 1 << 18  # samples of each channel that are decoded at once


def is_remote(name: str | Path) -> bool:
    """Whether this names a place that fsspec reads: s3://…, gs://…, https://…"""
    return REMOTE.match(str(name)) is not None


def fetched(name: str | Path) -> Path:
    """A local copy of a remote file, or of all files in a remote folder; one that has changed is fetched anew."""
    url = REMOTE.sub(r"\1://", str(name), count=1)
    if not url.isprintable():
        raise FewerError(f"{shown(url)} is not the address of a file: it has characters that none has")
    system, place = _file_system(url)
    try:
        about = system.info(place)
        folder = about["type"] == "directory"
        files = sorted(system.find(place)) if folder else [place]
        names = [file[len(place) :].lstrip("/") for file in files]  # in the folder; of a file, empty
        marks = [fingerprint(url, *(_marks(system.info(file)) for file in files))]
    except FileNotFoundError as error:
        raise FewerError(f"there is no {url}") from error
    except Exception as error:  # every store has its own
        raise FewerError(f"cannot read {url}: {_why(error)}") from error
    if outside := [name for name in names if ".." in name.split("/")]:
        raise FewerError(f"{url} lists {shown(outside[0])}, which is not in it; nothing was fetched")

    def fetch(target: Path) -> None:
        try:
            for file, inside in zip(files, names, strict=True):
                local = target / inside
                local.parent.mkdir(parents=True, exist_ok=True)
                system.get_file(file, str(local))
        except Exception as error:
            raise FewerError(f"cannot fetch {url}: {_why(error)}") from error

    called = url.rstrip("/").rpartition("/")[2]
    return _kept(marks[0], "copy" if called in ("", ".", "..") else called, fetch)


def decoded(path: str) -> Path:
    """A copy of a file that PyAV reads, whose samples can be read from any place on."""
    about = os.stat(path)

    def decode(target: Path) -> None:
        with (
            MediaFile(path) as source,
            soundfile.SoundFile(target, "w", source.samplerate, source.channels, "FLOAT", format="RF64") as copy,
        ):
            while len(block := source.read(BLOCK)):
                copy.write(block)

    marks = fingerprint(os.path.realpath(path), str(about.st_size), str(about.st_mtime_ns))
    return _kept(marks, "samples.wav", decode)


def _file_system(url: str) -> tuple[Any, str]:
    import fsspec

    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(url)
        return found
    except ImportError as error:  # it says which package is missing
        raise FewerError(f"{url}: {error}") from error
    except Exception as error:  # every store has its own
        raise FewerError(f"{url}: {_why(error)}; fsspec does not know such places") from error


def _why(error: Exception) -> str:
    return shortened(" ".join((str(error) or repr(error)).split()), 300)


def _marks(about: dict[str, Any]) -> str:
    """What changes when a file does."""
    known = ("ETag", "etag", "md5Hash", "mtime", "LastModified", "created", "size")
    return repr([str(about[name]) for name in known if name in about])


def _kept(marks: str, name: str, make: Callable[[Path], None]) -> Path:
    """The copy of these marks under its own name, made if it is not there; complete or absent."""
    copies = user_cache() / "audio"
    folder = copies / marks[:32]
    target = folder / name
    if not target.exists():
        try:
            with locked(copies / "locks" / marks[:2]):
                if not target.exists():
                    temporary = copies / f".{marks[:32]}{TEMPORARY}{os.getpid()}"
                    temporary.mkdir(parents=True, exist_ok=True)
                    try:
                        make(temporary / name)
                        shutil.rmtree(folder, ignore_errors=True)
                        temporary.rename(folder)
                    finally:
                        shutil.rmtree(temporary, ignore_errors=True)
                    _make_room(copies, folder)
        except OSError as error:
            raise FewerError(f"cannot write {target}: {error.strerror or error}; is the disk full?") from error
    with suppress(OSError):
        os.utime(folder)
    return target


def _make_room(copies: Path, newest: Path) -> None:
    """Remove what was not used for the longest time, but never what was just made."""
    used = sorted((one.stat().st_mtime, one) for one in copies.iterdir() if re.fullmatch("[0-9a-f]{32}", one.name))
    sizes = {one: sum(file.stat().st_size for file in one.rglob("*") if file.is_file()) for _, one in used}
    total = sum(sizes.values())
    for _, one in used:
        if total > ROOM and one != newest:
            shutil.rmtree(one, ignore_errors=True)
            total -= sizes[one]
