from fractions import Fraction

import numpy as np
import pytest
import soundfile
import torch
from lhotse import Recording
from lhotse.audio import AudioSource

from fewer.data.audio import load_audio
from fewer.data.resampling import is_ordinary, resample
from fewer.errors import FewerError

from .sounds import cut_of, file_cut, noise, tone


def test_a_cut_gives_its_stretch_of_its_channel(tmp_path):
    left, right = noise(2, seed=1), noise(2, seed=2)
    cut = file_cut(tmp_path / "a.wav", np.stack([left, right], 1), start=0.5, duration=0.75, channel=1)
    samples = load_audio(cut, 16000)
    assert samples.dtype == torch.float32
    np.testing.assert_array_equal(samples.numpy(), right[8000:20000])


def test_two_channel_mu_law_sphere_is_read(tmp_path):
    """Switchboard's format; an independent µ-law expansion says what the samples are."""
    left, right = tone(440, 1, 8000), tone(1000, 1, 8000)
    path = tmp_path / "sw02001.sph"
    soundfile.write(path, np.stack([left, right], 1), 8000, format="NIST", subtype="ULAW")
    codes = np.frombuffer(path.read_bytes()[1024:], np.uint8).reshape(-1, 2)[:, 1]
    inverted = ~codes
    magnitude = ((((inverted & 15).astype(int) << 3) + 132) << ((inverted >> 4) & 7)) - 132
    expected = np.where(inverted & 128, -magnitude, magnitude) / 32768
    cut = cut_of(path, 8000, 8000, channel=1, channels=2)
    np.testing.assert_allclose(load_audio(cut, 8000).numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("speed", [0.9, 1.0, 1.1])
@pytest.mark.parametrize(("source", "target"), [(8000, 16000), (16000, 16000), (16000, 8000), (44100, 16000)])
def test_speed_and_rate_change_play_the_same_wave_at_other_times(tmp_path, source, target, speed):
    frequency = 700
    cut = file_cut(tmp_path / "a.wav", tone(frequency, 0.5, source), source)
    samples = load_audio(cut, target, speed).numpy()
    assert len(samples) == pytest.approx(0.5 * target / speed, abs=1)
    seconds = np.arange(len(samples)) / target
    expected = 0.3 * np.sin(2 * np.pi * frequency * speed * seconds)
    inner = slice(len(samples) // 4, -len(samples) // 4)
    np.testing.assert_allclose(samples[inner], expected[inner], atol=1e-4)


def test_downsampling_removes_what_the_lower_rate_cannot_hold(tmp_path):
    samples = resample(torch.from_numpy(tone(6000, 0.5)), 16000, 8000)
    assert samples[500:-500].abs().max() < 1e-3


def test_resampling_is_deterministic(tmp_path):
    cut = file_cut(tmp_path / "a.wav", noise(0.5))
    assert torch.equal(load_audio(cut, 16000, 0.9), load_audio(cut, 16000, 0.9))


def test_audio_in_memory_is_read_through_lhotse(tmp_path):
    samples = noise(0.5)
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    source = AudioSource(type="memory", channels=[0], source=(tmp_path / "a.wav").read_bytes())
    recording = Recording(id="r", sources=[source], sampling_rate=16000, num_samples=8000, duration=0.5)
    np.testing.assert_array_equal(load_audio(recording.to_cut(), 16000).numpy(), samples)


@pytest.mark.parametrize(("kind", "place"), [("command", "touch PWNED"), ("url", "pipe:touch PWNED")])
def test_no_command_of_a_cut_is_run(tmp_path, monkeypatch, kind, place):
    """A manifest's index, which can come with it, may say that all lines were checked."""
    monkeypatch.chdir(tmp_path)
    source = AudioSource(type=kind, channels=[0], source=place)
    recording = Recording(id="r", sources=[source], sampling_rate=16000, num_samples=8000, duration=0.5)
    with pytest.raises(FewerError, match=r"utterance r.*: (audio of type 'command'|a URL must begin)"):
        load_audio(recording.to_cut(), 16000)
    assert not list(tmp_path.iterdir())


def test_no_shell_sees_the_name_of_a_file(tmp_path, monkeypatch):
    """lhotse reads .sph files through a shell."""
    monkeypatch.chdir(tmp_path)
    source = AudioSource(type="file", channels=[0], source="a.wav; touch PWNED; .sph")
    recording = Recording(id="r", sources=[source], sampling_rate=8000, num_samples=8000, duration=1.0)
    with pytest.raises(FewerError, match="there is no such file"):
        load_audio(recording.resample(16000).to_cut(), 16000)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("transform", [lambda r: r.resample(8000), lambda r: r.perturb_speed(1.1)])
def test_transforms_of_a_manifest_give_what_lhotse_gives(tmp_path, transform):
    soundfile.write(tmp_path / "a.wav", noise(2, 16000), 16000, subtype="FLOAT")
    cut = transform(Recording.from_file(tmp_path / "a.wav")).to_cut().truncate(offset=0.25, duration=1.0)
    np.testing.assert_allclose(load_audio(cut, cut.sampling_rate).numpy(), cut.load_audio()[0], atol=1e-6)


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000])
def test_rates_of_both_resamplers_agree(rate, monkeypatch):
    samples = torch.from_numpy(noise(1, rate))
    usual = resample(samples, rate, 16000)
    monkeypatch.setattr("fewer.data.resampling.LARGEST_TABLE", 200_000)
    monkeypatch.setattr("fewer.data.resampling.is_ordinary", lambda ratio: False)
    torch.testing.assert_close(resample(samples, rate, 16000), usual, rtol=0, atol=3e-5)


