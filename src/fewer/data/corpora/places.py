"""Finding a corpus's folders and files, and reading its text files line by line."""

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fewer.data.lines import read_lines
from fewer.errors import FewerError

AUDIO_SUFFIXES = (".wav", ".flac", ".sph")  # a file converted to .wav or .flac comes before the .sph beside it


def find_root(folder: Path, is_root: Callable[[Path], bool], expected: str) -> Path:
    """The corpus's top folder: `folder` or one directly in it."""
    for candidate in (folder, *subfolders(folder)):
        if is_root(candidate):
            return candidate
    raise FewerError(f"{folder} does not look like the corpus: expected {expected}, there or one folder down")


def subfolders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir())


def find_files(folder: Path, pattern: str) -> list[Path]:
    """All files under `folder` whose name matches the regular expression, case ignored."""
    matches = re.compile(pattern, re.IGNORECASE).fullmatch
    return [path for path in walk(folder) if matches(path.name)]


def walk(folder: Path) -> Iterator[Path]:
    """All files under `folder`, through symbolic links too, sorted folder by folder."""
    seen: set[str] = set()  # real folders, because links may lead in circles
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if os.path.realpath(os.path.join(place, name)) not in seen)
        seen.update(os.path.realpath(os.path.join(place, name)) for name in folders)
        yield from (Path(place, name) for name in sorted(files))


def find_one(folder: Path, pattern: str, what: str, hint: str) -> Path:
    """The only file under `folder` whose name matches; an error that says what to do if it is missing."""
    found = find_files(folder, pattern)
    if not found:
        raise FewerError(f"there is no {what} under {folder}; {hint}")
    if len(found) > 1:
        raise FewerError(f"{folder} holds more than one {what}: {', '.join(str(path) for path in found)}")
    return found[0]


def first_file(name: str, folders: Iterable[Path]) -> Path | None:
    """A file by its path, absolute or relative to the first of the folders that has it."""
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def index_audio(folder: Path) -> dict[str, Path]:
    """Recording name -> audio file, for all audio under `folder`."""
    index: dict[str, Path] = {}
    for path in walk(folder):
        if path.suffix.lower() not in AUDIO_SUFFIXES:
            continue
        other = index.get(path.stem)
        if other is None or _rank(path) < _rank(other):
            index[path.stem] = path
        elif _rank(path) == _rank(other):
            raise FewerError(f"recording {path.stem} is there twice: {other} and {path}")
    return index


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Place (file and line number, for messages) and text of each line that is not blank."""
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield f"{path}, line {number}", line


def seconds(text: str) -> float:
    """A time; ValueError if it is none."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a time")
    return value


def _rank(path: Path) -> int:
    return AUDIO_SUFFIXES.index(path.suffix.lower())
