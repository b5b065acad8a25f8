"""Loading a Whisper, what it hears, what it reads first, and what it never says."""

import copy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from lhotse import MonoCut
from transformers import BertConfig, BertForMaskedLM, T5Config, Wav2Vec2Config

import fewer
from fewer.data.batches import UtteranceConfig
from fewer.data.manifest import Manifest
from fewer.data.tokenizers import load_tokenizer
from fewer.data.whisper_encoder import WhisperEncoder
from fewer.decoding.decode import decode
from fewer.decoding.system import System
from fewer.errors import FewerError
from fewer.recognisers.loader import is_pretrained
from fewer.recognisers.whisper.recogniser import WhisperRecogniser, load_whisper
from fewer.search.beam import SearchOptions
from fewer.search.nbest import read_header, read_nbest
from tests.recognisers.tiny import extractor_of, make_whisper, noises, write_cut, write_manifest


@pytest.mark.parametrize("length", [1, 159, 160, 3333, 15600, 15999, 16000])
def test_features_are_those_of_the_padded_window(whisper: WhisperRecogniser, theirs: Any, length: int) -> None:
    """Only frames that touch the audio are kept; the encoder sees the whole window as transformers pads it."""
    samples = noises(1)[0].repeat(6)[:length]
    extractor = extractor_of(whisper)
    padded = extractor(samples.numpy(), sampling_rate=16000, return_tensors="pt").input_features[0].T  # (100, F)
    ours = whisper.features(samples)
    assert len(ours) == min((length + 200 + 159) // 160, 100)
    torch.testing.assert_close(ours, padded[: len(ours)], atol=1e-5, rtol=0)
    encoded = whisper.listen([samples])
    with torch.inference_mode():
        expected = theirs.get_encoder()(padded.T[None]).last_hidden_state
    torch.testing.assert_close(encoded.states, expected, atol=1e-4, rtol=1e-4)
    assert encoded.lengths.tolist() == [(len(ours) + 1) // 2]


def test_encoder_states_do_not_depend_on_the_batch(whisper: WhisperRecogniser) -> None:
    audio = [*noises(3), torch.zeros(4000)]
    together = whisper.listen(audio)
    for row, samples in enumerate(audio):
        alone = whisper.listen([samples])
        assert torch.equal(alone.states[0], together.states[row])
        assert alone.lengths[0] == together.lengths[row]


def test_selected_utterances_keep_the_padding_they_listen_to(whisper: WhisperRecogniser) -> None:
    encoded = whisper.listen(noises(3))
    chosen = encoded.select(torch.tensor([2]))
    assert torch.equal(chosen.states[0], encoded.states[2])


def test_audio_that_cannot_be_heard_is_refused(whisper: WhisperRecogniser) -> None:
    with pytest.raises(FewerError, match=r"lasts 1\.5 s.*at most 1 s"):
        whisper.listen([torch.zeros(24000)])
    with pytest.raises(FewerError, match="one channel"):
        whisper.listen([torch.zeros(2, 100)])
    with pytest.raises(FewerError, match="one channel"):
        whisper.listen([torch.zeros(0)])


def test_a_manifests_utterances_are_heard_as_their_samples(whisper: WhisperRecogniser, tmp_path: Path) -> None:
    manifest = Manifest(write_manifest(tmp_path / "set.jsonl", ["a cat", "the", "cat"]))
    (batch,) = next(iter(whisper.batches(manifest, UtteranceConfig(order="corpus"), transcripts=True).steps(1)))
    samples = [torch.from_numpy(manifest[index].load_audio()[0]) for index in range(3)]
    torch.testing.assert_close(whisper.encode(batch).states, whisper.listen(samples).states)
    expected = [*whisper.tokenizer.encode("a cat"), whisper.tokenizer.end]
    assert batch.labels[0, : len(expected)].tolist() == expected
    (silent,) = next(iter(whisper.batches(manifest, UtteranceConfig(order="corpus")).steps(1)))
    assert silent.labels.shape == (3, 0)
    assert torch.equal(silent.features, batch.features)


def test_other_rates_and_lengths_are_heard_or_refused(
    whisper: WhisperRecogniser, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tone = torch.sin(2 * torch.pi * 440 / 8000 * torch.arange(8000))
    slow = MonoCut.from_dict(write_cut(tmp_path / "slow.wav", tone[:4000], "a", rate=8000))
    fast = torch.sin(2 * torch.pi * 440 / 16000 * torch.arange(8000))
    torch.testing.assert_close(whisper.features.read(slow)[5:-8], whisper.features(fast)[5:-8], atol=0.3, rtol=0)
    long = MonoCut.from_dict(write_cut(tmp_path / "long.wav", fast.repeat(3), "a"))
    with caplog.at_level("INFO", "fewer"):
        assert len(whisper.features.read(long)) == 100
    assert "utterance long" in caplog.text
    assert "first 1 s only" in caplog.text
    longer = MonoCut.from_dict(write_cut(tmp_path / "longer.wav", fast.repeat(40), "a"))
    with pytest.raises(FewerError, match=r"longer.*lasts 20\.0 s"):
        whisper.features.read(longer)


def test_an_english_model_reads_start_and_no_timestamps(whisper: WhisperRecogniser, tiny: Path) -> None:
    labels = whisper.tokenizer.labels
    assert [labels[id] for id in whisper.prompt] == ["<|startoftranscript|>", "<|notimestamps|>"]
    assert int(whisper.max_lengths(whisper.listen(noises(1)))[0]) == 38
    with pytest.raises(FewerError, match="only transcribes English"):
        load_whisper(tiny, language="de")
    with pytest.raises(FewerError, match="only transcribes English"):
        load_whisper(tiny, task="translate")


def test_a_multilingual_model_reads_language_and_task(tmp_path: Path) -> None:
    folder = make_whisper(tmp_path, multilingual=True)
    with pytest.raises(FewerError, match="say which one"):
        load_whisper(folder)
    with pytest.raises(FewerError, match="'xx' is not one of this model: de, en, zh"):
        load_whisper(folder, language="xx")
    with pytest.raises(FewerError, match="'sing'"):
        load_whisper(folder, language="de", task="sing")
    german = load_whisper(folder, language="de")
    spelled = [german.tokenizer.labels[id] for id in german.prompt]
    assert spelled == ["<|startoftranscript|>", "<|de|>", "<|transcribe|>", "<|notimestamps|>"]
    translating = load_whisper(folder, language="zh", task="translate")
    assert [translating.tokenizer.labels[id] for id in translating.prompt][1:3] == ["<|zh|>", "<|translate|>"]
    assert german.fingerprint != translating.fingerprint
    assert german.tokenizer.encode("a")[0] != load_whisper(folder, language="zh").tokenizer.encode("a")[0]


def test_specials_timestamps_and_named_labels_never_come(whisper: WhisperRecogniser) -> None:
    tokenizer = whisper.tokenizer
    assert whisper.suppress is not None
    assert whisper.suppress_first is not None
    never = {tokenizer.labels[id] for id in whisper.suppress.nonzero().flatten().tolist()}
    assert {",", "<|startoftranscript|>", "<|notimestamps|>", "<|0.00|>", "<|1.00|>"} <= never
    assert not never & {"<|endoftext|>", "a", "Ġcat"}
    first = {tokenizer.labels[id] for id in whisper.suppress_first.nonzero().flatten().tolist()}
    assert first - never == {"Ġ", "<|endoftext|>"}


def test_a_model_is_the_same_recogniser_wherever_it_lies(
    tiny: Path, whisper: WhisperRecogniser, tmp_path: Path
) -> None:
    for path in tiny.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert load_whisper(tmp_path).fingerprint == whisper.fingerprint
    other = make_whisper(tmp_path / "other", seed=1)
    assert load_whisper(other).fingerprint != whisper.fingerprint


def test_fewer_load_takes_whispers_and_says_what_is_none(tiny: Path, tmp_path: Path) -> None:
    assert isinstance(fewer.load(tiny).recogniser, WhisperRecogniser)
    BertForMaskedLM(BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1)).save_pretrained(
        tmp_path / "bert"
    )
    with pytest.raises(FewerError, match=r"'bert' .*, which is not an attention-based encoder-decoder"):
        fewer.load(tmp_path / "bert")
    Wav2Vec2Config().save_pretrained(tmp_path / "ctc")
    with pytest.raises(FewerError, match=r"'wav2vec2' .*, which is not an attention-based encoder-decoder"):
        fewer.load(tmp_path / "ctc")
    T5Config(is_encoder_decoder=True).save_pretrained(tmp_path / "t5")
    with pytest.raises(
        FewerError,
        match=r"'t5' .*, an encoder-decoder that fewer does not know: its facts",
    ):
        fewer.load(tmp_path / "t5")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FewerError, match="not a model folder"):
        fewer.load(tmp_path / "empty")


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "generation_config.json", "preprocessor_config.json", "tokenizer.json"]
)
@pytest.mark.parametrize("part", [0.5, 0.0])
def test_a_download_that_is_not_whole_is_told_by_its_name(tiny: Path, tmp_path: Path, name: str, part: float) -> None:
    shutil.copytree(tiny, tmp_path / "whisper")
    file = tmp_path / "whisper" / name
    file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])
    with pytest.raises(FewerError, match=r"whisper.*(was it downloaded whole|is not valid JSON)"):
        load_whisper(tmp_path / "whisper")


