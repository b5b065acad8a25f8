"""Long recordings as windows that a recogniser can hear, cut where it is quietest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

HOP = 0.01  # seconds of one energy frame
PAUSE = 0.3  # seconds of a pause at least: longer than a stop consonant's closure
SILENT = 1e-4  # amplitude below which there is nothing to hear: three steps of 16 bits
RANGE = 1e-4  # of the loudest frame's energy (−40 dB) is to be heard, …
QUIET, ABOVE = 0.1, 4.0  # … unless it is steady noise: no more (6 dB) than the quietest tenth of the frames, …
LOUD = 3e-3  # … but so much (−25 dB) of the loudest frame's energy always is


@dataclass(frozen=True)
class Window:
    """A stretch of a recording."""

    start: int  # its first sample
    samples: Tensor  # (T,)
    language: str | None = None  # what is spoken, if that was detected

    @property
    def end(self) -> int:
        return self.start + len(self.samples)


def cut_windows(blocks: Iterable[Tensor], rate: int, longest: float, search: float) -> Iterator[Window]:
    """Consecutive windows of at most `longest` seconds. Each ends at the quietest place of its last `search` seconds.

    No more than one window and one block are held at a time. blocks: (T,) each, at `rate`.
    """
    most, least = int(longest * rate), int((longest - search) * rate)
    held, start = torch.zeros(0), 0
    for block in blocks:
        held = torch.cat([held, block])
        while len(held) > most:
            cut = least + quietest(held[least:most], rate)
            yield Window(start, held[:cut])
            held, start = held[cut:], start + cut
    if len(held):
        yield Window(start, held)


def quietest(samples: Tensor, rate: int) -> int:
    """The middle of the quietest pause; of equally quiet ones the last. (T,)"""
    hop, width = round(HOP * rate), round(PAUSE / HOP)
    energy = energies(samples, hop)
    if len(energy) < width:
        return len(samples)
    smoothed = functional.avg_pool1d(energy[None], width, 1)[0]
    return (int((smoothed == smoothed.min()).nonzero().max()) + width // 2) * hop


def energies(samples: Tensor, hop: int) -> Tensor:
    """Mean square of each whole `hop` samples. (T,) -> (T // hop,)"""
    return samples[: len(samples) // hop * hop].view(-1, hop).square().mean(1)


def is_silent(samples: Tensor) -> bool:
    """Whether there is nothing but zeros and the last bits of a converter. (T,)"""
    return not len(samples) or float(samples.abs().max()) < SILENT


def sounds(samples: Tensor, rate: int) -> list[tuple[int, int]]:
    """From which to which sample something is to be heard, parted by pauses; all if nothing stands out. (T,)"""
    hop, pause = round(HOP * rate), round(PAUSE / HOP)
    energy = energies(samples, hop)
    loud = (energy > _threshold(energy)).nonzero().flatten() if len(energy) else energy
    if not len(loud):
        return [(0, len(samples))]
    parts = loud.tensor_split((loud.diff() > pause).nonzero().flatten() + 1)
    spans = [(int(part[0]) * hop, (int(part[-1]) + 1) * hop) for part in parts]
    if int(loud[-1]) + 1 == len(energy):
        spans[-1] = (spans[-1][0], len(samples))
    return spans


def _threshold(energy: Tensor) -> float:
    """The energy above which a frame is to be heard. (n,)"""
    loudest, noise = float(energy.max()), ABOVE * float(energy.quantile(QUIET))
    return max(RANGE * loudest, min(noise, LOUD * loudest))


def halves(window: Window, rate: int) -> tuple[Window, Window]:
    """Two windows, cut at the quietest place of the middle third."""
    third = len(window.samples) // 3
    cut = third + quietest(window.samples[third : 2 * third], rate)
    first, second = window.samples[:cut], window.samples[cut:]
    return Window(window.start, first, window.language), Window(window.start + cut, second, window.language)
