"""Windows: no sample lost, none too long, cut in pauses, however long the recording is."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from fewer.data.stream import BLOCK, AudioStream
from fewer.transcription.windows import Window, cut_windows, halves, is_silent, quietest, sounds
from tests.data.sounds import noise

RATE = 1000


def speech(seconds: float, pauses: list[float], length: float = 0.5) -> Tensor:
    """Noise with pauses of `length` seconds around these times."""
    samples = noise(seconds, RATE)
    for time in pauses:
        samples[round((time - length / 2) * RATE) : round((time + length / 2) * RATE)] *= 0.01
    return torch.from_numpy(samples)


def in_blocks(samples: Tensor, size: int) -> Iterator[Tensor]:
    return iter(samples.split(size))


@pytest.mark.parametrize("size", [100, 4321, 100_000])
def test_windows_follow_each_other_and_hold_every_sample(size: int) -> None:
    samples = speech(100, [13, 26, 55])
    windows = list(cut_windows(in_blocks(samples, size), RATE, longest=30, search=10))
    assert torch.equal(torch.cat([window.samples for window in windows]), samples)
    assert [window.start for window in windows] == [0, *(window.end for window in windows[:-1])]
    assert max(len(window.samples) for window in windows) <= 30 * RATE
    assert min(len(window.samples) for window in windows[:-1]) >= 20 * RATE


def test_a_window_ends_in_the_middle_of_a_pause() -> None:
    windows = list(cut_windows([speech(70, [13, 26, 51])], RATE, longest=30, search=10))
    assert [round(window.end / RATE, 1) for window in windows] == pytest.approx([26, 51, 70], abs=0.15)


def test_a_short_gap_is_no_pause() -> None:
    samples = speech(30, [24]) * torch.ones(30 * RATE).index_fill(0, torch.arange(27000, 27100), 0.0)
    assert quietest(samples[20000:], RATE) / RATE + 20 == pytest.approx(24, abs=0.15)


def test_in_silence_windows_are_as_long_as_they_may_be() -> None:
    windows = list(cut_windows([torch.zeros(65 * RATE)], RATE, longest=30, search=10))
    assert [len(window.samples) / RATE for window in windows[:2]] == pytest.approx([30, 30], abs=0.2)
    assert len(windows) == 3


def test_what_fits_is_one_window_and_nothing_is_none() -> None:
    (window,) = cut_windows([torch.zeros(30 * RATE)], RATE, longest=30, search=10)
    assert (window.start, window.end) == (0, 30 * RATE)
    assert not list(cut_windows([], RATE, longest=30, search=10))
    assert not list(cut_windows([torch.zeros(0)], RATE, longest=30, search=10))


def test_a_two_hour_recording_is_read_as_its_windows_are_used() -> None:
    """One window and one block are in memory; nothing is read ahead."""
    read = 0

    def blocks() -> Iterator[Tensor]:
        nonlocal read
        for number in range(720):
            read += 1
            yield torch.from_numpy(noise(10, RATE, seed=number))

    heard = np.int64(0)
    for window in cut_windows(blocks(), RATE, longest=30, search=10):
        heard += len(window.samples)
        assert 10 * read * RATE <= window.end + 40 * RATE
        assert window.samples.untyped_storage().nbytes() <= 4 * 40 * RATE
    assert heard == 7200 * RATE


def test_what_is_to_be_heard_has_a_beginning_and_an_end() -> None:
    samples = torch.cat([torch.zeros(500), torch.from_numpy(noise(1, RATE)), torch.zeros(1000)])
    assert sounds(samples, RATE) == [(500, 1500)]
    assert sounds(samples[:1495], RATE) == [(500, 1495)]
    assert sounds(samples[:3], RATE) == [(0, 3)]
    assert sounds(torch.zeros(0), RATE) == [(0, 0)]
    assert sounds(torch.zeros(2000), RATE) == [(0, 2000)]
    assert is_silent(samples[:500])
    assert is_silent(samples[:0])
    assert not is_silent(samples)


def test_pauses_part_sounds_and_gaps_do_not() -> None:
    samples = torch.from_numpy(noise(4, RATE))
    samples[1000:1200] = 0.0
    samples[2000:2500] = 0.0
    assert sounds(samples, RATE) == [(0, 2000), (2500, 4000)]


@pytest.mark.parametrize("level", [1e-5, 1e-3, 4e-3])
def test_steady_noise_is_a_pause_and_all_of_a_loud_window_is_heard(level: float) -> None:
    rate = 16000
    samples = torch.from_numpy(noise(4, rate, seed=1, level=level))
    samples[rate : 3 * rate] += torch.from_numpy(noise(2, rate))
    assert sounds(samples, rate) == [(rate, 3 * rate)]
    assert sounds(samples[rate : 3 * rate], rate) == [(0, 2 * rate)]


def test_halves_meet_in_a_pause() -> None:
    first, second = halves(Window(7, speech(9, [3.5, 7])), RATE)
    assert (first.start, first.end, second.end) == (7, second.start, 9007)
    assert first.end / RATE == pytest.approx(3.5, abs=0.15)


def test_a_two_hour_file_is_read_in_small_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of silence: nothing larger than a window and a block is ever made of it."""
    rate, size = 4000, 2 * 4000 * 7200
    header = (
        b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, 2 * rate, 2, 16)
    )
    with open(tmp_path / "long.wav", "wb") as stream:
        stream.write(header + b"data" + struct.pack("<I", size))
        stream.truncate(44 + size)
    reads, read = list[int](), soundfile.SoundFile.read

    def noted(self: soundfile.SoundFile, frames: int, **options: Any) -> Any:
        reads.append(frames)
        return read(self, frames, **options)

    monkeypatch.setattr(soundfile.SoundFile, "read", noted)
    audio = AudioStream(tmp_path / "long.wav", rate)
    assert audio.duration == 7200
    seconds = 0.0
    for window in cut_windows(audio, rate, longest=30, search=10):
        seconds += len(window.samples) / rate
        assert window.samples.untyped_storage().nbytes() <= 4 * 31 * rate
        assert sum(reads) / rate <= seconds + 32
    assert seconds == pytest.approx(7200)
    assert max(reads) <= BLOCK * rate
