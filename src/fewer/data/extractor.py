"""What every kind of acoustic features is configured by, and what it does: samples (T,) in, frames (T', F) out.

Utterances are never padded together, so that features do not depend on the batch.
"""

import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from fewer.config import Config
from fewer.errors import FewerError
from fewer.files import fingerprint

WINDOW, SHIFT = 0.025, 0.010  # seconds of one frame and between two


class CacheConfig(Config):
    """Where computed features of whole sets are kept: training, estimation and decoding read them instead of audio."""

    folder: Path  # holds one folder for each manifest
    dtype: Literal["float16", "float32"] = "float16"  # how they are stored; they are read as float32


class FeatureOptions(Config):
    """What all kinds of features share."""

    sampling_rate: PositiveInt = 16000  # Hz; audio at another rate is resampled
    normalise: Literal["global", "scale", "none"] = "global"  # by the corpus's mean and deviation, or `scale`
    scale: PositiveFloat = 3.0  # divisor of `normalise: scale`
    clip: PositiveFloat | None = None  # normalised values are cut off at ± this
    cache: CacheConfig | None = None  # none: computed whenever they are read

    def recipe(self) -> dict[str, Any]:
        """The options that the unnormalised features depend on."""
        return self.model_dump(mode="json", exclude={"normalise", "scale", "clip", "cache", "model"})


class MfccConfig(FeatureOptions):
    """Mel-frequency cepstra, 25 ms windows every 10 ms: the LibriSpeech setup."""

    kind: Literal["mfcc"] = "mfcc"
    style: Literal["kaldi", "librosa"] = "kaldi"  # Kaldi's recipe, or librosa's with RMS energy as coefficient 0
    dim: PositiveInt = 40  # coefficients; Kaldi's recipe uses as many mel filters, librosa's always 128
    clip: PositiveFloat | None = 3.0


class GammatoneConfig(FeatureOptions):
    """Gammatone features (Schlüter et al., ICASSP 2007): the Switchboard setup."""

    kind: Literal["gammatone"] = "gammatone"
    dim: PositiveInt = 40  # filters
    min_frequency: PositiveFloat = 100.0  # Hz, centre of the lowest filter
    max_frequency: PositiveFloat | None = None  # Hz, centre of the highest; none: 7500, or 3800 at 8 kHz
    dct: bool = True  # decorrelate the filters' outputs
    per_utterance: bool = True  # give each utterance mean 0 and deviation 3, which `scale` divides out, as RASR does
    normalise: Literal["global", "scale", "none"] = "scale"


class LogMelConfig(FeatureOptions):
    """Logarithmic mel filter bank energies by Kaldi's recipe."""

    kind: Literal["log_mel"] = "log_mel"
    dim: PositiveInt = 80  # filters


class PretrainedConfig(FeatureOptions):
    """States of the frozen encoder of a pretrained Hugging Face speech model."""

    kind: Literal["pretrained"] = "pretrained"
    model: str  # a folder, or a name on the Hugging Face hub
    pool: PositiveInt = 2  # this many encoder frames (20 ms each in Whisper) become one
    pooling: Literal["mean", "stack"] = "mean"  # average them, or put them side by side
    full_window: bool = False  # pad the audio to the model's 30 s as in its own training: slower, hardly different

    def weights(self) -> str:
        """What names the model's parameters: the contents of its folder, or its name on the hub."""
        folder = Path(self.model).expanduser()
        files = sorted(file for file in folder.glob("*") if file.suffix in (".json", ".safetensors", ".bin"))
        return fingerprint(*files) if files else self.model


FeaturesConfig = Annotated[MfccConfig | GammatoneConfig | LogMelConfig | PretrainedConfig, Field(discriminator="kind")]


class FeatureExtractor(nn.Module, ABC):
    """Turns one utterance's samples into feature frames."""

    dim: int  # F
    sampling_rate: int  # of the samples, in Hz
    shift: int  # samples from one frame to the next
    min_samples: int  # shorter audio has no frame

    @property
    def frame_shift(self) -> float:
        """Seconds from one frame to the next."""
        return self.shift / self.sampling_rate

    @abstractmethod
    def frames(self, num_samples: int) -> int:
        """How many frames so many samples give."""

    @abstractmethod
    def extract(self, samples: Tensor) -> Tensor:
        """(T,) float32 -> (T', F)"""

    @torch.no_grad()
    def forward(self, samples: Tensor) -> Tensor:
        """`extract`, for audio of at least one frame. (T,) -> (T', F)"""
        if len(samples) < self.min_samples:
            raise FewerError(
                f"the audio is too short: {1000 * len(samples) / self.sampling_rate:.0f} ms, "
                f"but one frame needs {1000 * self.min_samples / self.sampling_rate:.0f} ms"
            )
        return self.extract(samples)


def dct_matrix(inputs: int, outputs: int) -> Tensor:
    """The first `outputs` columns of the orthonormal DCT-II. (inputs, outputs) float64"""
    position = torch.arange(inputs, dtype=torch.float64)[:, None] + 0.5
    matrix = torch.cos(math.pi / inputs * position * torch.arange(outputs)) * math.sqrt(2 / inputs)
    matrix[:, 0] /= math.sqrt(2)
    return matrix
