"""What Whisper hears: log-mel frames of an utterance."""

import math
from typing import Any

from torch import Tensor
from torch.nn import functional

from fewer.data.audio import load_audio, where
from fewer.errors import FewerError
from fewer.progress import warn

TOO_LONG = 10  # seconds over 30 that are cut off with a message; more is an error


class LogMel:
    """Whisper's features of utterances, without the padding to 30 s; a `Features` of `fewer.data.batches`."""

    def __init__(self, extractor: Any):
        """extractor: a WhisperFeatureExtractor."""
        self.extractor = extractor
        self.sampling_rate: int = extractor.sampling_rate
        self.dim: int = extractor.feature_size
        self.hop: int = extractor.hop_length
        self.frame_shift = self.hop / self.sampling_rate
        self.max_samples: int = extractor.n_samples
        self.max_frames: int = extractor.nb_max_frames

    def read(self, cut: Any, speed: float = 1.0) -> Tensor:
        """Of an utterance that is a little too long, the first 30 s. (T, F) float32"""
        samples = load_audio(cut, self.sampling_rate, speed)
        if self.max_samples < len(samples) <= self.max_samples + TOO_LONG * self.sampling_rate:
            limit = self.max_samples / self.sampling_rate
            warn(f"{where(cut)} lasts {cut.duration:.1f} s; Whisper hears its first {limit:.0f} s only")
            samples = samples[: self.max_samples]
        try:
            return self(samples)
        except FewerError as error:
            raise FewerError(f"{where(cut)}: {error}") from error

    def __call__(self, samples: Tensor) -> Tensor:
        """All frames that touch the utterance: what the padded 30 s would give of them. (samples,) -> (T, F)"""
        if samples.ndim != 1 or not len(samples):
            raise FewerError(f"expected the samples of one channel, found an array of shape {tuple(samples.shape)}")
        if len(samples) > self.max_samples:
            raise FewerError(
                f"the audio lasts {len(samples) / self.sampling_rate:.1f} s, but Whisper hears at most "
                f"{self.max_samples / self.sampling_rate:.0f} s at once; cut it into shorter segments"
            )
        half = self.extractor.n_fft // 2
        frames = min(math.ceil((len(samples) + half) / self.hop), self.max_frames)
        padded = functional.pad(samples, (0, min(4 * half, self.max_samples - len(samples))))
        mel = self.extractor(padded.numpy(), sampling_rate=self.sampling_rate, padding="longest", return_tensors="pt")
        return mel["input_features"][0, :, :frames].T.contiguous()
