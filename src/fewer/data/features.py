"""Acoustic features by their configuration, computed in torch on the fly; MFCC and log-mel by Kaldi and librosa."""

import math

import torch
from torch import Tensor, nn

from fewer.data.extractor import (
    SHIFT,
    WINDOW,
    FeatureExtractor,
    FeaturesConfig,
    GammatoneConfig,
    LogMelConfig,
    MfccConfig,
    PretrainedConfig,
    dct_matrix,
)
from fewer.data.gammatone import Gammatone
from fewer.data.pretrained import pretrained_features
from fewer.errors import FewerError


def feature_extractor(config: FeaturesConfig) -> FeatureExtractor:
    """The extractor that a configuration describes."""
    if isinstance(config, PretrainedConfig):
        return pretrained_features(config)
    if isinstance(config, GammatoneConfig):
        return Gammatone(config)
    if isinstance(config, MfccConfig) and config.style == "librosa":
        return LibrosaMfcc(config.dim, config.sampling_rate)
    return KaldiFeatures(config)


class KaldiFeatures(FeatureExtractor):
    """Kaldi's MFCC or log-mel filter bank as lhotse computes them, without dither."""

    def __init__(self, config: MfccConfig | LogMelConfig):
        from lhotse.features.kaldi.layers import Wav2LogFilterBank, Wav2MFCC

        super().__init__()
        self.dim, self.sampling_rate = config.dim, config.sampling_rate
        self.shift = int(SHIFT * config.sampling_rate)
        self.min_samples = int(WINDOW * config.sampling_rate)
        if isinstance(config, MfccConfig):
            self.layer = Wav2MFCC(config.sampling_rate, num_filters=config.dim, num_ceps=config.dim)
        else:
            self.layer = Wav2LogFilterBank(config.sampling_rate, num_filters=config.dim)

    def frames(self, num_samples: int) -> int:
        return (num_samples + self.shift // 2) // self.shift

    def extract(self, samples: Tensor) -> Tensor:
        return self.layer(samples[None])[0]


class LibrosaMfcc(FeatureExtractor):
    """librosa's MFCC with RMS energy in the place of coefficient 0, as the paper's LibriSpeech setup has them.

    Hann windows centred on multiples of the shift over zero-padded audio, 128 mel filters on Slaney's scale,
    decibels at most 80 below the utterance's loudest, orthonormal DCT.
    """

    window: Tensor
    filters: Tensor
    dct: Tensor
    num_filters = 128
    floor, range = 1e-10, 80.0  # of the power, and of the decibels

    def __init__(self, dim: int, sampling_rate: int):
        super().__init__()
        if dim > self.num_filters:
            raise FewerError(f"features.dim: librosa's recipe has {self.num_filters} mel filters, found dim {dim}")
        self.dim, self.sampling_rate = dim, sampling_rate
        self.length, self.shift = int(WINDOW * sampling_rate), int(SHIFT * sampling_rate)
        self.min_samples = self.length
        self.register_buffer("window", torch.hann_window(self.length, dtype=torch.float64).float())
        filters = slaney_mel_filters(self.num_filters, self.length, sampling_rate)
        self.register_buffer("filters", filters.float())  # (bins, filters)
        self.register_buffer("dct", dct_matrix(self.num_filters, dim).float())  # (filters, dim)

    def frames(self, num_samples: int) -> int:
        return 1 + num_samples // self.shift

    def extract(self, samples: Tensor) -> Tensor:
        half = self.length // 2
        windows = nn.functional.pad(samples, (half, half)).unfold(0, self.length, self.shift)  # (T', length)
        power = torch.fft.rfft(windows * self.window).abs().square() @ self.filters  # (T', filters)
        decibels = 10 * power.clamp(min=self.floor).log10()
        decibels = decibels.maximum(decibels.max() - self.range)
        cepstra = decibels @ self.dct
        cepstra[:, 0] = windows.square().mean(1).sqrt()
        return cepstra


def slaney_mel_filters(num_filters: int, fft_length: int, sampling_rate: int, highest: float | None = None) -> Tensor:
    """Triangles of equal area on Slaney's mel scale: linear below 1 kHz, logarithmic above. (bins, filters) float64

    highest: Hz where the last one ends; None: half of the sampling rate.
    """
    linear, step = 200 / 3, math.log(6.4) / 27  # Hz for each mel below 1 kHz; log-frequency for each mel above
    top = 15 + math.log((sampling_rate / 2 if highest is None else highest) / 1000) / step
    mels = torch.linspace(0, top, num_filters + 2, dtype=torch.float64)
    edges = torch.where(mels < 15, linear * mels, 1000 * torch.exp(step * (mels - 15)))  # Hz
    bins = torch.linspace(0, sampling_rate / 2, fft_length // 2 + 1, dtype=torch.float64)[:, None]
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    triangles = torch.minimum((bins - low) / (centre - low), (high - bins) / (high - centre)).clamp(min=0)
    return triangles * 2 / (high - low)
