"""Audio in blocks: the same samples as of the whole file, and clear words about files that cannot be read."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from fewer.data.audio import resample
from fewer.data.stream import BLOCK, AudioStream
from fewer.errors import FewerError
from tests.data.sounds import noise


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100, 48000])
def test_blocks_are_what_the_whole_file_would_give(tmp_path: Path, rate: int) -> None:
    samples = np.stack([noise(2.5 * BLOCK, rate, seed) for seed in (1, 2)], axis=1)[:-17]
    soundfile.write(tmp_path / "call.wav", samples, rate, subtype="FLOAT")
    stream = AudioStream(tmp_path / "call.wav", 16000)
    blocks = list(stream)
    assert len(blocks) >= 3
    assert all(len(block) <= 1.1 * BLOCK * 16000 for block in blocks)
    whole = resample(torch.from_numpy(samples.mean(axis=1)), rate, 16000)
    torch.testing.assert_close(torch.cat(blocks), whole, atol=1e-6, rtol=0)
    assert stream.duration == pytest.approx(len(samples) / rate)


@pytest.mark.parametrize("length", [1, 2, 100, 441])
def test_a_few_samples_are_enough(tmp_path: Path, length: int) -> None:
    soundfile.write(tmp_path / "short.wav", noise(1, 44100)[:length], 44100, subtype="FLOAT")
    blocks = torch.cat(list(AudioStream(tmp_path / "short.wav", 16000)))
    assert len(blocks) == length * 16000 // 44100


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3"])
def test_formats_that_people_have(tmp_path: Path, ending: str) -> None:
    times = np.arange(32000) / 16000
    samples = 0.3 * np.sin(2 * np.pi * 440 * times).astype(np.float32)
    soundfile.write(tmp_path / f"call.{ending}", samples, 16000)
    got = torch.cat(list(AudioStream(tmp_path / f"call.{ending}", 16000)))
    assert abs(len(got) - len(samples)) < 2000
    assert float(got[4000:-4000].square().mean().sqrt()) == pytest.approx(0.3 / np.sqrt(2), rel=0.05)


def test_nothing_is_sought_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "call.mp3", noise(3), 16000)
    whole, _ = soundfile.read(tmp_path / "call.mp3", dtype="float32")

    def seek(*_: object) -> None:
        raise AssertionError("the file was sought in")

    monkeypatch.setattr(soundfile.SoundFile, "seek", seek)
    got = torch.cat(list(AudioStream(tmp_path / "call.mp3", 16000)))
    torch.testing.assert_close(got, torch.from_numpy(whole), atol=1e-6, rtol=0)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.wav").write_bytes(b"")
    for letter in ("letter.wav", "letter.mp3", "letter.raw"):
        (tmp_path / letter).write_text("Dear Sir or Madam, " * 50)
    soundfile.write(tmp_path / "nothing.wav", np.zeros(0), 16000)
    broken = np.array([0.0, np.nan], dtype=np.float32)
    soundfile.write(tmp_path / "nan.wav", broken, 16000, subtype="FLOAT")
    for name, problem in (
        ("missing.wav", "there is no such file"),
        ("", "this is not a file"),
        ("empty.wav", "the file is empty"),
        ("letter.wav", "cannot read the audio.*WAV.*can be read"),
        (
            "letter.mp3",
            "cannot read the audio: this is no audio that is known.*is it complete",
        ),
        ("letter.raw", "cannot read the audio: samples without a header; convert the file to WAV"),
        ("nothing.wav", "holds no audio"),
        ("nan.wav", "not finite"),
    ):
        with pytest.raises(FewerError, match=f"{name}: .*{problem}"):
            list(AudioStream(tmp_path / name, 16000))


def test_a_truncated_file_gives_what_it_has_and_then_complains(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "cut.flac", noise(30), 16000)
    whole = (tmp_path / "cut.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(whole[: len(whole) // 2])
    got: list[torch.Tensor] = []
    with pytest.raises(FewerError, match=r"cut\.flac.*after 1\d\.\d"):
        got.extend(AudioStream(tmp_path / "cut.flac", 16000))
    assert sum(map(len, got)) >= 10 * 16000


def test_channels_that_cancel_each_other_out_are_told_of(tmp_path, caplog):
    left = 0.3 * np.sin(np.arange(32000) / 5)
    for name, right in (("same", left), ("opposite", -left), ("quiet", 0 * left)):
        soundfile.write(tmp_path / f"{name}.wav", np.stack([left, right], 1), 16000)
        list(AudioStream(tmp_path / f"{name}.wav", 16000))
        told = " ".join(caplog.messages)
        caplog.clear()
        assert ("the channels cancel each other out" in told) == (name == "opposite"), name


@pytest.mark.parametrize("rate", [1, 999, 2_147_483_647])
def test_a_rate_that_no_recording_has_is_refused_by_name(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", np.zeros(100), rate)
    with pytest.raises(FewerError, match=rf"a\.wav: a sampling rate of {rate} Hz; rates from 1,000 to 768,000 Hz"):
        AudioStream(tmp_path / "a.wav", 16000)


def test_samples_far_too_large_are_refused_by_name(tmp_path):
    samples = np.zeros(20000, np.float32)
    samples[18000] = 1e38
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    with pytest.raises(FewerError, match=r"a\.wav: the audio holds a sample of 1e\+38"):
        list(AudioStream(tmp_path / "a.wav", 16000))


def test_odd_rates_in_blocks_are_what_the_whole_file_would_give(tmp_path):
    samples = 0.1 * np.random.default_rng(0).standard_normal(60_000).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", samples, 22254, subtype="FLOAT")
    whole = resample(torch.from_numpy(samples), 22254, 16000)
    blocks = torch.cat(list(AudioStream(tmp_path / "a.wav", 16000)))
    torch.testing.assert_close(blocks, whole, rtol=0, atol=1e-5)
