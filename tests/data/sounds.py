"""Audio files and cuts of them, made on the spot."""

import numpy as np
import soundfile
from lhotse import MonoCut, Recording
from lhotse.audio import AudioSource


def tone(frequency, seconds, rate=16000, level=0.3):
    return (level * np.sin(2 * np.pi * frequency * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def noise(seconds, rate=16000, seed=0, level=0.1):
    return (level * np.random.default_rng(seed).standard_normal(round(seconds * rate))).astype(np.float32)


def file_cut(path, samples, rate=16000, id="utt", start=0.0, duration=None, channel=0, subtype="FLOAT"):
    """Write (T,) or (T, channels) samples as a wav file; a cut of it."""
    soundfile.write(path, samples, rate, subtype=subtype)
    return cut_of(path, len(samples), rate, id, start, duration, channel, samples[0].size)


def cut_of(path, length, rate=16000, id="utt", start=0.0, duration=None, channel=0, channels=1):
    """A cut of a file that a manifest says to have so many samples at that rate."""
    source = AudioSource(type="file", channels=list(range(channels)), source=str(path))
    recording = Recording(
        id=f"rec-{id}", sources=[source], sampling_rate=rate, num_samples=length, duration=length / rate
    )
    duration = length / rate - start if duration is None else duration
    return MonoCut(id=id, start=start, duration=duration, channel=channel, recording=recording)
