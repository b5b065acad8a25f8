"""A kind of files that are fuzzed, and where right ones are made."""

import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Kind:
    """Files of one kind. Folders are copied whole, and one of their files is mutated."""

    name: str
    make: Callable[[], Path]  # a file, or a folder
    use: Callable[[Path], Any]  # reads it as the commands do
    pattern: str = "*"  # of the files in a folder that are mutated
    share: float = 1.0  # of all inputs

    def prepare(self, place: Path) -> None:
        """What all inputs share is made once, before processes are forked; the right file is read without an error."""
        self.copy(place, random.Random(0))
        self.use(place)

    def copy(self, place: Path, rng: random.Random) -> Path:
        """A fresh copy at `place`; returns the file that is to be mutated."""
        source = self.make()
        if source.is_file():
            place.mkdir()
            return Path(shutil.copyfile(source, place / source.name))
        shutil.copytree(source, place)
        return rng.choice(sorted(path for path in place.rglob(self.pattern) if path.is_file()))

    def clear(self, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)


def only(place: Path) -> Path:
    """The one file of a folder."""
    return next(path for path in sorted(place.iterdir()) if not path.name.startswith("."))


@cache
def room() -> Path:
    """A folder for right files; it goes when the process ends."""
    keep = tempfile.TemporaryDirectory(prefix="fewer-fuzz-")
    _kept.append(keep)
    return Path(keep.name)


_kept: list[Any] = []
