"""From a lhotse cut to samples: the right channel and stretch, at the wanted rate and speed.

All audio is read through soundfile, or PyAV where that cannot: lhotse trusts the manifest's rate, and starts shells
whose commands hold the names of files (for .sph, and for sources of type `command`).
"""

import io
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fewer.data.copies import decoded, fetched
from fewer.data.cut_schema import TRANSFORMS, source_problem
from fewer.data.limits import HIGHEST_RATE, LOUDEST, LOWEST_RATE, MOST_SAMPLES
from fewer.data.media import UNREADABLE, MediaFile, open_audio, why_unreadable
from fewer.data.resampling import is_ordinary, resample
from fewer.errors import FewerError

if TYPE_CHECKING:  # lhotse takes as long to import as a short file takes
    from lhotse import MonoCut
    from lhotse.audio import AudioSource
    from lhotse.cut import Cut

LATE = 30.0  # seconds of a file that cannot be sought in, from which on it is decoded once and for all
TOLERANCE = 0.1  # seconds that a cut may reach beyond the end of its file: transcripts' times are rounded


def load_audio(cut: "Cut", sampling_rate: int, speed: float = 1.0) -> Tensor:
    """The cut's samples in [-1, 1], resampled, and `speed` times as fast (pitch moves with it). -> (T,) float32"""
    samples = _read(cut)
    if problem := sample_problem(samples):
        raise FewerError(f"{where(cut)}: {problem}")
    return resample(torch.from_numpy(samples), Fraction(cut.sampling_rate) * _exact(speed), sampling_rate)


def sample_problem(samples: np.ndarray) -> str | None:
    """Why these samples cannot be heard; None if they can."""
    loudest = float(np.abs(samples).max(initial=0.0))
    if not np.isfinite(loudest):
        return "the audio holds samples that are not finite numbers"
    return None if loudest <= LOUDEST else f"the audio holds a sample of {loudest:.3g}; samples lie between -1 and 1"


def rate_problem(rate: int) -> str | None:
    """Why audio of this sampling rate is not read; None if it is."""
    if LOWEST_RATE <= rate <= HIGHEST_RATE:
        return None
    return f"a sampling rate of {rate} Hz; rates from {LOWEST_RATE:,} to {HIGHEST_RATE:,} Hz can be read"


def where(cut: "Cut") -> str:
    """How errors name an utterance: its id and its file."""
    return f"utterance {cut.id} ({_file(cut)})"


def _read(cut: "Cut") -> np.ndarray:
    """The cut's samples as the manifest means them. (T,) float32"""
    from lhotse import MonoCut

    if not isinstance(cut, MonoCut) or not cut.has_recording:
        raise FewerError(
            f"utterance {cut.id}: expected a cut of one channel with a recording, found {type(cut).__name__}"
        )
    if cut.num_samples <= 0:
        raise FewerError(f"{where(cut)}: the segment at {cut.start} s has no length")
    source = next((s for s in cut.recording.sources if cut.channel in s.channels), None)
    if source is None:
        raise FewerError(f"{where(cut)}: the recording has no channel {cut.channel}")
    if problem := source_problem(source.type, source.source):  # an index that came with the manifest may not know
        raise FewerError(f"{where(cut)}: {problem}")
    try:
        samples = _read_segment(cut, source, _transforms(cut))
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


def _transforms(cut: "MonoCut") -> list[Any]:
    """What lhotse would do to the audio after reading it."""
    from lhotse.augmentation import AudioTransform

    listed = cut.recording.transforms or []
    found = [one if isinstance(one, AudioTransform) else AudioTransform.from_dict(one) for one in listed]
    for transform in found:
        if type(transform).__name__ not in TRANSFORMS:
            raise FewerError(f"{where(cut)}: the transform {type(transform).__name__} is none of {TRANSFORMS}")
    return found


def _read_segment(cut: "MonoCut", source: "AudioSource", transforms: list[Any]) -> np.ndarray:
    """The stretch of one channel that becomes the cut, and what the transforms make of it."""
    from lhotse.augmentation import Resample as ResampleTransform

    rate, start, duration = cut.sampling_rate, cut.start, cut.duration
    for transform in reversed(transforms):
        start, duration = transform.reverse_timestamps(offset=start, duration=duration, sampling_rate=cut.sampling_rate)
        rate = transform.source_sampling_rate if isinstance(transform, ResampleTransform) else rate
    with _at_any_place(_opened(source), start) as stream:
        if stream.samplerate != rate:
            raise FewerError(
                f"{where(cut)}: the file is sampled at {stream.samplerate} Hz, "
                f"but the manifest says {rate} Hz; prepare the corpus again"
            )
        if problem := rate_problem(rate):
            raise FewerError(f"{where(cut)}: {problem}")
        column = source.channels.index(cut.channel)
        if column >= stream.channels:
            raise FewerError(
                f"{where(cut)}: the file has {stream.channels} channels, but channel {cut.channel} is wanted"
            )
        frames = MOST_SAMPLES if stream.frames is None else stream.frames
        stream.seek(min(round(Fraction(start) * rate), frames))
        length = round(Fraction(duration) * rate) if transforms else cut.num_samples
        samples = stream.read(min(length, frames), dtype="float32", always_2d=True)[:, column]
    for transform in transforms:
        samples = _transformed(transform, np.ascontiguousarray(samples), cut.sampling_rate)
    return np.ascontiguousarray(samples)


def _transformed(transform: Any, samples: np.ndarray, rate: int) -> np.ndarray:
    """(T,) -> (T',); by lhotse, unless the ratio of two rates is such that its resampler needs too much memory."""
    from lhotse.augmentation import Resample as ResampleTransform

    if isinstance(transform, ResampleTransform):
        source, target = transform.source_sampling_rate, transform.target_sampling_rate
    else:
        source, target = round(rate * getattr(transform, "factor", 1.0)), rate  # Volume keeps the rate
    if not is_ordinary(Fraction(source, target)):
        return resample(torch.from_numpy(samples), source, target).numpy()
    return np.asarray(transform(samples[None], rate)[0], np.float32)


def _at_any_place(file: str | io.BytesIO, start: float) -> Any:
    """The audio of a file; if it would have to be decoded from its beginning up to a late place, that of a copy."""
    stream = open_audio(file)
    if start < LATE or not isinstance(stream, MediaFile) or not isinstance(file, str):
        return stream
    stream.close()
    return open_audio(decoded(file))


def _opened(source: "AudioSource") -> str | io.BytesIO:
    """What soundfile can open."""
    if source.type == "memory":
        return io.BytesIO(source.source)
    if source.type == "file":
        return str(source.source)
    return str(fetched(source.source))


def _reason(file: str, error: Exception) -> str:
    if "://" in file or not isinstance(error, (*UNREADABLE, OSError, TypeError)):
        return str(error).partition("\n[extra info]")[0]  # in which lhotse repeats the whole cut
    if not Path(file).exists():
        return "there is no such file"
    hint = "convert it with sph2pipe if it is compressed" if file.endswith(".sph") else "is the file complete?"
    return f"{why_unreadable(error)}; {hint}"


def _file(cut: "Cut") -> str:
    if not getattr(cut, "has_recording", False):
        return "no recording"
    source = cut.recording.sources[0]
    return str(source.source) if source.type in ("file", "url", "command") else f"{source.type} audio"


def _exact(speed: float) -> Fraction:
    """0.9 is meant as 9/10, not as the nearest binary number."""
    return Fraction(str(speed))
