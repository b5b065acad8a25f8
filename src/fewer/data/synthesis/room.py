"""Rooms and noise: synthetic impulse responses, and noises made on the spot at a chosen level."""

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from fewer.config import Config

Samples = NDArray[np.float32]
Noise = Literal["white", "pink", "surf", "hum", "babble"]


def _ordered(ends: tuple[float, float]) -> tuple[float, float]:
    if ends[0] > ends[1]:
        raise ValueError("the first must not be greater than the second")
    return ends


Range = Annotated[tuple[float, float], AfterValidator(_ordered)]
WholeRange = Annotated[tuple[int, int], AfterValidator(_ordered)]


class RoomConfig(Config):
    """How far from clean the speech is; each utterance draws one value from every range and one of the noises."""

    snr: Range = (12.0, 28.0)  # speech over noise, dB
    reverberation: Range = (0.1, 0.3)  # time in which echoes fall by 60 dB, seconds
    dry: float = 0.5  # share of the utterances without any room
    silence: Range = (0.1, 0.3)  # seconds of noise alone before and after the speech
    level: Range = (-32.0, -20.0)  # of the whole, dB below full scale
    noises: tuple[Noise, ...] = ("white", "hum", "pink", "pink", "surf", "surf", "babble", "babble", "babble")


@dataclass(frozen=True)
class Scene:
    """What an utterance was mixed with."""

    noise: Noise
    snr: float  # dB
    reverberation: float  # seconds; 0: no room


def draw_scene(config: RoomConfig, rng: np.random.Generator) -> Scene:
    """Noise, level and room of one utterance."""
    noise = config.noises[rng.integers(len(config.noises))]
    wet = rng.random() >= config.dry
    return Scene(
        noise, round(rng.uniform(*config.snr), 1), round(rng.uniform(*config.reverberation), 3) if wet else 0.0
    )


def record(
    speech: Samples, scene: Scene, config: RoomConfig, rng: np.random.Generator, babble: Samples, sample_rate: int
) -> NDArray[np.int16]:
    """The speech as a microphone in that scene hears it, 16 bits; `babble` is a long stretch of voices to cut from."""
    if scene.reverberation:
        speech = convolve(speech, impulse_response(scene.reverberation, sample_rate, rng))
    before, after = (int(rng.uniform(*config.silence) * sample_rate) for _ in range(2))
    noise = make_noise(scene.noise, before + len(speech) + after, sample_rate, rng, babble)
    mixture = noise * noise_gain(speech, noise, scene.snr)
    mixture[before : before + len(speech)] += speech
    gain = 10 ** (rng.uniform(*config.level) / 20) / np.sqrt(np.mean(mixture**2))
    gain = min(gain, 0.99 / np.abs(mixture).max())
    return np.round(mixture * (gain * 32767)).astype(np.int16)


def noise_gain(speech: Samples, noise: Samples, snr: float) -> float:
    """What to multiply `noise` by so that the mean power of `speech` lies `snr` dB above it."""
    return float(np.sqrt(np.mean(speech**2) / np.mean(noise**2)) * 10 ** (-snr / 20))


def impulse_response(reverberation: float, sample_rate: int, rng: np.random.Generator) -> Samples:
    """Direct sound, a few early reflections, and a tail of noise that decays by 60 dB in `reverberation` seconds."""
    time = np.arange(int(reverberation * sample_rate)) / sample_rate
    decay = 10 ** (-3 * time / reverberation)
    response = rng.standard_normal(len(time)) * decay
    response[: int(0.02 * sample_rate)] = 0  # the tail begins when the reflections have become dense
    response *= np.sqrt(rng.uniform(0.1, 0.5) / np.sum(response**2))  # its energy relative to the direct sound's
    early = (rng.uniform(0.002, 0.04, size=8) * sample_rate).astype(int)
    early = early[early < len(time)]
    response[early] += rng.choice((-1, 1), size=len(early)) * rng.uniform(0.1, 0.5, size=len(early)) * decay[early]
    response[0] = 1.0
    return response.astype(np.float32)


def convolve(signal: Samples, response: Samples) -> Samples:
    """Full convolution by FFT, at a length that is fast to transform."""
    length = len(signal) + len(response) - 1
    padded = -(-length // 4096) * 4096
    product = np.fft.rfft(signal, padded) * np.fft.rfft(response, padded)
    return np.fft.irfft(product, padded)[:length].astype(np.float32)


def make_noise(kind: Noise, length: int, sample_rate: int, rng: np.random.Generator, babble: Samples) -> Samples:
    """`length` samples of one kind of noise, at any level. A stretch of `babble` is cut where chance says."""
    if kind == "white":
        return rng.standard_normal(length, dtype=np.float32)
    if kind == "pink":
        return _coloured(length, sample_rate, rng, slope=-0.5)
    if kind == "surf":
        waves = np.sin(2 * np.pi * (rng.uniform(0.2, 0.6) * np.arange(length) / sample_rate + rng.random()))
        return _coloured(length, sample_rate, rng, slope=-0.7) * (1.2 + waves).astype(np.float32)
    if kind == "hum":
        turns = int(rng.choice((50, 60))) * np.arange(1, 13)[:, None] * np.arange(sample_rate) / sample_rate
        second = np.sum(np.sin(2 * np.pi * (turns + rng.random((12, 1)))) / np.arange(1, 13)[:, None], axis=0)
        return np.resize(second, length).astype(np.float32) + 0.1 * rng.standard_normal(length, dtype=np.float32)
    start = int(rng.integers(len(babble)))
    return np.take(babble, np.arange(start, start + length), mode="wrap")


def _coloured(length: int, sample_rate: int, rng: np.random.Generator, slope: float) -> Samples:
    """Noise whose amplitude goes with frequency to the power `slope`, from 50 Hz up."""
    padded = -(-length // 4096) * 4096
    frequency = np.fft.rfftfreq(padded, 1 / sample_rate)
    shape = np.maximum(frequency, 50) ** slope * (frequency > 0)
    spectrum = np.fft.rfft(rng.standard_normal(padded, dtype=np.float32)) * shape
    return np.fft.irfft(spectrum, padded)[:length].astype(np.float32)
