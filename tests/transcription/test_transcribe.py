"""Transcribing: windows in batches, nothing invented for silence, bad files told apart from good ones."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from fewer.adaptation.searching import Models, Options, load_search
from fewer.decoding.system import Search
from fewer.errors import FewerError
from fewer.models.encoded import Encoded
from fewer.search.nbest import Hypothesis
from fewer.transcription import transcribe as recipe
from fewer.transcription.transcribe import TranscribeOptions, Transcriber, is_repetitive
from fewer.transcription.transcript import Segment, Transcript
from fewer.transcription.windows import Window
from tests.data.sounds import noise
from tests.recognisers.tiny import make_whisper

OPTIONS = TranscribeOptions(search=0.4)  # the tiny Whisper hears one second


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    folder = make_whisper(tmp_path_factory.mktemp("whisper"), sharpness=0.25)
    return load_search(Models(folder), Options(beam=3, length_exponent=1.0))  # else it never comes to an end


def write(path: Path, samples: np.ndarray, rate: int = 16000) -> Path:
    soundfile.write(path, samples, rate)
    return path


def scores_of(transcript: Transcript) -> float:
    return sum(segment.hypothesis.score for segment in transcript.segments if segment.hypothesis is not None)


def test_windows_of_a_file_give_the_same_as_each_heard_by_itself(search: Search, tmp_path: Path) -> None:
    path = write(tmp_path / "call.wav", noise(3.3))
    (transcript,) = Transcriber(search, OPTIONS).transcribe([path])
    assert transcript.duration == pytest.approx(3.3)
    assert len(transcript.segments) >= 4
    samples = torch.from_numpy(soundfile.read(path, dtype="float32")[0])
    heard = 0
    for segment in transcript.segments:
        start, end = round(segment.start * 16000), round(segment.end * 16000)
        ((alone,),) = Transcriber(search, OPTIONS).hear([Window(start, samples[start:end])])
        if segment.hypothesis is not None:
            assert alone.hypothesis is not None
            assert segment.text == alone.text
            assert segment.hypothesis.score == pytest.approx(alone.hypothesis.score, abs=1e-4)
            heard += 1
    assert heard >= 3
    times = [time for segment in transcript.segments for time in (segment.start, segment.end)]
    assert times == sorted(times)


def test_batches_go_across_files_and_transcripts_come_in_order(
    search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(tmp_path / f"{seed}.wav", noise(0.7, seed=seed)) for seed in range(4)]
    transcriber, sizes = Transcriber(search, OPTIONS), []
    hear = transcriber.hear
    monkeypatch.setattr(recipe, "BATCH", 2)
    monkeypatch.setattr(transcriber, "hear", lambda windows: sizes.append(len(windows)) or hear(windows))
    together = list(transcriber.transcribe(paths))
    assert sizes == [1, 2, 1]  # the first by itself, so that its text is there soon
    assert [transcript.file for transcript in together] == [str(path) for path in paths]
    alone = [transcript for path in paths for transcript in Transcriber(search, OPTIONS).transcribe([path])]
    scores = [[scores_of(transcript) for transcript in transcripts] for transcripts in (together, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert len({round(score, 2) for score in scores[0]}) > 1


def test_silence_is_not_even_listened_to(search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listen(waveforms: list[Tensor]) -> Encoded:
        raise AssertionError("silence was listened to")

    monkeypatch.setattr(search.system.recogniser, "listen", listen)
    path = write(tmp_path / "silence.wav", np.zeros(16000 * 5))
    (transcript,) = Transcriber(search, OPTIONS).transcribe([path])
    assert transcript.text == ""
    assert transcript.segments[-1].end == 5.0


def judged(
    search: Search, monkeypatch: pytest.MonkeyPatch, no_speech: float, mean: float, text: str = "a", ended: bool = True
) -> list[Segment]:
    """What is made of a window in which the recogniser finds this."""
    transcriber = Transcriber(search, OPTIONS)
    hypothesis = Hypothesis(text, (1,) * 4, {"aed": 5 * mean}, 5, mean, ended)
    probability = torch.tensor([no_speech])
    monkeypatch.setattr(search.system.recogniser, "no_speech", lambda encoded: probability.expand(len(encoded)))
    monkeypatch.setattr(transcriber, "_best", lambda encoded, limits: [hypothesis] * len(encoded))
    (segments,) = transcriber.hear([Window(0, torch.from_numpy(noise(0.9)))])
    return segments


def test_unlikely_text_where_nobody_speaks_is_left_out(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    (invented,) = judged(search, monkeypatch, no_speech=0.7, mean=-1.2)
    assert (invented.text, invented.unclear) == ("", False)
    assert invented.no_speech == pytest.approx(0.7)
    for no_speech, mean in ((0.4, -1.2), (0.7, -0.4)):  # speech after all, or likely text
        assert judged(search, monkeypatch, no_speech, mean)[0].text == "a"


def test_a_loop_is_never_likely(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "I'm going to do that. " * 20
    (nobody,) = judged(search, monkeypatch, 0.7, -0.01, loop, ended=False)
    assert (nobody.text, nobody.unclear) == ("", False)
    monkeypatch.setattr(recipe, "DIVIDED", 0.5)
    parts = judged(search, monkeypatch, 0.1, -0.01, loop, ended=False)
    assert len(parts) == 2
    assert all(part.text == "" and part.unclear for part in parts)
    assert [parts[0].start, parts[-1].end] == pytest.approx([0, 0.9])
    assert 0.2 < parts[0].end == parts[1].start < 0.7
    said = judged(search, monkeypatch, 0.1, -0.01, loop, ended=True)  # it came to an end: perhaps it is a song
    assert [part.text for part in said] == [loop, loop]


def test_repetition_is_told_from_text() -> None:
    assert is_repetitive("no " * 30)
    assert not is_repetitive("no no no")
    assert not is_repetitive("It was the best of times, it was the worst of times, it was the age of wisdom")


def test_what_is_probably_no_speech_is_searched_a_little_at_first(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    transcriber, limits = Transcriber(search, TranscribeOptions(log_prob=-100, search=0.4)), []
    best = transcriber._best

    def noted(encoded: Encoded, given: Tensor) -> list[Hypothesis]:
        limits.append(given.tolist())
        return best(encoded, given)

    monkeypatch.setattr(transcriber, "_best", noted)
    monkeypatch.setattr(recipe, "GLANCE", 2)
    monkeypatch.setattr(search.system.recogniser, "no_speech", lambda encoded: torch.tensor([0.1, 0.9]))
    both = [Window(0, torch.from_numpy(noise(0.9, seed=seed))) for seed in (1, 2)]
    doubtful = transcriber.hear(both)
    assert limits == [[38, 2], [38]]
    monkeypatch.setattr(search.system.recogniser, "no_speech", lambda encoded: torch.tensor([0.1, 0.1]))
    assert [part[0].text for part in transcriber.hear(both)] == [part[0].text for part in doubtful]


def test_a_bad_file_does_not_lose_the_others(search: Search, tmp_path: Path) -> None:
    good = write(tmp_path / "good.wav", noise(0.8))
    bad = tmp_path / "bad.wav"
    bad.write_bytes(b"nothing of the kind")
    first, second, third = Transcriber(search, OPTIONS).transcribe([good, bad, good])
    assert first.text == third.text != ""
    assert not first.problems
    assert "bad.wav: cannot read the audio" in second.problems[0]
    assert not second.segments


def test_a_truncated_file_is_transcribed_as_far_as_it_goes(search: Search, tmp_path: Path) -> None:
    path = write(tmp_path / "cut.flac", noise(6))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    (transcript,) = Transcriber(search, TranscribeOptions(search=0.4)).transcribe([path])
    assert 1 < transcript.duration < 4
    assert transcript.segments[-1].end > transcript.duration - 1
    assert "cut.flac" in transcript.problems[0]


def test_stereo_at_another_rate_is_mixed_down_and_resampled(search: Search, tmp_path: Path) -> None:
    times = np.arange(16000) / 16000
    plain = (0.3 * np.sin(2 * np.pi * 700 * times)).astype(np.float32)
    fast = 0.3 * np.sin(2 * np.pi * 700 * np.arange(44100) / 44100)
    one = write(tmp_path / "one.wav", plain)
    two = write(tmp_path / "two.wav", np.stack([1.5 * fast, 0.5 * fast], axis=1), 44100)
    a, b = Transcriber(search, OPTIONS).transcribe([one, two])
    assert a.text == b.text
    assert b.duration == pytest.approx(1.0)


def test_words_lie_in_their_window_and_in_what_is_to_be_heard(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = torch.from_numpy(noise(0.9))
    for align in (True, False):
        options = TranscribeOptions(search=0.4, align=align)
        ((segment,),) = Transcriber(search, options).hear([Window(16000, samples)])
        assert "".join(word.text for word in segment.words) == segment.text
        assert 1.0 <= segment.words[0].start <= segment.words[-1].end <= 2.0
    recogniser, transcriber = search.system.recogniser, Transcriber(search, OPTIONS)
    labels = tuple(recogniser.tokenizer.encode("the cat. a"))
    said = Hypothesis("the cat. a", labels, {"aed": -1.0}, 5, -0.2)
    monkeypatch.setattr(transcriber, "_best", lambda encoded, limits: [said])
    times = [(0.0, 0.2), (0.2, 0.28), (0.28, 0.76), (0.76, 0.9)]
    monkeypatch.setattr(recogniser, "times", lambda encoded, labels: times)
    samples[:1600] = samples[4800:11200] = samples[13600:] = 0.0
    ((segment,),) = transcriber.hear([Window(16000, samples)])
    assert (segment.start, segment.end) == pytest.approx((1.1, 1.85))
    assert [time for word in segment.words for time in (word.start, word.end)] == pytest.approx(
        [1.1, 1.2, 1.2, 1.3, 1.7, 1.85]
    )


def test_windows_that_the_recogniser_cannot_hear_are_refused(search: Search) -> None:
    with pytest.raises(FewerError, match="hears up to 1 s"):
        Transcriber(search, TranscribeOptions(longest=2.0, search=0.5))
    with pytest.raises(FewerError, match="shorter than the window"):
        Transcriber(search, TranscribeOptions(search=1.0))


def test_a_recogniser_of_our_own_transcribes(tones: Path) -> None:
    search = load_search(Models(tones / "aed"), Options(beam=3))
    files = sorted((tones / "audio").glob("dev-*.wav"))
    transcripts = list(Transcriber(search).transcribe(files))
    assert len(transcripts) == len(files)
    assert any(transcript.text for transcript in transcripts)
    assert all(segment.no_speech is None for transcript in transcripts for segment in transcript.segments)
