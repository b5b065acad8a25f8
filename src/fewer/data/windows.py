"""Long recordings as windows that a recogniser can hear, cut where it is quietest."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

HOP = 0.01  # seconds of one energy frame
PAUSE = 0.3  # seconds over which energy is averaged: longer than a stop consonant's closure
SILENT = 1e-4  # amplitude below which there is nothing to hear: three steps of 16 bits
RANGE = 1e-4  # of the loudest frame's energy (−40 dB) is to be heard


@dataclass(frozen=True)
class Window:
    """A stretch of a recording."""

    start: int  # its first sample
    samples: Tensor  # (T,)

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


def loud_span(samples: Tensor, rate: int) -> tuple[int, int]:
    """The samples from which and to which something is to be heard. (T,)"""
    hop = round(HOP * rate)
    energy = energies(samples, hop)
    loud = (energy > RANGE * energy.max()).nonzero().flatten() if len(energy) else energy
    if not len(loud):
        return 0, len(samples)
    last = int(loud[-1]) + 1
    return int(loud[0]) * hop, len(samples) if last == len(energy) else last * hop


def halves(window: Window, rate: int) -> tuple[Window, Window]:
    """Two windows, cut at the quietest place of the middle third."""
    third = len(window.samples) // 3
    cut = third + quietest(window.samples[third : 2 * third], rate)
    return Window(window.start, window.samples[:cut]), Window(window.start + cut, window.samples[cut:])
