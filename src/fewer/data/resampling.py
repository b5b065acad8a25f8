"""Band-limited interpolation between any two sampling rates, in bounded memory.

lhotse's resampler keeps one filter for each of the target / gcd phases. For 44,100 to 16,000 Hz these are 160; for
44,101 to 16,000 Hz they are 16,000, of 44,000 weights each. Where the table would be so large, filters are
interpolated from a smaller one; the results agree within 3e-5, because lhotse computes its times in single precision.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import torch
from torch import Tensor

WIDTH = 32  # zero crossings on either side: within 0.2 % up to 90 % of the lower Nyquist frequency
ROLLOFF = 0.99  # lhotse's: the filter's edge, relative to that frequency
LARGEST_TABLE = 1 << 23  # weights
BLOCK = 1 << 18  # weights that are used at once
STEPS = 4096  # filters from one source sample to the next; between two of them, weights are off by 1e-7 at most


def resample(samples: Tensor, source_rate: int | Fraction, target_rate: int) -> Tensor:
    """Sample k of the result lies at the source's time k / target_rate. (T,) -> (T',)"""
    ratio = Fraction(source_rate) / target_rate
    if ratio == 1:
        return samples
    length = len(samples) * ratio.denominator // ratio.numerator
    if not is_ordinary(ratio):
        return _interpolated(samples, ratio, length)
    return _resampler(ratio.numerator, ratio.denominator)(samples)[:length]


def is_ordinary(ratio: Fraction) -> bool:
    """Whether a table of all filters is small. ratio: source rate / target rate"""
    source, target = ratio.numerator, ratio.denominator
    return target * (2 * math.ceil(WIDTH * max(1, source / target) / ROLLOFF) + source) <= LARGEST_TABLE


@lru_cache(maxsize=16)
def _resampler(source: int, target: int) -> Callable[[Tensor], Tensor]:
    from lhotse.augmentation.resample import Resample

    return Resample(source, target, lowpass_filter_width=WIDTH, rolloff=ROLLOFF)


def _interpolated(samples: Tensor, ratio: Fraction, length: int) -> Tensor:
    """As lhotse's resampler, but with filters between two of a table (Smith and Gossett 1984). (T,) -> (length,)"""
    table, reach = _table(ratio)
    steps, taps = len(table) - 1, table.shape[1]
    windows = torch.nn.functional.pad(samples, (reach, reach + 1)).unfold(0, taps, 1)  # (T, taps)
    block = max(1, BLOCK // taps)
    parts = []
    for first in range(0, length, block):
        places = torch.arange(first, min(first + block, length)) * ratio.numerator  # exact: time · denominator
        before = places // ratio.denominator
        phases = (places % ratio.denominator).double() * (steps / ratio.denominator)
        lower = phases.long()
        weights = torch.lerp(table[lower], table[lower + 1], (phases - lower).float()[:, None])
        parts.append(torch.linalg.vecdot(weights, windows[before]))
    return torch.cat(parts) if parts else samples[:0]


@lru_cache(maxsize=4)
def _table(ratio: Fraction) -> tuple[Tensor, int]:
    """Weights b · sinc(b (i − t)) · window of the source samples i around a time t between 0 and 1, and how many on
    either side. (steps + 1, taps)"""
    band = min(1.0, float(1 / ratio)) * ROLLOFF  # b: of the source's Nyquist frequency
    reach = math.ceil(WIDTH / band)
    steps = min(STEPS, LARGEST_TABLE // (2 * reach + 2))
    times = torch.linspace(0, 1, steps + 1, dtype=torch.double)
    rows = []
    for some in times.split(256):
        distance = ((torch.arange(-reach, reach + 2) - some[:, None]) * band).clamp_(-WIDTH, WIDTH)
        rows.append((torch.sinc(distance) * torch.cos(distance * (math.pi / WIDTH / 2)).square() * band).float())
    return torch.cat(rows), reach
