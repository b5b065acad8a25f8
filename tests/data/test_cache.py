import os
import pickle
import signal

import numpy as np
import pytest
import torch

import fewer.data.cache
from fewer.compute.world import joined
from fewer.data.cache import FeatureCache
from fewer.data.extractor import CacheConfig, LogMelConfig, MfccConfig
from fewer.data.reader import FeatureReader, RawFeatures, measure_statistics
from fewer.errors import FewerError
from tests.training.processes import exit_code, run_in_two_processes

from .manifests import write_manifest
from .sounds import file_cut, noise

UTTERANCES = 7


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(fewer.data.cache, "SHARD", 3)


@pytest.fixture
def cuts(tmp_path):
    return [file_cut(tmp_path / f"{i}.wav", noise(0.2 + 0.03 * i, seed=i), id=f"u{i}") for i in range(UTTERANCES)]


@pytest.fixture
def manifest(tmp_path, cuts):
    return write_manifest(tmp_path / "train.jsonl", cuts)


def config(tmp_path, dtype="float32", dim=20, **options):
    return LogMelConfig(dim=dim, cache=CacheConfig(folder=tmp_path / "cache", dtype=dtype), **options)


def shards(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache" / "train").glob("*.safetensors"))


@pytest.mark.parametrize(("dtype", "precision"), [("float32", 0), ("float16", 1e-3)])
def test_cached_features_are_those_computed_on_the_fly_and_need_no_audio(tmp_path, cuts, manifest, dtype, precision):
    options = config(tmp_path, dtype)
    fresh = RawFeatures(options)
    expected = {(cut.id, speed): fresh.read(cut, speed) for cut in cuts for speed in (0.9, 1.0)}
    RawFeatures.open(options, manifest, cuts, (0.9, 1.0))
    for path in tmp_path.glob("*.wav"):
        path.unlink()
    cached = RawFeatures.open(options, manifest, cuts, (0.9, 1.0))
    assert (cached.dim, cached.frame_shift) == (20, 0.01)
    for cut in reversed(cuts):
        for speed in (1.0, 0.9):
            features = cached.read(cut, speed)
            assert features.dtype == torch.float32
            torch.testing.assert_close(features, expected[cut.id, speed], rtol=precision, atol=precision)


def test_the_reader_hides_whether_there_is_a_cache(tmp_path, cuts, manifest):
    options = config(tmp_path, clip=3.0)
    raw = RawFeatures.open(options, manifest, cuts)
    statistics = measure_statistics(raw, cuts)
    cached, fresh = FeatureReader(options, statistics, raw.cache), FeatureReader(options, statistics)
    assert cached.dim == fresh.dim == 20
    for cut in cuts:
        assert torch.equal(cached.read(cut), fresh.read(cut))
    normalised = torch.cat([FeatureReader(config(tmp_path), statistics).read(cut) for cut in cuts])
    torch.testing.assert_close(normalised.mean(0), torch.zeros(20), atol=1e-4, rtol=0)


def test_a_killed_build_goes_on_where_it_was(tmp_path, cuts, manifest):
    """The process dies by SIGKILL at each utterance in turn; no utterance of a complete file is computed again."""
    options = config(tmp_path)
    raw = RawFeatures(options)
    computed = []
    for victim in range(UTTERANCES):
        assert exit_code(_build_until, f"u{victim}", options, manifest, cuts) == -signal.SIGKILL
        assert shards(tmp_path) == [f"1-{shard:05d}.safetensors" for shard in range(victim // 3)]

    cache = FeatureCache.open(options, manifest, UTTERANCES, lambda: (20, 0.01))
    cache.build(cuts, (1.0,), lambda cut, speed: computed.append(cut.id) or raw.compute(cut, speed))
    assert computed == ["u6"]
    for cut in cuts:
        assert torch.equal(cache.read(cut.id, 1.0), raw.read(cut))
    cache.build(cuts, (1.0,), lambda cut, speed: pytest.fail("computed again"))


def _build_until(victim, options, manifest, cuts):
    def extract(cut, speed):
        if cut.id == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        return RawFeatures(options).compute(cut, speed)

    fewer.data.cache.SHARD = 3
    FeatureCache.open(options, manifest, UTTERANCES, lambda: (20, 0.01)).build(cuts, (1.0,), extract)


def test_a_failing_utterance_leaves_nothing_half_written(tmp_path, cuts, manifest):
    (tmp_path / "4.wav").write_bytes(b"")
    with pytest.raises(FewerError, match=r"u4 .*4\.wav"):
        RawFeatures.open(config(tmp_path), manifest, cuts)
    names = {path.name for path in (tmp_path / "cache" / "train").iterdir()}
    assert names == {"cache.json", "1-00000.safetensors"}


def test_other_options_are_noticed(tmp_path, cuts, manifest):
    RawFeatures.open(config(tmp_path), manifest, cuts)
    with pytest.raises(FewerError, match=r"cache.train was built for something else \(features.dim was 20, is 30\)"):
        RawFeatures.open(config(tmp_path, dim=30), manifest, cuts)
    with pytest.raises(FewerError, match="dtype was float32, is float16"):
        RawFeatures.open(config(tmp_path, "float16"), manifest, cuts)
    with pytest.raises(FewerError, match=r"features.kind was log_mel, is mfcc"):
        RawFeatures.open(MfccConfig(cache=CacheConfig(folder=tmp_path / "cache")), manifest, cuts)


def test_normalisation_is_no_part_of_the_cache(tmp_path, cuts, manifest):
    RawFeatures.open(config(tmp_path), manifest, cuts)
    RawFeatures.open(config(tmp_path, normalise="none", clip=1.0), manifest, cuts)


def test_another_manifest_is_noticed(tmp_path, cuts, manifest):
    RawFeatures.open(config(tmp_path), manifest, cuts)
    write_manifest(manifest, cuts[:5])
    with pytest.raises(FewerError, match=r"manifest was .*utterances was 7, is 5.*delete it"):
        RawFeatures.open(config(tmp_path), manifest, cuts[:5])


def test_each_manifest_has_its_own_place(tmp_path, cuts, manifest):
    dev = write_manifest(tmp_path / "dev.jsonl.gz", cuts[:2])
    RawFeatures.open(config(tmp_path), manifest, cuts)
    raw = RawFeatures.open(config(tmp_path), dev, cuts[:2])
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["dev", "train"]
    with pytest.raises(FewerError, match="does not know utterance u5"):
        raw.read(cuts[5])


def test_a_new_speed_is_added_to_what_is_there(tmp_path, cuts, manifest):
    raw = RawFeatures.open(config(tmp_path), manifest, cuts)
    with pytest.raises(FewerError, match=r"was not built for speed 1.1"):
        raw.read(cuts[0], 1.1)
    before = {name: (tmp_path / "cache" / "train" / name).stat().st_mtime_ns for name in shards(tmp_path)}
    raw = RawFeatures.open(config(tmp_path), manifest, cuts, (1.0, 1.1))
    assert len(raw.read(cuts[0], 1.1)) < len(raw.read(cuts[0], 1.0))
    assert all((tmp_path / "cache" / "train" / name).stat().st_mtime_ns == time for name, time in before.items())


@pytest.mark.parametrize("size", [0, 20, -40])
@pytest.mark.parametrize("name", ["1-00001.safetensors", "index-1.npy", "cache.json"])
def test_a_truncated_file_is_named(tmp_path, cuts, manifest, name, size):
    RawFeatures.open(config(tmp_path), manifest, cuts)
    file = tmp_path / "cache" / "train" / name
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(FewerError, match=name):
        RawFeatures.open(config(tmp_path), manifest, cuts).read(cuts[4])


@pytest.mark.parametrize("name", ["1-00001.safetensors", "index-1.npy"])
def test_what_the_message_says_to_delete_is_made_again(tmp_path, cuts, manifest, name):
    expected = RawFeatures.open(config(tmp_path), manifest, cuts).read(cuts[4])
    folder = tmp_path / "cache" / "train"
    (folder / name).unlink()
    (folder / "index-1.npy").unlink(missing_ok=True)
    assert torch.equal(RawFeatures.open(config(tmp_path), manifest, cuts).read(cuts[4]), expected)


def test_two_utterances_with_one_id_are_named(tmp_path, cuts):
    twins = [*cuts, cuts[2]]
    manifest = write_manifest(tmp_path / "train.jsonl", twins)
    with pytest.raises(FewerError, match="utterances u2 and u2 have the same id"):
        RawFeatures.open(config(tmp_path), manifest, twins)


def test_values_that_do_not_fit_are_named(tmp_path, cuts, manifest):
    cache = FeatureCache.open(config(tmp_path, "float16"), manifest, UTTERANCES, lambda: (20, 0.01))
    with pytest.raises(FewerError, match=r"utterance u0: .*float16; set features.cache.dtype to float32"):
        cache.build(cuts, (1.0,), lambda cut, speed: torch.full((5, 20), 1e6))


def test_a_reader_travels_to_other_processes(tmp_path, cuts, manifest):
    options = config(tmp_path, normalise="none")
    reader = FeatureReader(options, None, RawFeatures.open(options, manifest, cuts).cache)
    expected = reader.read(cuts[3])
    assert len(pickle.dumps(reader)) < 20000
    assert torch.equal(pickle.loads(pickle.dumps(reader)).read(cuts[3]), expected)


def test_an_index_is_memory_mapped(tmp_path, cuts, manifest):
    cache = RawFeatures.open(config(tmp_path), manifest, cuts).cache
    cache.read("u3", 1.0)
    assert isinstance(cache.indices[1.0], np.memmap)


def _build_in_group(folder, manifest, cuts):
    fewer.data.cache.SHARD = 3
    with joined("cpu"):
        raw = RawFeatures.open(config(folder), manifest, cuts)
        assert torch.equal(raw.read(cuts[6]), RawFeatures(config(folder)).read(cuts[6]))


def test_processes_of_a_group_share_the_work(tmp_path, cuts, manifest):
    run_in_two_processes(_build_in_group, tmp_path, manifest, cuts)
    assert shards(tmp_path) == [f"1-{shard:05d}.safetensors" for shard in range(3)]
    raw = RawFeatures.open(config(tmp_path), manifest, cuts)
    for cut in cuts:
        assert torch.equal(raw.read(cut), RawFeatures(config(tmp_path)).read(cut))
