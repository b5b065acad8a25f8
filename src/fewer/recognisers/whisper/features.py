"""What Whisper hears: log-mel frames of an utterance."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fewer.data.audio import where
from fewer.data.features import slaney_mel_filters
from fewer.data.whisper_checks import Preprocessor
from fewer.errors import FewerError
from fewer.recognisers.transformers.features import check_audio, read_audio

HIGHEST = 8000.0  # Hz that a filter hears
FLOOR, RANGE = 1e-10, 8.0  # of the power, and of its logarithm to base 10


class LogMel:
    """Whisper's features of utterances, without the padding to 30 s; a `Features` of `fewer.data.batches`."""

    def __init__(self, options: Preprocessor):
        self.sampling_rate, self.dim = options.sampling_rate, options.feature_size
        self.hop, self.window = options.hop_length, torch.hann_window(options.n_fft)
        self.filters = slaney_mel_filters(self.dim, options.n_fft, self.sampling_rate, HIGHEST).float().T  # (F, bins)
        self.frame_shift = self.hop / self.sampling_rate
        self.max_samples = options.chunk_length * self.sampling_rate
        self.max_frames = self.max_samples // self.hop

    def read(self, cut: Any, speed: float = 1.0) -> Tensor:
        """Of an utterance that is a little too long, the first 30 s. (T, F) float32"""
        samples = read_audio(cut, self.sampling_rate, self.max_samples, speed)
        try:
            return self(samples)
        except FewerError as error:
            raise FewerError(f"{where(cut)}: {error}") from error

    def __call__(self, samples: Tensor) -> Tensor:
        """All frames that touch the utterance: what the padded 30 s would give of them. (samples,) -> (T, F)"""
        check_audio(samples, self.sampling_rate, self.max_samples)
        half = len(self.window) // 2
        frames = min(math.ceil((len(samples) + half) / self.hop), self.max_frames)
        padded = functional.pad(samples, (0, min(4 * half, self.max_samples - len(samples))))
        spectrum = torch.stft(padded, len(self.window), self.hop, window=self.window, return_complex=True)
        mel = (self.filters @ spectrum[:, :-1].abs().square()).clamp_min(FLOOR).log10()  # (F, T)
        mel = (mel.maximum(mel.max() - RANGE) + 4) / 4
        return mel[:, :frames].T.contiguous()
