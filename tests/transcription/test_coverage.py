"""Speech that a search skipped is seen, and heard again without language models."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from torch import Tensor

from fewer.adaptation.searching import Models, Options, load_search
from fewer.decoding.system import Search
from fewer.models.encoded import Encoded
from fewer.search.beam import SearchOptions
from fewer.search.nbest import LengthPolicy
from fewer.transcription import transcribe as recipe
from fewer.transcription.coverage import LONGEST, largest_gap, uncovered
from fewer.transcription.transcribe import TranscribeOptions, Transcriber, most_repeated
from fewer.transcription.windows import sounds
from tests.data.sounds import noise
from tests.recognisers.tiny import make_whisper, noises

OPTIONS = TranscribeOptions(search=0.4, align=False)  # the tiny Whisper hears one second
CREDULOUS = replace(OPTIONS, log_prob=-50.0)  # … and is sure of nothing
LABEL = 0.05  # seconds that a label lasts in these tests


def test_labels_cover_sound_up_to_what_one_can_last() -> None:
    words = [(0.0, 0.5), (0.5, 1.0), (1.0, 1.6)]
    assert uncovered(words, [(0.0, 1.6)]) == 0.0
    skipped = [(0.0, 0.5), (0.5, 6.0), (6.0, 6.4)]  # the second label got what nobody wrote
    assert uncovered(skipped, [(0.0, 6.4)]) == pytest.approx(5.5 - LONGEST)
    assert uncovered(skipped, [(0.0, 1.0), (5.8, 6.4)]) == 0.0  # it was a pause
    assert uncovered(skipped, [(0.0, 2.0), (4.0, 6.4)]) == pytest.approx(1.5 + 2.0 - LONGEST)


def test_the_largest_gap_is_where_most_is_to_be_heard() -> None:
    times = [(0.0, 0.5), (0.5, 6.0), (6.0, 6.4)]
    assert largest_gap(times, [(0.0, 8.0)]) == (0.5, 6.0)
    assert largest_gap(times, [(0.0, 1.0), (5.8, 9.0)]) == (6.4, 9.0)
    assert largest_gap([], [(1.0, 4.0)]) == (0.0, 4.0)


def test_what_is_before_the_first_and_after_the_last_label_counts() -> None:
    assert uncovered([(0.0, 4.0), (4.0, 4.3)], [(0.5, 4.3)]) == pytest.approx(3.5 - LONGEST)
    assert uncovered([(0.0, 0.5), (0.5, 1.0)], [(0.0, 4.0)]) == pytest.approx(3.0 - LONGEST)
    assert uncovered([], [(1.0, 4.0)]) == pytest.approx(3.0 - LONGEST)


def test_a_whispers_times_give_every_sound_to_a_label_or_the_end(search: Search) -> None:
    recogniser = search.system.recogniser
    for samples in noises(3):
        samples[len(samples) // 2 :][:3200] = 0.0
        encoded = recogniser.listen([samples])
        heard = [(first / 16000, last / 16000) for first, last in sounds(samples, 16000)]
        total = sum(last - first for first, last in heard)
        for labels in ([5], [5, 9, 70, 33]):
            times = recogniser.times(encoded, labels)
            assert times is not None
            assert uncovered(times, heard, longest=0.0) == pytest.approx(total)
            assert uncovered(times, heard, longest=2.0) == 0.0


class Impatient:
    """A language model that finds every label so unlikely that one had better say as little as possible."""

    def __init__(self, vocab_size: int):
        self.vocab_size = vocab_size

    def start(self, rows: int) -> Tensor:
        return torch.zeros(rows)

    def step(self, state: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        return torch.full((len(labels), self.vocab_size), -20.0), state


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    folder = make_whisper(tmp_path_factory.mktemp("whisper"), sharpness=0.25)
    return load_search(Models(folder), Options(beam=3))


@pytest.fixture
def skipping(search: Search, monkeypatch: pytest.MonkeyPatch) -> Search:
    """A search that says less than its recogniser alone; labels follow each other at a steady pace."""
    recogniser: Any = search.system.recogniser

    def times(encoded: Encoded, labels: list[int]) -> list[tuple[float, float]]:
        assert len(encoded) == 1
        return [(LABEL * place, LABEL * (place + 1)) for place in range(len(labels))]

    monkeypatch.setattr(recogniser, "times", times)
    monkeypatch.setattr(recipe, "DOUBTFUL", 0.05)
    monkeypatch.setattr(recipe, "BETTER", 0.02)
    monkeypatch.setattr(recipe, "uncovered", lambda times, sounds: uncovered(times, sounds, LABEL))
    system = replace(search.system, lm=Impatient(recogniser.decoder.vocab_size), centred=False)
    return Search(system, {"lm": 1.0}, SearchOptions(3, LengthPolicy(0.0)))


def test_skipped_speech_is_transcribed_without_language_models_and_the_transcript_says_so(
    search: Search, skipping: Search, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "call.wav"
    soundfile.write(path, noise(2.5), 16000)
    (alone,) = Transcriber(search, OPTIONS).transcribe([path])
    (unchecked,) = Transcriber(skipping, replace(OPTIONS, check=False)).transcribe([path])
    (checked,) = Transcriber(skipping, OPTIONS).transcribe([path])
    assert len(unchecked.text) < len(alone.text) / 2
    assert not any(segment.without_lm for segment in (*unchecked.segments, *alone.segments))
    again = [segment for segment in checked.segments if segment.without_lm]
    assert again
    same = {(segment.start, segment.end): segment.text for segment in alone.segments}
    assert [segment.text for segment in again] == [same[segment.start, segment.end] for segment in again]
    marks = [value.get("without_lm") for value in json.loads(checked.written("json"))["segments"]]
    assert marks == [segment.without_lm or None for segment in checked.segments]
    notes = [note for note in caplog.messages if "language models skipped speech" in note]
    assert len(notes) == len(again)
    assert f"{again[0].start:.1f} to {again[0].end:.1f} s" in notes[0]


def test_what_the_recogniser_alone_does_not_cover_either_stays(
    skipping: Search, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "call.wav"
    soundfile.write(path, noise(0.9), 16000)
    (unchecked,) = Transcriber(skipping, replace(OPTIONS, check=False)).transcribe([path])
    monkeypatch.setattr(skipping.system.recogniser, "times", lambda encoded, labels: [(0.0, 0.0)] * len(labels))
    (checked,) = Transcriber(skipping, OPTIONS).transcribe([path])
    assert checked.text == unchecked.text != ""
    assert not any(segment.without_lm for segment in checked.segments)


def test_without_the_check_nothing_is_aligned(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    def times(encoded: Encoded, labels: list[int]) -> None:
        raise AssertionError("aligned for nothing")

    monkeypatch.setattr(search.system.recogniser, "times", times)
    window = recipe.Window(0, torch.from_numpy(noise(0.9)))
    ((segment,),) = Transcriber(search, replace(OPTIONS, check=False)).hear([window])
    assert segment.text


@pytest.fixture
def silent_about_much(search: Search, monkeypatch: pytest.MonkeyPatch) -> Search:
    """A recogniser whose labels all seem to belong to the beginning of a window."""
    monkeypatch.setattr(search.system.recogniser, "times", lambda encoded, labels: [(0.0, 0.0)] * len(labels))
    monkeypatch.setattr(recipe, "uncovered", lambda times, sounds: uncovered(times, sounds, LABEL))
    monkeypatch.setattr(recipe, "SKIPPED", 0.3)
    monkeypatch.setattr(recipe, "DIVIDED", 0.6)
    monkeypatch.setattr(recipe, "LABELS", 100)
    return search


def test_what_a_recogniser_skips_is_heard_in_halves(
    silent_about_much: Search, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "call.wav"
    soundfile.write(path, noise(0.9), 16000)
    (found,) = Transcriber(silent_about_much, CREDULOUS).transcribe([path])
    (whole,) = Transcriber(silent_about_much, replace(CREDULOUS, check=False)).transcribe([path])
    window = recipe.Window(0, torch.from_numpy(noise(0.9)))
    parts = Transcriber(silent_about_much, CREDULOUS).hear(recipe.halves(window, 16000))
    assert len(whole.segments) == 1
    assert [segment.text for segment in found.segments] == [segment.text for part in parts for segment in part]
    assert all(segment.in_parts for segment in found.segments)
    assert not any(segment.in_parts for segment in whole.segments)
    assert [value["in_parts"] for value in found.to_json()["segments"]] == [True, True]
    assert sum("the recogniser skipped speech; heard in parts" in note for note in caplog.messages) == 2


@pytest.mark.parametrize(("told", "sure"), [(1000.0, -50.0), (1.0, 0.0)])
def test_halves_that_say_no_more_and_gaps_in_which_nothing_is_said_are_not_taken(
    silent_about_much: Search, monkeypatch: pytest.MonkeyPatch, told: float, sure: float
) -> None:
    window = recipe.Window(0, torch.from_numpy(noise(0.9)))
    whole = Transcriber(silent_about_much, replace(OPTIONS, check=False)).hear([window])
    monkeypatch.setattr(recipe, "TOLD", told)
    if told > 1:
        monkeypatch.setattr(Transcriber, "_skips", lambda *_: True)
    ((found,),) = Transcriber(silent_about_much, replace(OPTIONS, log_prob=sure)).hear([window])
    assert found.text == whole[0][0].text
    assert not found.in_parts


def test_the_most_frequent_phrase_is_counted() -> None:
    assert most_repeated([1, 2, 3, 4, 5, 1, 2, 3, 4, 6, 9, 1, 2, 3, 4]) == 3
    assert most_repeated([1, 2, 3, 4, 1, 2, 3]) == 1
    assert most_repeated([7] * 8) == 5
    assert most_repeated([1, 2, 3]) == 0


class Stuck:
    """A language model that wants to hear almost the same three times, and then the end."""

    def __init__(self, vocab_size: int, end: int):
        self.vocab_size = vocab_size
        self.wanted = torch.tensor([5, 9, 70, 33, 21, 5, 9, 70, 33, 40, 5, 9, 70, 33] + [end] * 100)

    def start(self, rows: int) -> Tensor:
        return torch.zeros(rows, dtype=torch.long)

    def step(self, state: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.full((len(labels), self.vocab_size), -10.0)
        return scores.scatter_(1, self.wanted[state][:, None], 0.0), state + 1


def test_a_loop_of_the_language_models_is_left_to_the_recogniser_alone(
    search: Search, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "call.wav"
    soundfile.write(path, 0.1 * noise(0.9), 16000)  # of louder noise the recogniser alone repeats itself as well
    recogniser: Any = search.system.recogniser
    monkeypatch.setattr(recogniser, "times", lambda encoded, labels: [(0.0, 0.0)] * len(labels))
    usual = replace(recogniser.defaults, search=SearchOptions(3))  # with a larger exponent it never comes to an end
    monkeypatch.setattr(recogniser, "defaults", usual)
    lm = Stuck(recogniser.decoder.vocab_size, recogniser.tokenizer.end)
    stuck = replace(search.system, lm=lm, centred=False, end_scored_by=("aed", "lm"))
    looping = Search(stuck, {"lm": 20.0}, SearchOptions(3, LengthPolicy(0.0)))
    (alone,) = Transcriber(replace(search, options=SearchOptions(3)), OPTIONS).transcribe([path])
    (checked,) = Transcriber(looping, OPTIONS).transcribe([path])
    (unchecked,) = Transcriber(looping, replace(OPTIONS, check=False)).transcribe([path])
    assert unchecked.text != alone.text
    assert [segment.without_lm for segment in checked.segments] == ["repeated"]
    assert checked.text == alone.text