@pytest.mark.parametrize("rate", [7999, 15999, 16001, 22254, 44101])
def test_odd_rates_play_the_same_wave_in_bounded_memory(rate):
    """Their exact tables of filters would have 64 million weights and more."""
    assert not is_ordinary(Fraction(rate, 16000))
    samples = resample(torch.from_numpy(tone(700, 1, rate)), rate, 16000).numpy()
    expected = 0.3 * np.sin(2 * np.pi * 700 * np.arange(len(samples)) / 16000)
    assert len(samples) == 16000
    np.testing.assert_allclose(samples[2000:-2000], expected[2000:-2000], atol=1e-4)


@pytest.mark.parametrize("rate", [1, 999, 768_001, 2_147_483_647])
def test_rates_of_no_recording_are_refused(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", noise(1), rate)
    with pytest.raises(FewerError, match=rf"a\.wav.*: a sampling rate of {rate} Hz"):
        load_audio(cut_of(tmp_path / "a.wav", 16000, rate), 16000)


def damaged(tmp_path, kind):
    path = tmp_path / "a.flac"
    soundfile.write(path, noise(2), 16000)
    if kind == "missing":
        path.unlink()
    elif kind == "not audio":
        path.write_text("<html>404</html>")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return cut_of(path, 32000, id="utt-7")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "there is no such file"),
        ("not audio", "Format not recognised"),
        ("empty", "cannot read the audio"),
        ("truncated", "is .* complete"),
    ],
)
def test_unreadable_audio_is_named_with_its_utterance(tmp_path, kind, message):
    cut = damaged(tmp_path, kind)
    with pytest.raises(FewerError, match=message) as caught:
        load_audio(cut, 16000)
    assert "utt-7" in str(caught.value)
    assert str(tmp_path / "a.flac") in str(caught.value)


def test_a_file_without_samples_is_an_error(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(0, np.float32), 16000)
    with pytest.raises(FewerError, match=r"utt.*a\.wav.*ends 1\.00 s before"):
        load_audio(cut_of(tmp_path / "a.wav", 16000), 16000)


def test_a_segment_without_length_is_an_error(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(1), 16000)
    with pytest.raises(FewerError, match=r"utt .*the segment at 0\.5 s has no length"):
        load_audio(cut_of(tmp_path / "a.wav", 16000, start=0.5, duration=1e-6), 16000)


def test_a_rate_other_than_the_manifest_says_is_an_error(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(1, 8000), 8000)
    with pytest.raises(FewerError, match=r"utt .*a\.wav.*8000 Hz, but the manifest says 16000 Hz"):
        load_audio(cut_of(tmp_path / "a.wav", 8000, 16000), 16000)


def test_a_channel_that_the_file_lacks_is_an_error(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(1), 16000)
    with pytest.raises(FewerError, match="the file has 1 channels, but channel 1 is wanted"):
        load_audio(cut_of(tmp_path / "a.wav", 16000, channel=1, channels=2), 16000)


def test_a_segment_may_end_a_little_after_its_file_but_not_much(tmp_path):
    samples = noise(1)
    soundfile.write(tmp_path / "a.wav", samples, 16000)
    assert len(load_audio(cut_of(tmp_path / "a.wav", 16800), 16000)) == 16000
    with pytest.raises(FewerError, match=r"ends 0.50 s before the segment does"):
        load_audio(cut_of(tmp_path / "a.wav", 24000), 16000)


def test_samples_that_are_no_numbers_are_an_error(tmp_path):
    samples = noise(1)
    for value, problem in ((np.nan, "not finite"), (np.inf, "not finite"), (1e38, r"a sample of 1e\+38")):
        samples[77] = value
        with pytest.raises(FewerError, match=rf"utt .*{problem}"):
            load_audio(file_cut(tmp_path / "a.wav", samples), 16000)
