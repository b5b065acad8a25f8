import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.config import parse_config
from fewer.data.synthesis.room import (
    RoomConfig,
    Scene,
    convolve,
    draw_scene,
    impulse_response,
    make_noise,
    noise_gain,
    record,
)
from fewer.errors import FewerError

RATE = 16_000
KINDS = ("white", "pink", "surf", "hum", "babble")


def rng(seed=0):
    return np.random.default_rng(seed)


def speechlike(seconds=1.5):
    time = np.arange(int(seconds * RATE)) / RATE
    return (np.sin(2 * np.pi * 180 * time) * (1 + np.sin(2 * np.pi * 4 * time))).astype(np.float32) * 0.2


def babble():
    return rng(9).standard_normal(2 * RATE).astype(np.float32)


def power(samples):
    return np.mean(np.asarray(samples, dtype=float) ** 2)


@settings(max_examples=30, deadline=None)
@given(snr=st.floats(-20, 40), kind=st.sampled_from(KINDS), seed=st.integers(0, 1000))
def test_noise_lies_as_far_below_the_speech_as_the_snr_says(snr, kind, seed):
    speech, noise = speechlike(0.5), make_noise(kind, 9000, RATE, rng(seed), babble())
    scaled = noise * noise_gain(speech, noise, snr)
    assert 10 * np.log10(power(speech) / power(scaled)) == pytest.approx(snr, abs=0.01)


@pytest.mark.parametrize("reverberation", [0.15, 0.3, 0.6])
def test_the_tail_of_a_room_decays_by_60_db_in_the_reverberation_time(reverberation):
    # The slope of the backward-integrated energy (Schroeder) between -5 and -25 dB of the tail.
    response = impulse_response(reverberation, RATE, rng())[int(0.05 * RATE) :]
    decay = 10 * np.log10(np.cumsum(response[::-1].astype(float) ** 2)[::-1])
    decay -= decay[0]
    inside = np.flatnonzero((decay < -5) & (decay > -25))
    slope = np.polyfit(inside / RATE, decay[inside], 1)[0]
    assert -60 / slope == pytest.approx(reverberation, rel=0.2)


def test_the_direct_sound_comes_first_and_is_the_loudest():
    for seed in range(20):
        response = impulse_response(0.4, RATE, rng(seed))
        assert response[0] == 1.0
        assert np.abs(response[1:]).max() < 1.0


@settings(max_examples=20, deadline=None)
@given(first=st.integers(1, 6000), second=st.integers(1, 3000))
def test_convolution_is_the_one_of_the_definition(first, second):
    signal, response = rng(1).standard_normal(first), rng(2).standard_normal(second)
    ours = convolve(signal.astype(np.float32), response.astype(np.float32))
    np.testing.assert_allclose(ours, np.convolve(signal, response), atol=1e-3)


@pytest.mark.parametrize(("kind", "per_octave"), [("white", 0.0), ("pink", -3.0), ("surf", -4.2)])
def test_noises_have_their_colours(kind, per_octave):
    noise = make_noise(kind, 20 * RATE, RATE, rng(), babble())
    spectrum = np.abs(np.fft.rfft(noise)) ** 2
    frequency = np.fft.rfftfreq(len(noise), 1 / RATE)
    bands = [10 * np.log10(spectrum[(frequency > low) & (frequency < 2 * low)].mean()) for low in (200, 400, 800, 1600)]
    assert np.mean(np.diff(bands)) == pytest.approx(per_octave, abs=0.4)


def test_hum_is_the_mains_and_its_harmonics():
    spectrum = np.abs(np.fft.rfft(make_noise("hum", RATE, RATE, rng(), babble())))
    loudest = set(np.argsort(spectrum)[-6:].tolist())
    assert loudest in ({50, 100, 150, 200, 250, 300}, {60, 120, 180, 240, 300, 360})


def test_babble_is_cut_from_the_voices_given_and_goes_round():
    voices = np.arange(100, dtype=np.float32)
    cut = make_noise("babble", 250, RATE, rng(), voices)
    np.testing.assert_array_equal(np.diff(cut) % 100, 1)


def test_the_same_seed_gives_the_same_recording():
    config, scene = RoomConfig(), Scene("surf", 10.0, 0.3)
    first = record(speechlike(), scene, config, rng(5), babble(), RATE)
    np.testing.assert_array_equal(first, record(speechlike(), scene, config, rng(5), babble(), RATE))
    assert not np.array_equal(first, record(speechlike(), scene, config, rng(6), babble(), RATE))


@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_has_its_level_its_silences_and_its_snr(kind):
    config = RoomConfig(level=(-26, -26), silence=(0.5, 0.5))
    samples = record(speechlike(), Scene(kind, 15.0, 0.0), config, rng(), babble(), RATE) / 32768
    assert len(samples) == 2.5 * RATE
    assert 10 * np.log10(power(samples)) == pytest.approx(-26, abs=0.05)
    noise = np.concatenate([samples[: RATE // 2], samples[-RATE // 2 :]])
    speech = power(samples[RATE // 2 : -RATE // 2]) - power(noise)
    assert 10 * np.log10(speech / power(noise)) == pytest.approx(15, abs=4 if kind == "surf" else 0.6)


def test_a_recording_never_clips():
    click = np.zeros(RATE, dtype=np.float32)
    click[100] = 1.0
    samples = record(click, Scene("white", 60.0, 0.0), RoomConfig(level=(-10, -10)), rng(), babble(), RATE)
    assert 32000 < np.abs(samples.astype(int)).max() < 32767


def test_scenes_keep_to_their_ranges():
    config = RoomConfig(snr=(3, 4), reverberation=(0.2, 0.25), dry=0.5, noises=("pink", "hum"))
    scenes = [draw_scene(config, rng(seed)) for seed in range(300)]
    assert all(3 <= scene.snr <= 4 for scene in scenes)
    assert {scene.noise for scene in scenes} == {"pink", "hum"}
    wet = [scene.reverberation for scene in scenes if scene.reverberation]
    assert 100 < len(wet) < 200
    assert all(0.2 <= time <= 0.25 for time in wet)


def test_a_range_upside_down_or_an_unknown_noise_is_refused():
    with pytest.raises(FewerError, match=r"demo\.yaml: snr: .*first must not be greater"):
        parse_config(RoomConfig, {"snr": [20, 5]}, "demo.yaml")
    with pytest.raises(FewerError, match=r"demo\.yaml: noises"):
        parse_config(RoomConfig, {"noises": ["thunder"]}, "demo.yaml")
