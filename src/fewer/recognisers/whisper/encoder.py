"""What Whisper hears: log-mel frames of an utterance, and transformers' encoder over 30 seconds of them."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from fewer.data.audio import load_audio, where
from fewer.errors import FewerError
from fewer.files import fingerprint
from fewer.models.encoded import Encoded
from fewer.progress import say
from fewer.store.checkpoint import load_tensors, save_tensors

SILENT = -1.5  # log-mel of digital silence, where nothing louder raises it
RANGE = 2.0  # from the loudest log-mel of an utterance to its floor
TOO_LONG = 10  # seconds over 30 that are cut off with a message; more is an error
DAMAGED = "delete it, and it will be made again"


@dataclass(frozen=True)
class WhisperEncoded(Encoded):
    """`lengths` are those of the speech; the states behind it, of the padding to 30 s, are attended to as well."""

    def select(self, utterances: Tensor) -> "WhisperEncoded":
        return WhisperEncoded(self.states[utterances], self.lengths[utterances])


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
            say(f"{where(cut)} lasts {cut.duration:.1f} s; Whisper hears its first {limit:.0f} s only")
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


class WhisperEncoder:
    """transformers' encoder, frozen. What it says of an utterance can be kept on disk: it takes as long as a search."""

    def __init__(self, module: Any, keep: str | Path | None = None):
        """keep: folder of files, one for each utterance, named by its frames; of this encoder alone."""
        self.module = module.eval().requires_grad_(False)
        self.states: int = module.config.max_source_positions  # of 30 s
        self.device = next(module.parameters()).device
        self.keep = None if keep is None else Path(keep)

    def encode(self, features: Tensor, lengths: Tensor) -> WhisperEncoded:
        """Encoder states of utterances, each padded to 30 s with what silence looks like after it.

        One utterance at a time, so that nothing depends on the batch; on a CPU it is no slower. (B, T, F), (B,)
        """
        states = [self.encode_one(mel[:length]) for mel, length in zip(features, lengths.tolist(), strict=True)]
        return WhisperEncoded(torch.stack(states), ((lengths + 1) // 2).to(self.device))

    @torch.inference_mode()
    def encode_one(self, speech: Tensor) -> Tensor:
        """(T, F) -> (states, D)"""
        path = None
        if self.keep is not None:
            path = self.keep / f"{fingerprint(speech.contiguous().numpy().tobytes())[:32]}.safetensors"
            if path.exists():
                return load_tensors(path, DAMAGED)[0]["states"].to(self.device)
        floor = max(float(speech.max()) - RANGE, SILENT)
        frames = 2 * self.states  # the encoder halves the rate
        padded = functional.pad(speech.T[None], (0, frames - len(speech)), value=floor)  # (1, F, frames)
        states: Tensor = self.module(padded.to(self.device)).last_hidden_state[0]
        if path is not None:
            save_tensors(path, {"states": states})
        return states
