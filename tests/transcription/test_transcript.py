"""Transcripts as text, JSON and subtitles."""

import json

import pytest

from fewer.search.nbest import Hypothesis
from fewer.transcription.transcript import (
    LINE,
    Cue,
    Segment,
    Transcript,
    Word,
    cues,
    lines,
    split_words,
    subtitles,
    timed,
)

TEXT = "It was a bright cold day in April, and the clocks were striking thirteen. Winston Smith slipped in. Yes. No."


def segment(text: str, start: float = 0.0, end: float = 10.0) -> Segment:
    hypothesis = Hypothesis(text, (1, 2), {"aed": -1.5, "lm": -4.0}, 3, -0.9)
    return Segment(start, end, hypothesis, timed(text, start, end), 0.01)


def test_times_are_in_proportion_to_length() -> None:
    words = timed("ab cdefg", 1.0, 9.0)
    assert [(word.text, word.start, word.end) for word in words] == [("ab", 1.0, 3.0), (" cdefg", 3.0, 9.0)]
    assert timed("", 0.0, 1.0) == ()


def test_subtitles_have_two_lines_at_most_and_end_with_sentences() -> None:
    found = cues([segment(TEXT), segment("Next.", 12.0, 13.0)])
    assert [cue.text for cue in found] == [
        "It was a bright cold day in April, and\nthe clocks were striking thirteen.",
        "Winston Smith slipped in.",
        "Yes. No.",
        "Next.",
    ]
    assert found[0].start == 0.0
    assert found[2].end == pytest.approx(10.0)
    assert [cue.end for cue in found[:2]] == [cue.start for cue in found[1:3]]
    assert found[3] == Cue(12.0, 13.0, "Next.")


def test_a_gap_ends_a_subtitle() -> None:
    words = (Word("I", 0.0, 0.5), Word(" mean", 1.0, 1.5), Word(" yes", 2.6, 3.0))
    assert cues([Segment(0.0, 3.0, None, words)]) == [Cue(0.0, 1.5, "I mean"), Cue(2.6, 3.0, "yes")]


def test_words_are_parted_by_blanks_or_else_by_characters() -> None:
    assert split_words(" a bc, – d ") == [" a", " bc,", " –", " d"]
    assert split_words("좋은 아침") == ["좋은", " 아침"]
    assert split_words("我用iPhone，（你）呢？ OK。") == ["我", "用", "iPhone，", "（你）", "呢？", " OK。"]
    assert split_words("ที่นี่") == ["ที่", "นี่"]
    assert split_words("「」。") == ["「」。"]
    assert split_words("x" * (LINE + 1)) == ["x"] * (LINE + 1)


def test_no_line_is_too_long_whatever_is_said() -> None:
    for text in ("word " * 100, "字" * 200, "x" * 100 + " y", "a sentence without an end " * 10):
        found = cues([segment(text)])
        assert all(len(line) <= LINE for cue in found for line in cue.text.split("\n"))
        assert all(cue.text.count("\n") <= 1 for cue in found)
        assert "".join(cue.text for cue in found).replace("\n", "").replace(" ", "") == text.replace(" ", "")


def test_lines_are_as_equal_as_can_be() -> None:
    assert lines("short") == ["short"]
    assert lines("one two three four five six seven eight nine ten") == [
        "one two three four five",
        "six seven eight nine ten",
    ]


def test_srt_and_vtt_are_spelled_as_players_want_them() -> None:
    segments = [segment("Tom & Jerry", 3599.5, 3661.25)]
    assert subtitles(segments, "srt") == "1\n00:59:59,500 --> 01:01:01,250\nTom & Jerry\n"
    assert subtitles(segments, "vtt") == "WEBVTT\n\n1\n00:59:59.500 --> 01:01:01.250\nTom &amp; Jerry\n"
    assert subtitles([Segment(0, 1)], "srt") == ""


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
