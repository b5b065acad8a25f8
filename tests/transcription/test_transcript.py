"""Transcripts as text, JSON and subtitles."""

import json

from fewer.search.nbest import Hypothesis
from fewer.transcription.transcript import Segment, Transcript
from fewer.transcription.words import LONGEST, split_words, timed


def segment(text: str, start: float = 0.0, end: float = 10.0) -> Segment:
    hypothesis = Hypothesis(text, (1, 2), {"aed": -1.5, "lm": -4.0}, 3, -0.9)
    return Segment(start, end, hypothesis, timed(text, start, end), 0.01)


def test_times_are_in_proportion_to_length() -> None:
    words = timed("ab cdefg", 1.0, 9.0)
    assert [(word.text, word.start, word.end) for word in words] == [("ab", 1.0, 3.0), (" cdefg", 3.0, 9.0)]
    assert timed("", 0.0, 1.0) == ()


def test_words_are_parted_by_blanks_or_else_by_characters() -> None:
    assert split_words(" a bc, – d ") == [" a", " bc,", " –", " d"]
    assert split_words("좋은 아침") == ["좋은", " 아침"]
    assert split_words("我用iPhone，（你）呢？ OK。") == ["我", "用", "iPhone，", "（你）", "呢？", " OK。"]
    assert split_words("ที่นี่") == ["ที่", "นี่"]
    assert split_words("「」。") == ["「」。"]
    assert split_words("x" * (LONGEST + 1)) == ["x"] * (LONGEST + 1)


def test_a_table_has_milliseconds_and_one_line_for_each_segment() -> None:
    segments = [segment("Two\tbits.\nAnd one.", 0.5, 3.0004), Segment(3, 4), segment("So.")]
    transcript = Transcript("call.wav", 20.0, segments)
    assert transcript.written("tsv") == "start\tend\ttext\n500\t3000\tTwo bits. And one.\n0\t10000\tSo.\n"


def test_text_has_a_line_for_each_segment_and_json_every_score() -> None:
    transcript = Transcript(
        "call.wav", 30.0, [segment("Hello there."), Segment(10, 20, no_speech=0.9), segment("Bye.", 20, 30)]
    )
    assert transcript.written("text") == "Hello there.\nBye.\n"
    value = json.loads(transcript.written("json"))
    assert value["text"] == "Hello there.\nBye."
    said, nothing, _ = value["segments"]
    assert said["scores"] == {"aed": -1.5, "lm": -4.0}
    assert (said["start"], said["end"], said["score"], said["labels"]) == (0.0, 10.0, -0.9, 3)
    assert [word["word"] for word in said["words"]] == ["Hello", "there."]
    assert nothing == {"start": 10, "end": 20, "text": "", "no_speech": 0.9}
    assert Transcript("empty.wav").written("text") == ""
