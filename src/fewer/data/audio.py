"""From a lhotse cut to samples: the right channel and stretch, at the wanted rate and speed."""

from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile
import torch
from lhotse import MonoCut
from lhotse.augmentation.resample import Resample
from lhotse.cut import Cut
from torch import Tensor

from fewer.errors import FewerError

TOLERANCE = 0.1  # seconds that a cut may reach beyond the end of its file: transcripts' times are rounded


def load_audio(cut: Cut, sampling_rate: int, speed: float = 1.0) -> Tensor:
    """The cut's samples in [-1, 1], resampled, and `speed` times as fast (pitch moves with it). -> (T,) float32"""
    samples = _read(cut)
    if not np.isfinite(samples).all():
        raise FewerError(f"{where(cut)}: the audio holds samples that are not finite numbers")
    return resample(torch.from_numpy(samples), Fraction(cut.sampling_rate) * _exact(speed), sampling_rate)


def resample(samples: Tensor, source_rate: int | Fraction, target_rate: int) -> Tensor:
    """Band-limited interpolation: sample k of the result lies at the source's time k / target_rate. (T,) -> (T',)"""
    ratio = Fraction(source_rate) / target_rate
    if ratio == 1:
        return samples
    length = len(samples) * ratio.denominator // ratio.numerator
    return _resampler(ratio.numerator, ratio.denominator)(samples)[:length]


def where(cut: Cut) -> str:
    """How errors name an utterance: its id and its file."""
    return f"utterance {cut.id} ({_file(cut)})"


def _read(cut: Cut) -> np.ndarray:
    """The cut's samples as they are in the file. (T,) float32"""
    if not isinstance(cut, MonoCut) or not cut.has_recording:
        raise FewerError(
            f"utterance {cut.id}: expected a cut of one channel with a recording, found {type(cut).__name__}"
        )
    if cut.num_samples <= 0:
        raise FewerError(f"{where(cut)}: the segment at {cut.start} s has no length")
    source = next((s for s in cut.recording.sources if cut.channel in s.channels), None)
    if source is None:
        raise FewerError(f"{where(cut)}: the recording has no channel {cut.channel}")
    try:
        if source.type == "file" and not cut.recording.transforms:
            samples = _read_file(cut, source.channels.index(cut.channel))
        else:
            samples = cut.load_audio()[0]
    except FewerError:
        raise
    except Exception as error:  # soundfile and lhotse raise many kinds, assertions among them
        raise FewerError(f"{where(cut)}: cannot read the audio: {_reason(_file(cut), error)}") from error
    missing = cut.num_samples - len(samples)
    if missing > TOLERANCE * cut.sampling_rate or len(samples) == 0:
        raise FewerError(
            f"{where(cut)}: the file ends {missing / cut.sampling_rate:.2f} s before the segment does "
            f"({cut.start:.2f} to {cut.end:.2f} s); is it complete?"
        )
    return samples[: cut.num_samples]


def _read_file(cut: MonoCut, column: int) -> np.ndarray:
    """Read the segment through soundfile: lhotse trusts the manifest's rate and needs sph2pipe for SPHERE files."""
    with soundfile.SoundFile(_file(cut)) as stream:
        if stream.samplerate != cut.sampling_rate:
            raise FewerError(
                f"{where(cut)}: the file is sampled at {stream.samplerate} Hz, "
                f"but the manifest says {cut.sampling_rate} Hz; prepare the corpus again"
            )
        if column >= stream.channels:
            raise FewerError(
                f"{where(cut)}: the file has {stream.channels} channels, but channel {cut.channel} is wanted"
            )
        stream.seek(min(round(Fraction(cut.start) * stream.samplerate), stream.frames))
        samples = stream.read(cut.num_samples, dtype="float32", always_2d=True)
    return np.ascontiguousarray(samples[:, column])


def _reason(file: str, error: Exception) -> str:
    if "://" in file or not isinstance(error, soundfile.SoundFileError | OSError):
        return str(error).partition("\n[extra info]")[0]  # in which lhotse repeats the whole cut
    if not Path(file).exists():
        return "there is no such file"
    hint = "convert it with sph2pipe if it is compressed" if file.endswith(".sph") else "is the file complete?"
    return f"{str(error).rstrip('.')}; {hint}"


def _file(cut: Cut) -> str:
    if not getattr(cut, "has_recording", False):
        return "no recording"
    source = cut.recording.sources[0]
    return str(source.source) if source.type in ("file", "url", "command") else f"{source.type} audio"


def _exact(speed: float) -> Fraction:
    """0.9 is meant as 9/10, not as the nearest binary number."""
    return Fraction(str(speed))


@lru_cache(maxsize=64)
def _resampler(source: int, target: int) -> Resample:
    return Resample(source, target, lowpass_filter_width=32)  # within 0.2 % up to 90 % of the lower Nyquist frequency
