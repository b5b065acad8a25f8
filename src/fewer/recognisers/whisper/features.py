"""What Whisper hears: log-mel frames of an utterance."""

import math
from typing import Any

from torch import Tensor
from torch.nn import functional

from fewer.data.audio import where
from fewer.errors import FewerError
from fewer.recognisers.transformers.features import check_audio, read_audio


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
        samples = read_audio(cut, self.sampling_rate, self.max_samples, speed)
        try:
            return self(samples)
        except FewerError as error:
            raise FewerError(f"{where(cut)}: {error}") from error

    def __call__(self, samples: Tensor) -> Tensor:
        """All frames that touch the utterance: what the padded 30 s would give of them. (samples,) -> (T, F)"""
        check_audio(samples, self.sampling_rate, self.max_samples)
        half = self.extractor.n_fft // 2
        frames = min(math.ceil((len(samples) + half) / self.hop), self.max_frames)
        padded = functional.pad(samples, (0, min(4 * half, self.max_samples - len(samples))))
        mel = self.extractor(padded.numpy(), sampling_rate=self.sampling_rate, padding="longest", return_tensors="pt")
        return mel["input_features"][0, :, :frames].T.contiguous()
