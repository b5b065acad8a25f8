import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewer.compute.world import joined
from fewer.data.extractor import GammatoneConfig, LogMelConfig, MfccConfig
from fewer.data.reader import RawFeatures, measure_statistics
from fewer.data.statistics import Normaliser, Statistics
from fewer.errors import FewerError
from tests.training.processes import run_in_two_processes

from .sounds import file_cut, noise


def corpus(seed=0, utterances=5, dim=4):
    """Utterances far from zero, where sums of squares would cancel."""
    rng = np.random.default_rng(seed)
    offset = np.array([1e4, -300.0, 0.0, 5.0])[:dim]
    return [
        torch.from_numpy((rng.standard_normal((int(rng.integers(1, 60)), dim)) + offset).astype(np.float32))
        for _ in range(utterances)
    ]


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 4))
def test_any_split_gives_the_moments_of_all_frames(seed, utterances, parts):
    features = corpus(seed, utterances)
    shards = [
        Statistics.merge([Statistics.empty(4), *(Statistics.of(one) for one in features[part::parts])])
        for part in range(parts)
    ]
    total = Statistics.merge(shards)
    everything = torch.cat(features).double().numpy()
    assert total.count == len(everything)
    np.testing.assert_allclose(total.mean.numpy(), everything.mean(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(total.deviation.numpy(), everything.std(0), rtol=1e-9, atol=1e-9)


def test_global_normalisation_gives_mean_0_and_deviation_1_and_clips():
    features = corpus(utterances=50)
    statistics = Statistics.merge(Statistics.of(one) for one in features)
    normalise = Normaliser(MfccConfig(clip=None), statistics)
    normalised = torch.cat([normalise(one) for one in features])
    torch.testing.assert_close(normalised.mean(0), torch.zeros(4), atol=1e-3, rtol=0)
    torch.testing.assert_close(normalised.std(0, correction=0), torch.ones(4), atol=1e-3, rtol=0)
    clipped = torch.cat([Normaliser(MfccConfig(clip=1.5), statistics)(one) for one in features])
    assert clipped.abs().max() == 1.5
    torch.testing.assert_close(clipped, normalised.clamp(-1.5, 1.5))


def test_librispeech_features_are_clipped_at_3_and_switchboard_features_divided_by_3_without_clipping():
    statistics = Statistics(10, torch.zeros(1, dtype=torch.float64), torch.full((1,), 10.0, dtype=torch.float64))
    values = torch.tensor([[-30.0], [1.5], [30.0]])
    assert Normaliser(MfccConfig(), statistics)(values).flatten().tolist() == [-3.0, 1.5, 3.0]
    assert Normaliser(GammatoneConfig())(values).flatten().tolist() == pytest.approx([-10.0, 0.5, 10.0])


def test_no_normalisation_leaves_features_as_they_are():
    values = torch.randn(3, 40)
    assert torch.equal(Normaliser(LogMelConfig(normalise="none"))(values), values)


def test_a_constant_dimension_becomes_zero():
    features = torch.cat([torch.randn(100, 1), torch.full((100, 1), 7.0)], 1)
    normalised = Normaliser(LogMelConfig(), Statistics.of(features))(features)
    assert normalised[:, 1].abs().max() == 0
    assert normalised.isfinite().all()


def test_saved_statistics_are_the_same_after_loading(tmp_path):
    statistics = Statistics.merge(Statistics.of(one) for one in corpus())
    statistics.save(tmp_path / "statistics.safetensors", MfccConfig())
    loaded = Statistics.load(tmp_path / "statistics.safetensors", MfccConfig(clip=None))
    assert loaded.count == statistics.count
    assert torch.equal(loaded.mean, statistics.mean)
    assert torch.equal(loaded.deviation, statistics.deviation)


def test_statistics_of_other_features_are_refused(tmp_path):
    Statistics.of(torch.randn(9, 40)).save(tmp_path / "statistics.safetensors", MfccConfig())
    with pytest.raises(FewerError, match=r"statistics\.safetensors .*style was kaldi, is librosa"):
        Statistics.load(tmp_path / "statistics.safetensors", MfccConfig(style="librosa"))


@pytest.mark.parametrize("keep", [None, 0, 30, -8])
def test_missing_or_truncated_statistics_are_named(tmp_path, keep):
    path = tmp_path / "statistics.safetensors"
    if keep is not None:
        Statistics.of(torch.randn(9, 40)).save(path, MfccConfig())
        path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(FewerError, match=r"cannot read the feature statistics .*statistics\.safetensors"):
        Statistics.load(path, MfccConfig())


def test_global_normalisation_needs_statistics():
    with pytest.raises(FewerError, match="no statistics"):
        Normaliser(MfccConfig())


def test_measuring_sees_every_frame_once(tmp_path):
    cuts = [file_cut(tmp_path / f"{i}.wav", noise(0.2 + 0.1 * i, seed=i), id=f"u{i}") for i in range(4)]
    raw = RawFeatures(LogMelConfig())
    everything = torch.cat([raw.read(cut) for cut in cuts]).double()
    statistics = measure_statistics(raw, cuts)
    assert statistics.count == len(everything)
    torch.testing.assert_close(statistics.mean, everything.mean(0))
    torch.testing.assert_close(statistics.deviation, everything.std(0, correction=0))


def _measure_in_group(folder):
    with joined("cpu") as world:
        cuts = [file_cut(folder / f"{world.rank}-{i}.wav", noise(0.2 + 0.1 * i, seed=i), id=f"u{i}") for i in range(3)]
        statistics = measure_statistics(RawFeatures(LogMelConfig()), cuts)
        statistics.save(folder / f"{world.rank}.safetensors", LogMelConfig())


def test_two_processes_with_unequal_shares_measure_what_one_does(tmp_path):
    run_in_two_processes(_measure_in_group, tmp_path)
    cuts = [file_cut(tmp_path / f"{i}.wav", noise(0.2 + 0.1 * i, seed=i), id=f"u{i}") for i in range(3)]
    alone = measure_statistics(RawFeatures(LogMelConfig()), cuts)
    for rank in range(2):
        together = Statistics.load(tmp_path / f"{rank}.safetensors", LogMelConfig())
        assert together.count == alone.count
        torch.testing.assert_close(together.mean, alone.mean, rtol=1e-12, atol=0)
        torch.testing.assert_close(together.deviation, alone.deviation, rtol=1e-12, atol=0)
