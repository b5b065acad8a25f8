"""Gammatone features (Schlüter et al., "Gammatone features and feature combination for LVCSR", ICASSP 2007)."""

import math

import torch
from torch import Tensor, nn

from fewer.data.extractor import SHIFT, WINDOW, FeatureExtractor, GammatoneConfig, dct_matrix
from fewer.errors import FewerError

ORDER = 4  # resonators in one filter
MEMORY = 0.1  # seconds after which an impulse response has died away (1e-6 of its peak at 100 Hz)
BLOCK = 0.5  # seconds of audio in one Fourier transform, at least; small enough for the processor's cache
SAMPLE_SCALE = 32768 * 0.00035  # 16-bit samples and RASR's scale before the root
DEVIATION = 3.0  # of each utterance; RASR's Switchboard features have it


class Gammatone(FeatureExtractor):
    """Filter bank, rectification, integration over 25 ms Hann windows every 10 ms, tenth root, DCT.

    A filter is a cascade of four resonators with impulse response r^n·cos(θn) and gain 1 at its centre frequency.
    It is applied as a product of spectra, block by block, each block with the memory that it needs before it.
    """

    response: Tensor
    window: Tensor
    dct: Tensor

    def __init__(self, config: GammatoneConfig):
        super().__init__()
        self.config = config
        self.dim, self.sampling_rate = config.dim, config.sampling_rate
        self.length, self.shift = round(WINDOW * config.sampling_rate), round(SHIFT * config.sampling_rate)
        self.min_samples = self.length
        self.memory = round(MEMORY * config.sampling_rate)
        self.fft_length = 2 ** math.ceil(math.log2(BLOCK * config.sampling_rate))
        self.block_frames = (self.fft_length - self.memory - self.length) // self.shift + 1
        centres = self.centre_frequencies()  # (F,)
        response = resonator(centres, config.sampling_rate, self.fft_length) ** ORDER  # (F, bins)
        self.register_buffer("response", response.to(torch.complex64))
        self.register_buffer("window", torch.hann_window(self.length, periodic=False, dtype=torch.float64).float())
        self.register_buffer("dct", dct_matrix(config.dim, config.dim).float())

    def centre_frequencies(self) -> Tensor:
        """Evenly spaced along the cochlea, by Greenwood's function for humans. (F,) float64, Hz"""
        low = self.config.min_frequency
        high = self.config.max_frequency or min(7500.0, 0.475 * self.sampling_rate)
        if not low < high < self.sampling_rate / 2:
            raise FewerError(
                f"features: gammatone filters from {low:g} to {high:g} Hz do not fit audio at {self.sampling_rate} Hz"
            )
        first, last = (math.log10(frequency / 165.4 + 0.88) / 2.1 for frequency in (low, high))
        places = torch.linspace(first, last, self.dim, dtype=torch.float64)
        return 165.4 * (10 ** (2.1 * places) - 0.88)

    def frames(self, num_samples: int) -> int:
        return 1 + math.ceil(max(num_samples - self.length, 0) / self.shift)

    def extract(self, samples: Tensor) -> Tensor:
        emphasised = SAMPLE_SCALE * torch.diff(samples, prepend=samples.new_zeros(1))
        frames = self.frames(len(samples))
        blocks = math.ceil(frames / self.block_frames)
        stride = self.block_frames * self.shift
        end = (blocks - 1) * stride + self.fft_length - self.memory
        padded = nn.functional.pad(emphasised, (self.memory, max(end - len(samples), 0)))
        windows = padded.unfold(0, self.fft_length, stride)[:blocks]  # (blocks, fft_length)
        energies = torch.cat([self.integrate(block) for block in windows])[:frames]
        compressed = energies**0.1
        features = compressed @ self.dct if self.config.dct else compressed
        if not self.config.per_utterance:
            return features
        deviation = features.std(0, correction=0).clamp(min=1e-5)
        return DEVIATION * (features - features.mean(0)) / deviation

    def integrate(self, block: Tensor) -> Tensor:
        """Filter, rectify and average. (fft_length,) -> (block_frames, F)"""
        spectra = torch.fft.rfft(block) * self.response  # (F, bins)
        filtered = torch.fft.irfft(spectra, self.fft_length)[:, self.memory :].abs()
        windows = filtered.unfold(1, self.length, self.shift)  # (F, block_frames, length)
        return (windows @ self.window).T


def resonator(centres: Tensor, sampling_rate: int, fft_length: int) -> Tensor:
    """Spectrum of r^n·cos(θn) with gain 1 at θ; r from the equivalent rectangular bandwidth. (F, bins) complex128"""
    angle = 2 * math.pi * centres[:, None] / sampling_rate
    bandwidth = 24.7 * (4.37 * centres[:, None] / 1000 + 1)  # Hz
    radius = torch.exp(-2 * math.pi * bandwidth / sampling_rate)

    def transfer(frequency: Tensor) -> Tensor:
        delay = torch.exp(-1j * frequency)
        rise = radius * torch.cos(angle)
        return (1 - rise * delay) / (1 - 2 * rise * delay + (radius * delay) ** 2)

    bins = 2 * math.pi * torch.arange(fft_length // 2 + 1, dtype=torch.float64) / fft_length
    return transfer(bins) / transfer(angle).abs()
