"""Audio of any length in blocks: one channel, at the wanted rate; of a file, never the whole of it in memory."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from fewer.data.audio import TOLERANCE, rate_problem, sample_problem
from fewer.data.limits import LARGEST_SECOND
from fewer.data.media import UNREADABLE, MediaFile, NoSound, open_audio, why_unreadable
from fewer.data.resampling import resample
from fewer.errors import FewerError
from fewer.progress import warn

BLOCK = 1.0  # seconds that are read at once: what a damaged file may lose before the damage
MARGIN = 64  # periods of the lower rate that a resampled block needs on either side, and more
CANCELLED = 0.01  # share of the channels' power in their mean below which they cancel each other out
FORMATS = "WAV, FLAC, MP3, OGG, M4A, AAC, WMA, MP4, WebM and other audio and video files can be read; is it complete?"


class Forward(soundfile.SoundFile):
    """A file that is read from its beginning to its end.

    soundfile seeks after each read of others, of which the MP3 decoder complains on standard error.
    """

    def seekable(self) -> bool:
        return False


class AudioStream:
    """A file's samples, its channels mixed down, at `rate`: iterate over it for one block after the other."""

    def __init__(self, path: str | Path, rate: int, name: str | None = None):
        """name: what messages call it; None: its path."""
        self.path, self.rate, self.name = Path(path), rate, str(path) if name is None else name
        try:
            with open_audio(self.path, Forward) as about:
                self.frames, self.source_rate, channels = about.frames, about.samplerate, about.channels
                seconds = about.duration if isinstance(about, MediaFile) else about.frames / about.samplerate
        except (*UNREADABLE, OSError, TypeError) as error:
            raise FewerError(f"{self.name}: {self._reason(error)}") from error
        if self.frames == 0:
            raise FewerError(f"{self.name}: the file holds no audio")
        if problem := rate_problem(self.source_rate):
            raise FewerError(f"{self.name}: {problem}; is the file damaged?")
        if self.source_rate * channels > LARGEST_SECOND:
            size = f"{channels} channels at {self.source_rate} Hz"
            raise FewerError(f"{self.name}: {size} are too many; convert the file")
        self.duration = seconds or 0.0  # by the file's header; 0 if that does not say

    def __iter__(self) -> Iterator[Tensor]:
        """(T,) float32 each"""
        return at_rate(self._read, self.source_rate, self.rate)

    def _read(self, size: int) -> Iterator[Tensor]:
        """Blocks as they are in the file. (size,)"""
        done, power, mixed_power = 0, 0.0, 0.0
        try:
            with open_audio(self.path, Forward) as stream:
                while len(block := stream.read(size, dtype="float32", always_2d=True)):
                    if problem := sample_problem(block):
                        raise FewerError(f"{self.name}: {problem}")
                    done += len(block)
                    mixed = block.mean(axis=1)
                    if block.shape[1] > 1:
                        power += float(np.square(block, dtype=np.float64).sum()) / block.shape[1]
                        mixed_power += float(np.square(mixed, dtype=np.float64).sum())
                    yield torch.from_numpy(mixed)
        except (*UNREADABLE, OSError) as error:
            raise FewerError(f"{self.name}: {self._reason(error, done / self.source_rate)}") from error
        if mixed_power < CANCELLED * power:
            warn(f"{self.name}: the channels cancel each other out when they are mixed; transcribe one of them alone")
        if (self.frames or 0) - done > TOLERANCE * self.source_rate:
            ends = f"the file ends after {done / self.source_rate:.1f} of {self.duration:.1f} s"
            raise FewerError(f"{self.name}: {ends}; is it complete?")

    def _reason(self, error: Exception, after: float = 0.0) -> str:
        """after: seconds that could be read."""
        if not self.path.exists():
            return "there is no such file"
        if not self.path.is_file():
            return "this is not a file"
        if not self.path.stat().st_size:
            return "the file is empty"
        if isinstance(error, NoSound):
            return str(error)
        if after:
            return f"cannot read the audio after {after:.1f} s: {why_unreadable(error)}; is the file complete?"
        return f"cannot read the audio: {why_unreadable(error)}. {FORMATS}"


class ArrayStream:
    """Samples that are there already, as an `AudioStream` of them."""

    def __init__(self, samples: Tensor, source_rate: int, rate: int):
        """samples: one channel in [-1, 1]. (T,) float32"""
        self.samples, self.source_rate, self.rate = samples, source_rate, rate
        self.duration = len(samples) / source_rate

    def __iter__(self) -> Iterator[Tensor]:
        return at_rate(lambda size: iter(self.samples.split(size)), self.source_rate, self.rate)


def at_rate(read: Callable[[int], Iterator[Tensor]], source_rate: int, rate: int) -> Iterator[Tensor]:
    """Blocks at another rate. read: gives blocks of so many samples. (T,) each"""
    ratio = Fraction(source_rate, rate)
    if ratio == 1:
        yield from read(round(BLOCK * rate))
        return
    unit = ratio.numerator  # samples that become a whole number of samples
    size = unit * max(1, round(BLOCK * source_rate / unit))
    margin = unit * math.ceil(MARGIN * max(1.0, float(ratio)) / unit)
    skipped = int(margin / ratio)
    held = torch.zeros(margin)  # the last block's end, and this one
    for block in read(size):
        held = torch.cat([held, block])
        whole = (len(held) - 2 * margin) // unit * unit  # all of this has its margin
        if whole > 0:
            yield resample(held[: whole + 2 * margin], source_rate, rate)[skipped:][: int(whole / ratio)]
            held = held[whole:]
    left = int((len(held) - margin) / ratio)
    yield resample(torch.cat([held, torch.zeros(margin)]), source_rate, rate)[skipped:][:left]
