import shutil
import sys

import numpy as np
import pytest
import torch

from fewer.data.extractor import CacheConfig, PretrainedConfig
from fewer.data.features import feature_extractor
from fewer.data.pretrained import pool_frames
from fewer.data.reader import FeatureReader, RawFeatures
from fewer.data.statistics import Statistics
from fewer.errors import FewerError

from .manifests import write_manifest
from .sounds import file_cut, noise

transformers = pytest.importorskip("transformers")


def save_whisper(folder, seed=0):
    torch.manual_seed(seed)
    config = transformers.WhisperConfig(
        vocab_size=50, num_mel_bins=80, d_model=16, encoder_layers=2, encoder_attention_heads=2, encoder_ffn_dim=32,
        decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=32, dropout=0.5, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=3,
    )  # fmt: skip
    model = transformers.WhisperModel(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    transformers.WhisperFeatureExtractor().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    return save_whisper(tmp_path_factory.mktemp("whisper"))


def speech(seconds, seed=0):
    return torch.from_numpy(noise(seconds, seed=seed))


def own_encoding(folder, samples, positions):
    """What the model's own code gives when it is made for inputs of just this length."""
    encoder = transformers.WhisperModel.from_pretrained(folder).encoder
    config = transformers.WhisperConfig(**{**encoder.config.to_dict(), "max_source_positions": positions})
    small = transformers.WhisperModel(config).encoder.eval()
    weights = encoder.state_dict()
    weights["embed_positions.weight"] = weights["embed_positions.weight"][:positions]
    small.load_state_dict(weights)
    prepare = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    mel = prepare(samples.numpy(), sampling_rate=16000, padding="longest", return_tensors="pt").input_features
    return small(torch.nn.functional.pad(mel, (0, 2 * positions - mel.shape[2]))).last_hidden_state[0].detach()


def test_an_utterance_is_encoded_alone_with_the_first_positions(whisper):
    samples = speech(1.28)
    features = feature_extractor(PretrainedConfig(model=whisper, pool=1))(samples)
    assert features.shape == (64, 16)
    torch.testing.assert_close(features, own_encoding(whisper, samples, 64), atol=1e-5, rtol=1e-5)


def test_the_full_window_is_what_the_model_makes_of_30_seconds(whisper):
    samples = speech(1.0)
    features = feature_extractor(PretrainedConfig(model=whisper, pool=1, full_window=True))(samples)
    padded = torch.nn.functional.pad(samples, (0, 30 * 16000 - 16000))
    expected = own_encoding(whisper, padded, 1500)[:50]
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=1e-5)
    alone = feature_extractor(PretrainedConfig(model=whisper, pool=1))(samples)
    assert not torch.allclose(features, alone, atol=1e-2)


@pytest.mark.parametrize("pooling", ["mean", "stack"])
@pytest.mark.parametrize("pool", [1, 2, 3, 4])
@pytest.mark.parametrize("samples", [400, 16000, 16159, 16160, 23456])
def test_dim_frames_and_shift_are_as_promised(whisper, pool, pooling, samples):
    extractor = feature_extractor(PretrainedConfig(model=whisper, pool=pool, pooling=pooling))
    features = extractor(speech(samples / 16000))
    assert features.shape == (extractor.frames(samples), extractor.dim)
    assert extractor.dim == 16 * (pool if pooling == "stack" else 1)
    assert extractor.frame_shift == pytest.approx(0.02 * pool)


def test_pooling_averages_the_frames_that_there_are_or_puts_them_side_by_side():
    states = torch.arange(10.0).view(5, 2)
    assert pool_frames(states, 2, "mean").tolist() == [[1, 2], [5, 6], [8, 9]]
    assert pool_frames(states, 2, "stack").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 0, 0]]
    assert torch.equal(pool_frames(states, 1, "mean"), states)


