"""Audio as callers may give it."""

import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.transcription.recording import File, Recording, Samples

Audio = str | Path | File | np.ndarray | Tensor  # a file, or samples of one channel


def recording(audio: Audio, sampling_rate: int, name: str = "audio") -> Recording:
    """A file's path, or samples as floats in [-1, 1]."""
    if isinstance(audio, str | os.PathLike):
        return Path(audio)
    if isinstance(audio, File):
        return audio
    if not isinstance(audio, np.ndarray | Tensor):
        raise FewerError(f"audio is a {type(audio).__name__}; give a file, a numpy array or a torch tensor")
    samples = audio.detach().cpu() if isinstance(audio, Tensor) else torch.from_numpy(np.ascontiguousarray(audio))
    if samples.ndim != 1:
        raise FewerError(f"audio has the shape {tuple(samples.shape)}; give one channel, of shape (samples,)")
    if sampling_rate < 1:
        raise FewerError(f"sampling_rate is {sampling_rate}; it must be at least 1")
    if not samples.is_floating_point():  # such as 16-bit integers
        samples = samples.float() / -torch.iinfo(samples.dtype).min
    if not bool(samples.isfinite().all()):
        raise FewerError("the audio holds samples that are not finite numbers")
    return Samples(samples.float(), sampling_rate, name)
