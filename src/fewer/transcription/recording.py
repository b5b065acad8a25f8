"""Recordings: files, files that go by another name, and samples; several of them in groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from fewer.data.stream import ArrayStream, AudioStream
from fewer.errors import FewerError

TOGETHER = 600  # seconds of short recordings that make a group


@dataclass(frozen=True)
class Samples:
    """A recording that is not in a file."""

    samples: Tensor  # one channel in [-1, 1]. (T,)
    rate: int
    name: str = "audio"


@dataclass(frozen=True)
class File:
    """A recording in a file that goes by another name."""

    path: Path
    name: str  # in messages and in the transcript


Recording = str | Path | File | Samples


class Group(NamedTuple):
    """Consecutive recordings whose windows may be searched together."""

    first: int
    last: int  # exclusive
    seconds: int


def grouped(recordings: Sequence[Recording]) -> list[Group]:
    """All recordings; what becomes of a group does not depend on who does the others."""
    groups: list[Group] = []
    first, seconds = 0, 0
    for number, recording in enumerate(recordings):
        seconds += _seconds(recording)
        if seconds >= TOGETHER or number + 1 == len(recordings):
            groups.append(Group(first, number + 1, seconds))
            first, seconds = number + 1, 0
    return groups


def name_of(recording: Recording) -> str:
    return recording.name if isinstance(recording, File | Samples) else str(recording)


def opened(recording: Recording, rate: int) -> AudioStream | ArrayStream:
    if isinstance(recording, Samples):
        return ArrayStream(recording.samples, recording.rate, rate)
    if isinstance(recording, File):
        return AudioStream(recording.path, rate, recording.name)
    return AudioStream(recording, rate)


def _seconds(recording: Recording) -> int:
    """Of a file, as its header says; 0 if it cannot be read."""
    try:
        return round(opened(recording, 1).duration)
    except FewerError:
        return 0
