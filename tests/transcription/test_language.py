"""A multilingual Whisper detects the language as transformers does, and transcribes as if it had been given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import WhisperForConditionalGeneration

import fewer
from fewer.api.model import Model
from fewer.errors import FewerError
from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import estimate_ilm
from fewer.recognisers.whisper.recogniser import load_whisper
from tests.recognisers.tiny import extractor_of, make_whisper, noises

COUNT = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_whisper(tmp_path_factory.mktemp("multilingual"), multilingual=True, seed=0, sharpness=0.8)


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return fewer.load(folder, beam=2, precision="float32")


def theirs(folder: Path, audio: list[torch.Tensor]) -> list[str]:
    """What transformers detects."""
    whisper, model = load_whisper(folder, "en"), WhisperForConditionalGeneration.from_pretrained(folder).eval()
    arrays = [samples.numpy() for samples in audio]
    mel = extractor_of(whisper)(arrays, sampling_rate=16000, return_tensors="pt").input_features
    with torch.inference_mode():
        found = model.detect_language(input_features=mel)
    names = {id: name for name, id in whisper.languages.items()}
    return [names[int(id)] for id in found.flatten()]


def test_the_language_is_the_one_that_transformers_detects(folder: Path) -> None:
    audio = noises(COUNT, seed=1)
    whisper = load_whisper(folder, detect=True)
    assert whisper.must_detect
    found = whisper.detect_language(whisper.listen(audio))
    assert [language for language, _ in found] == theirs(folder, audio)
    assert len({language for language, _ in found}) > 1
    assert all(1 / 3 < probability <= 1 for _, probability in found)


def test_each_file_is_transcribed_as_if_its_language_had_been_given(folder: Path, model: Model) -> None:
    audio = [samples.numpy() for samples in noises(COUNT, seed=1)]
    found = list(model.transcribe(audio))
    assert len({one.language for one in found}) > 1
    for samples, one in zip(audio, found, strict=True):
        told = fewer.load(folder, beam=2, language=one.language, precision="float32").transcribe(samples)
        assert (told.language, told.text) == (one.language, one.text)
        for ours, expected in zip(one.segments, told.segments, strict=True):
            assert ours.confidence == pytest.approx(expected.confidence, rel=1e-4)


def test_another_language_gives_another_text(folder: Path, model: Model) -> None:
    (samples,) = (one.numpy() for one in noises(1))
    texts = {fewer.load(folder, beam=2, language=name).transcribe(samples).text for name in ("en", "de")}
    assert len(texts) == 2


def test_the_first_window_decides_for_a_long_recording(folder: Path, model: Model) -> None:
    heads = noises(COUNT, seed=1)
    languages = theirs(folder, heads)
    quiet = torch.zeros(16000)
    for name in set(languages):
        head = heads[languages.index(name)]
        first = torch.cat([head, quiet])[:16000]  # one second is what this model hears at once
        (expected,) = theirs(folder, [first])
        long = torch.cat([first, *noises(3, seed=7)])
        assert model.transcribe(long.numpy()).language == expected


def test_what_was_read_before_a_damage_is_enough(folder: Path, model: Model, tmp_path: Path) -> None:
    import soundfile

    soundfile.write(tmp_path / "call.flac", np.concatenate([one.numpy() for one in noises(40)]), 16000)
    content = (tmp_path / "call.flac").read_bytes()
    (tmp_path / "call.flac").write_bytes(content[: len(content) // 2])
    (found,) = model.transcribe([tmp_path / "call.flac"])
    assert found.problems
    assert found.language in ("en", "de", "zh")


def test_an_internal_lm_says_which_language_it_is_of(folder: Path, tmp_path: Path) -> None:
    estimate_ilm(load_whisper(folder, "de"), IlmConfig(method="zero", language="de"), tmp_path / "ilm")
    model = fewer.load(folder, ilm=tmp_path / "ilm", beam=2)
    assert not model.recogniser.must_detect
    assert model.transcribe(noises(1)[0].numpy()).language == "de"


def test_what_needs_a_language_says_so(folder: Path, model: Model, tmp_path: Path) -> None:
    for call in (lambda: model.decode(tmp_path / "dev.jsonl"), lambda: model.log_probs("a", noises(1)[0].numpy())):
        with pytest.raises(FewerError, match="say it, such as --language en"):
            call()
    (tmp_path / "text.txt").write_text("the cat\n")
    with pytest.raises(FewerError, match="say which one is spoken, such as --language en"):
        fewer.adapt(folder, tmp_path / "bundle", text=tmp_path / "text.txt")


def test_hotwords_of_other_tokens_need_the_language(folder: Path, tmp_path: Path) -> None:
    """Chinese has no blanks between words, and so other tokens."""
    (tmp_path / "words.txt").write_text("cat\n")
    search: Any = fewer.load(folder, words=tmp_path / "words.txt").search
    assert search.in_language("de").system.recogniser.language == "de"
    with pytest.raises(FewerError, match="give --language zh"):
        search.in_language("zh")


def test_an_english_model_detects_nothing(tiny: Path) -> None:
    model = fewer.load(tiny, beam=2)
    assert not model.recogniser.must_detect
    assert "language" not in model.transcribe(noises(1)[0].numpy()).to_json()
