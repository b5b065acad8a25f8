import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fewer.config import Config, parse_config
from fewer.data.extractor import FeaturesConfig, GammatoneConfig, LogMelConfig, MfccConfig, dct_matrix
from fewer.data.features import feature_extractor, slaney_mel_filters
from fewer.errors import FewerError

from .sounds import noise, tone

KINDS = [
    MfccConfig(),
    MfccConfig(style="librosa"),
    MfccConfig(sampling_rate=8000),
    MfccConfig(style="librosa", sampling_rate=8000),
    LogMelConfig(),
    GammatoneConfig(),
    GammatoneConfig(sampling_rate=8000, dct=False, per_utterance=False),
]
EXTRACTORS = [feature_extractor(config) for config in KINDS]
NAMES = [f"{config.kind}-{getattr(config, 'style', '')}-{config.sampling_rate}" for config in KINDS]


def speech_like(samples, seed=0):
    """Noise whose loudness and colour change, with a silence."""
    rng = np.random.default_rng(seed)
    raw = rng.standard_normal(samples)
    coloured = np.cumsum(raw) * 0.02 * (np.arange(samples) % 3000 > 1000) + raw * 0.01
    coloured[samples // 3 : samples // 2] *= 1e-4
    return torch.from_numpy((coloured / np.abs(coloured).max() / 2).astype(np.float32))


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=NAMES)
@settings(max_examples=25, deadline=None)
@given(extra=st.integers(0, 12000))
def test_frames_says_how_many_frames_come(extractor, extra):
    samples = speech_like(extractor.min_samples + extra)
    features = extractor(samples)
    assert features.shape == (extractor.frames(len(samples)), extractor.dim)
    assert features.dtype == torch.float32
    assert features.isfinite().all()


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=NAMES)
def test_a_frame_every_ten_milliseconds(extractor):
    assert extractor.frame_shift == 0.01
    assert extractor.frames(30 * extractor.sampling_rate) == pytest.approx(3000, abs=3)


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=NAMES)
def test_silence_gives_finite_features(extractor):
    assert extractor(torch.zeros(4000)).isfinite().all()


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=NAMES)
def test_audio_shorter_than_a_window_is_an_error(extractor):
    with pytest.raises(FewerError, match="too short: 24 ms, but one frame needs 25 ms"):
        extractor(torch.zeros(extractor.min_samples * 24 // 25))


@pytest.mark.parametrize("rate", [16000, 8000])
@pytest.mark.filterwarnings("ignore:Empty filters")
def test_librosa_style_agrees_with_librosa(rate):
    librosa = pytest.importorskip("librosa")
    samples = speech_like(2 * rate + 123)
    size, hop = rate // 40, rate // 100
    expected = librosa.feature.mfcc(y=samples.numpy(), sr=rate, n_mfcc=40, n_fft=size, hop_length=hop)
    expected[0] = librosa.feature.rms(y=samples.numpy(), frame_length=size, hop_length=hop)
    features = feature_extractor(MfccConfig(style="librosa", sampling_rate=rate))(samples)
    np.testing.assert_allclose(features.numpy(), expected.T, atol=2e-3, rtol=1e-4)


def test_slaney_filters_agree_with_librosa():
    librosa = pytest.importorskip("librosa")
    expected = librosa.filters.mel(sr=16000, n_fft=400, n_mels=128)
    np.testing.assert_allclose(slaney_mel_filters(128, 400, 16000).T.numpy(), expected, atol=1e-8)


def test_kaldi_style_agrees_with_a_plain_reading_of_its_recipe():
    """Povey window, pre-emphasis 0.97, 512-point power spectrum, 40 mel filters, DCT, lifter 22, in NumPy."""
    samples = speech_like(8000).numpy().astype(np.float64)
    frame = samples[160 * 20 - 120 : 160 * 20 + 280]
    frame = frame - frame.mean()
    frame = frame - 0.97 * np.concatenate([frame[:1], frame[:-1]])
    frame = frame * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)) ** 0.85
    power = np.abs(np.fft.rfft(frame, 512)) ** 2

    def mel(hertz):
        return 1127 * np.log(1 + hertz / 700)

    edges = np.linspace(mel(20), mel(7600), 42)
    bins = mel(np.arange(256) * 16000 / 512)
    energies = np.array(
        [
            power[:256] @ np.clip(np.minimum((bins - lo) / (mid - lo), (hi - bins) / (hi - mid)), 0, None)
            for lo, mid, hi in zip(edges, edges[1:], edges[2:], strict=False)
        ]
    )
    cepstra = np.log(np.maximum(energies, 2.0**-23)) @ dct_matrix(40, 40).numpy()
    cepstra *= 1 + 11 * np.sin(np.pi * np.arange(40) / 22)
    features = feature_extractor(MfccConfig())(torch.from_numpy(samples.astype(np.float32)))
    np.testing.assert_allclose(features[20].numpy(), cepstra, atol=5e-3)


def test_the_dct_is_orthonormal():
    matrix = dct_matrix(40, 40)
    torch.testing.assert_close(matrix.T @ matrix, torch.eye(40, dtype=torch.float64))


def test_log_mel_peaks_where_the_tone_is():
    extractor = feature_extractor(LogMelConfig())
    peaks = [int(extractor(torch.from_numpy(tone(f, 0.5)))[25].argmax()) for f in (300, 700, 1500, 3000, 6000)]
    assert peaks == sorted(set(peaks))


BANK = feature_extractor(GammatoneConfig(dct=False, per_utterance=False))


