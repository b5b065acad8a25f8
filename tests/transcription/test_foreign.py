"""A text of another kind than the language model's is seen, and transcribed without it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile
import torch

from fewer.adaptation.searching import Models, Options, load_search
from fewer.decoding.system import Search
from fewer.models.ngram import NGram
from fewer.transcription import foreign
from fewer.transcription.foreign import FEWEST, is_foreign
from fewer.transcription.transcribe import TranscribeOptions, Transcriber
from tests.data.sounds import noise
from tests.recognisers.tiny import make_whisper

OPTIONS = TranscribeOptions(search=0.4, align=False)  # the tiny Whisper hears one second


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    folder = make_whisper(tmp_path_factory.mktemp("whisper"), sharpness=0.25)
    return load_search(Models(folder), Options(beam=3))


def knowing(vocab_size: int, labels: list[int]) -> NGram:
    """A unigram LM that expects the given labels, and any other a thousand times less."""
    probs = torch.full((vocab_size,), 1e-3)
    probs[labels] = 1.0
    unigrams = torch.arange(vocab_size)[:, None]
    return NGram.from_ngrams([(unigrams, (probs / probs.sum()).log(), torch.zeros(vocab_size))])


def test_text_that_surprises_as_much_as_chance_is_foreign() -> None:
    lm = knowing(1000, [5, 6, 7, 8])
    assert not is_foreign(lm, [5, 6, 7, 8] * 5)
    assert is_foreign(lm, [50, 60, 70, 80] * 5)
    assert not is_foreign(lm, [5, 60, 7, 80] * 5)  # half of it is known
    assert not is_foreign(lm, [50] * (FEWEST - 1))  # too little to tell
    assert not is_foreign(None, [50] * 50)


def test_a_foreign_window_is_transcribed_by_the_recogniser_alone_and_the_transcript_says_so(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "call.wav"
    soundfile.write(path, noise(2.5), 16000)
    recogniser = search.system.recogniser
    monkeypatch.setattr(foreign, "FEWEST", 1)
    (alone,) = Transcriber(search, OPTIONS).transcribe([path])
    said = {label for segment in alone.segments if segment.hypothesis for label in segment.hypothesis.tokens}
    others = [label for label in range(recogniser.tokenizer.size) if label not in said][:5]
    for known, reason in ((sorted(said), None), (others, "foreign")):
        lm = knowing(recogniser.tokenizer.size, known)
        fused = Search(replace(search.system, lm=lm), {"lm": 1e-3}, search.options)
        (found,) = Transcriber(fused, OPTIONS).transcribe([path])
        told = [segment.without_lm for segment in found.segments if segment.text]
        assert told == [reason] * len(told) != []
        marks = [value.get("without_lm") for value in json.loads(found.written("json"))["segments"] if value["text"]]
        assert marks == told
    assert [segment.text for segment in found.segments] == [segment.text for segment in alone.segments]
    assert sum("of another kind" in note for note in caplog.messages) == len(told)
    (unchecked,) = Transcriber(fused, replace(OPTIONS, check=False)).transcribe([path])
    assert not any(segment.without_lm for segment in unchecked.segments)