def test_weights_in_pickles_that_are_not_whole_are_told_of(tiny: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "whisper")
    (tmp_path / "whisper" / "model.safetensors").unlink()
    for content in (b"", b"PK"):
        (tmp_path / "whisper" / "pytorch_model.bin").write_bytes(content)
        with pytest.raises(
            FewerError, match=r"cannot load the weights that .*config.json describes: .*was it downloaded whole"
        ):
            load_whisper(tmp_path / "whisper")


def test_names_on_the_hub_are_told_from_paths(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    assert is_pretrained(tiny)
    assert is_pretrained("openai/whisper-tiny.en")
    assert not is_pretrained("runs/mistyped")
    assert not is_pretrained("runs")
    assert not is_pretrained("/openai")
    assert not is_pretrained("a/b/c")


def test_without_its_libraries_it_is_said_what_to_install(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("transformers", "tokenizers"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(FewerError, match=r"pip install 'fewer\[hf\]'"):
        fewer.load(tiny)
    with pytest.raises(FewerError, match=r"pip install 'fewer\[hf\]'"):
        load_tokenizer(tiny / "tokenizer.json")


def test_a_set_is_decoded_into_nbest_lists(whisper: WhisperRecogniser, tmp_path: Path) -> None:
    manifest = write_manifest(tmp_path / "set.jsonl", ["a cat", "the cat", "the"])
    count = decode(System(whisper), manifest, tmp_path / "nbest.jsonl", {}, SearchOptions(beam=3, max_length=9))
    assert count == 3
    assert read_header(tmp_path / "nbest.jsonl").terms == ("aed",)
    lists: list[Any] = list(read_nbest(tmp_path / "nbest.jsonl"))
    assert [nbest.ref for nbest in lists] == ["a cat", "the cat", "the"]
    for nbest in lists:
        assert len(nbest.hypotheses) == 3
        for hypothesis in nbest.hypotheses:
            assert not any(whisper.suppress[token] for token in hypothesis.tokens)
            assert hypothesis.text == whisper.tokenizer.decode(hypothesis.tokens)


def test_errors_are_counted_by_the_normaliser_of_what_it_writes(tmp_path: Path) -> None:
    folder = make_whisper(tmp_path / "whisper", multilingual=True)
    for language, task in (("en", "transcribe"), ("de", "translate")):
        assert load_whisper(folder, language, task).defaults.normaliser == "english"
    assert load_whisper(folder, "de").defaults.normaliser == "basic"
    (folder / "normalizer.json").write_text('{"colour": "color"}')
    assert load_whisper(folder, "en").defaults.normaliser == f"english:{folder / 'normalizer.json'}"


def test_silence_behind_the_speech_in_groups(whisper: WhisperRecogniser) -> None:
    exact, grouped = (WhisperEncoder(copy.deepcopy(whisper.encoder.module), merged) for merged in (1, 4))
    mel = whisper.features(noises(1)[0])
    with torch.inference_mode():
        for positions, error in ((exact.module.embed_positions.weight, 0.1), (torch.zeros(1), 1e-3)):
            for encoder in (exact, grouped):
                encoder.module.embed_positions.weight[:] = (
                    positions  # without positions, a group is what its states are
                )
            expected, found = (encoder.windows([mel])[0] for encoder in (exact, grouped))
            speech = (len(mel) + 1) // 2
            assert found.shape == expected.shape
            assert float((found - expected)[:speech].norm() / expected[:speech].norm()) < error
            assert float((found - expected).norm() / expected.norm()) < error
        full = torch.randn(2 * exact.states, mel.shape[1]).clamp(-1, 1)
        torch.testing.assert_close(grouped.windows([full]), exact.windows([full]), atol=1e-5, rtol=1e-4)