@pytest.mark.parametrize("channel", range(0, 40, 3))
def test_the_right_gammatone_filter_answers_a_tone_at_its_centre(channel):
    frequency = float(BANK.centre_frequencies()[channel])
    energies = BANK(torch.from_numpy(tone(frequency, 0.5)))[20:40] ** 10
    assert set(energies.argmax(1).tolist()) == {channel}


def test_gammatone_filters_have_gain_one_at_their_centres():
    """The mean of |sin| over a Hann window is 2/π; pre-emphasis by a difference has gain 2·sin(ω/2)."""
    for frequency in BANK.centre_frequencies().tolist()[::6]:
        energies = BANK(torch.from_numpy(tone(frequency, 0.5)))[25:40].mean(0) ** 10
        input_level = 0.3 * 32768 * 0.00035 * 2 * np.sin(np.pi * frequency / 16000)
        assert float(energies.max()) == pytest.approx(input_level * 2 / np.pi * 399 / 2, rel=0.03)


def test_gammatone_centres_follow_the_cochlea():
    centres = BANK.centre_frequencies()
    assert centres[0] == pytest.approx(100)
    assert centres[-1] == pytest.approx(7500)
    places = torch.log10(centres / 165.4 + 0.88) / 2.1
    torch.testing.assert_close(places.diff(), places.diff()[:1].expand(39))
    telephone = feature_extractor(GammatoneConfig(sampling_rate=8000))
    assert telephone.centre_frequencies()[-1] == pytest.approx(3800)


def test_gammatone_agrees_with_recursive_filtering_sample_by_sample():
    """Four resonators in a row, rectified and integrated, as difference equations; long enough for several blocks."""
    samples = speech_like(16000)
    emphasised = np.diff(samples.numpy().astype(np.float64), prepend=0.0) * 32768 * 0.00035
    channels = [0, 13, 39]
    for channel in channels:
        angle = 2 * np.pi * float(BANK.centre_frequencies()[channel]) / 16000
        radius = np.exp(-2 * np.pi * 24.7 * (4.37e-3 * angle * 16000 / (2 * np.pi) + 1) / 16000)
        z = np.exp(-1j * angle)
        gain = abs((1 - 2 * radius * np.cos(angle) * z + radius**2 * z**2) / (1 - radius * np.cos(angle) * z))
        signal = emphasised
        for _ in range(4):
            output, earlier, earliest, before = np.zeros_like(signal), 0.0, 0.0, 0.0
            for n, value in enumerate(signal):
                output[n] = (
                    gain * (value - radius * np.cos(angle) * before)
                    + 2 * radius * np.cos(angle) * earlier
                    - radius**2 * earliest
                )
                earlier, earliest, before = output[n], earlier, value
            signal = output
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 399)
        padded = np.pad(np.abs(signal), (0, 400))
        expected = [padded[start : start + 400] @ window for start in range(0, 16000 - 400 + 160, 160)]
        features = BANK(samples)[:, channel].numpy()
        np.testing.assert_allclose(features[:-3], np.array(expected)[: len(features) - 3] ** 0.1, atol=2e-3)


def test_gammatone_utterances_have_mean_0_and_deviation_3():
    features = feature_extractor(GammatoneConfig())(speech_like(30000))
    torch.testing.assert_close(features.mean(0), torch.zeros(40), atol=1e-4, rtol=0)
    torch.testing.assert_close(features.std(0, correction=0), torch.full((40,), 3.0))


def test_features_of_a_stretch_do_not_depend_on_how_audio_goes_on():
    for config in (MfccConfig(), LogMelConfig(), GammatoneConfig(per_utterance=False)):
        extractor = feature_extractor(config)
        long = speech_like(40000)
        torch.testing.assert_close(extractor(long)[:80], extractor(long[:16000])[:80], atol=1e-4, rtol=1e-4)


def test_impossible_filters_are_named():
    with pytest.raises(FewerError, match="100 to 9000 Hz do not fit audio at 16000 Hz"):
        feature_extractor(GammatoneConfig(max_frequency=9000))
    with pytest.raises(FewerError, match="128 mel filters, found dim 200"):
        feature_extractor(MfccConfig(style="librosa", dim=200))


class Experiment(Config):
    features: FeaturesConfig


@pytest.mark.parametrize(
    ("values", "config"),
    [
        ({"kind": "mfcc"}, MfccConfig(dim=40, normalise="global", clip=3.0)),
        (
            {"kind": "gammatone", "sampling_rate": 8000},
            GammatoneConfig(sampling_rate=8000, normalise="scale", scale=3.0),
        ),
        ({"kind": "log_mel", "dim": 64}, LogMelConfig(dim=64)),
    ],
)
def test_the_kind_chooses_the_options(values, config):
    assert parse_config(Experiment, {"features": values}, "x.yaml").features == config
    assert TypeAdapter(FeaturesConfig).validate_python(config.model_dump(mode="json")) == config


def test_an_option_of_another_kind_is_an_error():
    with pytest.raises(FewerError, match=r"x.yaml: unknown key 'features.log_mel.dct'"):
        parse_config(Experiment, {"features": {"kind": "log_mel", "dct": True}}, "x.yaml")


def test_noise_gives_features_without_a_trend():
    """A filter bank that left transients at block edges would show them here."""
    energies = BANK(torch.from_numpy(noise(4.0)))[20:-20]
    means = energies[: len(energies) // 39 * 39].view(-1, 39, 40).mean((0, 2))  # by place in the block
    assert float(means.max() - means.min()) < 0.02