def test_features_do_not_depend_on_what_else_was_encoded(whisper):
    extractor = feature_extractor(PretrainedConfig(model=whisper))
    utterances = [speech(seconds, seed) for seed, seconds in enumerate((0.5, 1.7, 0.9, 1.7))]
    forwards = [extractor(samples) for samples in utterances]
    backwards = [extractor(samples) for samples in reversed(utterances)][::-1]
    for one, other in zip(forwards, backwards, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_the_encoder_is_frozen_and_never_in_training_mode(whisper):
    extractor = feature_extractor(PretrainedConfig(model=whisper))
    samples = speech(0.5)
    expected = extractor(samples)
    assert torch.equal(extractor.train()(samples), expected)
    assert not expected.requires_grad
    assert not any(parameter.requires_grad for parameter in extractor.parameters())


def test_audio_longer_than_the_model_knows_is_encoded_in_equal_pieces(whisper):
    extractor = feature_extractor(PretrainedConfig(model=whisper, pool=1))
    samples = speech(30.41)
    features, first = extractor(samples), 761 * 320  # half of it, in whole frames
    assert len(features) == extractor.frames(len(samples))
    expected = torch.cat([extractor(samples[:first]), extractor(samples[first:])])
    torch.testing.assert_close(features, expected, atol=1e-5, rtol=0)


def test_wav2vec2_encodes_waveforms(tmp_path):
    config = transformers.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, conv_dim=(8, 8),
        conv_kernel=(10, 8), conv_stride=(20, 16), num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
        num_feat_extract_layers=2,
    )  # fmt: skip
    model = transformers.Wav2Vec2Model(config).eval()
    model.save_pretrained(tmp_path)
    prepare = transformers.Wav2Vec2FeatureExtractor(do_normalize=True)
    prepare.save_pretrained(tmp_path)
    extractor = feature_extractor(PretrainedConfig(model=str(tmp_path), pool=1))
    for length in (extractor.min_samples, 4000, 12345):
        samples = speech(length / 16000)
        features = extractor(samples)
        normalised = (samples - samples.mean()) / np.sqrt(samples.var(correction=0) + 1e-7)
        expected = model(normalised[None]).last_hidden_state[0].detach()
        torch.testing.assert_close(features, expected, atol=1e-4, rtol=1e-4)
        assert len(features) == extractor.frames(length)
    assert extractor.frame_shift == 0.02
    with pytest.raises(FewerError, match="full_window: only Whisper has one"):
        feature_extractor(PretrainedConfig(model=str(tmp_path), full_window=True))


def test_the_models_rate_is_asked_for(whisper):
    with pytest.raises(FewerError, match="takes audio at 16000 Hz, found 8000 Hz"):
        feature_extractor(PretrainedConfig(model=whisper, sampling_rate=8000))


def test_a_missing_model_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(FewerError, match=r"features.model: cannot load .*nowhere"):
        feature_extractor(PretrainedConfig(model=str(tmp_path / "nowhere")))


def test_a_model_that_is_not_whole_is_named(whisper, tmp_path):
    shutil.copytree(whisper, tmp_path / "cut")
    (tmp_path / "cut" / "model.safetensors").write_bytes(b"")
    with pytest.raises(FewerError, match=r"features.model: cannot load .*cut: .*was it downloaded whole"):
        feature_extractor(PretrainedConfig(model=str(tmp_path / "cut")))


def test_a_model_without_a_known_speech_encoder_is_named(tmp_path):
    transformers.GPT2Config(n_layer=1, n_embd=8, n_head=1).save_pretrained(tmp_path)
    with pytest.raises(FewerError, match="is of type 'gpt2'; known are whisper, wav2vec2"):
        feature_extractor(PretrainedConfig(model=str(tmp_path)))


def test_without_transformers_the_error_says_what_to_install(whisper, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(FewerError, match=r"pip install 'fewer\[hf\]'"):
        feature_extractor(PretrainedConfig(model=whisper))


def test_training_from_a_complete_cache_needs_neither_audio_nor_transformers(whisper, tmp_path, monkeypatch):
    cuts = [file_cut(tmp_path / f"{i}.wav", noise(0.3 + i / 10, seed=i), id=f"u{i}") for i in range(3)]
    manifest = write_manifest(tmp_path / "train.jsonl", cuts)
    config = PretrainedConfig(model=whisper, pool=3, cache=CacheConfig(folder=tmp_path / "cache", dtype="float32"))
    expected = [RawFeatures(config).read(cut) for cut in cuts]
    RawFeatures.open(config, manifest, cuts)
    monkeypatch.setitem(sys.modules, "transformers", None)
    for path in tmp_path.glob("*.wav"):
        path.unlink()
    raw = RawFeatures.open(config, manifest, cuts)
    assert (raw.dim, raw.frame_shift) == (16, pytest.approx(0.06))
    for cut, features in zip(cuts, expected, strict=True):
        torch.testing.assert_close(raw.read(cut), features, atol=1e-5, rtol=0)


def test_weights_are_known_by_the_folders_contents(whisper, tmp_path):
    other = save_whisper(tmp_path, seed=1)
    same = save_whisper(tmp_path / "copy", seed=0)
    assert PretrainedConfig(model=whisper).weights() == PretrainedConfig(model=same).weights()
    assert PretrainedConfig(model=whisper).weights() != PretrainedConfig(model=other).weights()
    assert PretrainedConfig(model="openai/whisper-tiny.en").weights() == "openai/whisper-tiny.en"


def test_a_reader_loads_the_model_only_to_read_audio(tmp_path):
    """Commands on sets that are in the cache never need it."""
    reader = FeatureReader(PretrainedConfig(model=str(tmp_path / "not-there")), Statistics.of(torch.randn(9, 16)))
    with pytest.raises(FewerError, match="cannot load"):
        reader.read(file_cut(tmp_path / "a.wav", noise(0.5)))


def test_features_that_do_not_fit_the_statistics_are_refused_when_they_are_read(whisper, tmp_path):
    reader = FeatureReader(PretrainedConfig(model=whisper), Statistics.of(torch.randn(9, 12)))
    with pytest.raises(FewerError, match="features have 16 dimensions, but the statistics 12"):
        reader.read(file_cut(tmp_path / "a.wav", noise(0.5)))
