"""Subtitles: where cues begin and end."""

import random
from itertools import pairwise

import pytest

from fewer.transcription.subtitles import LEAST, LINE, LONGEST_CUE, SHORTEST, Cue, cues, ends_sentence, lines, subtitles
from fewer.transcription.words import Word, timed

TEXT = "It was a bright cold day in April, and the clocks were striking thirteen. Winston Smith slipped in. Yes. No."


def test_cues_have_two_lines_at_most_and_end_with_sentences() -> None:
    found = cues([timed(TEXT, 0.0, 10.0), timed("Next.", 12.0, 13.0)])
    assert [cue.text for cue in found] == [
        "It was a bright cold day in April, and\nthe clocks were striking thirteen.",
        "Winston Smith slipped in.",
        "Yes. No.",
        "Next.",
    ]
    assert found[0].start == 0.0
    assert found[2].end == pytest.approx(found[2].start + SHORTEST)
    assert [cue.end for cue in found[:2]] == [cue.start for cue in found[1:3]]
    assert found[3] == Cue(12.0, 13.0, "Next.")


def test_a_gap_ends_a_cue() -> None:
    words = (Word("I", 0.0, 0.5), Word(" mean", 1.0, 1.5), Word(" yes", 2.6, 3.0))
    assert cues([words]) == [Cue(0.0, 1.5, "I mean"), Cue(2.6, 3.6, "yes")]  # a second to read it


def test_a_cue_goes_on_where_a_window_ends_in_mid_sentence() -> None:
    """Else the last word of a sentence would be a cue of its own."""
    first, second = (
        timed("He came home late in the", 0.0, 3.0),
        timed("evening. Nobody was there to greet him.", 3.0, 7.0),
    )
    assert [cue.text for cue in cues([first, second])] == [
        "He came home late in the evening.",
        "Nobody was there to greet him.",
    ]
    assert [cue.text for cue in cues([timed("你好", 0.0, 1.0), timed("世界。", 1.0, 2.0)])] == ["你好世界。"]


def test_no_word_is_left_alone() -> None:
    text = "one of the most remarkable things about the whole of this affair was that nobody had ever thought about it"
    for length in range(40, len(text)):
        said = text[:length].rsplit(" ", 1)[0] + "."
        assert all(len(cue.text) >= 12 for cue in cues([timed(said, 0.0, len(said) / 15)])), said


def test_abbreviations_do_not_end_sentences() -> None:
    assert not ends_sentence(" Mr.", " Smith")
    assert not ends_sentence(" “Dr.", " Watson")
    assert not ends_sentence(" J.", " Edgar")
    assert not ends_sentence(" etc.", " and")
    assert ends_sentence(" etc.", " Then")
    assert ends_sentence(" done.”", " Then")
    assert ends_sentence(" 終わり。", "次")
    assert not ends_sentence(" one,", " two")
    text = "It is a manifest that Mr. Quilter is the apostle of the middle classes."
    assert [cue.text.replace("\n", " ") for cue in cues([timed(text, 0.0, 5.0)])] == [text]


def test_cues_last_long_enough_and_follow_each_other_whatever_times_words_have() -> None:
    rng = random.Random(0)
    vocabulary = ["a", "the", "extraordinary", "Mr.", "end.", "well,", "no?", "x" * 30]
    for _ in range(200):
        words, time = [], 0.0
        for _ in range(rng.randrange(1, 60)):
            time += rng.choice([0.0, 0.0, 0.2, 0.5, 3.0])
            end = time + rng.choice([0.0, 0.0, 0.1, 0.4, 9.0])
            words.append(Word(" " + rng.choice(vocabulary), time, end))
            time = end
        found = cues([words])
        assert " ".join(cue.text for cue in found).split() == [word.text.strip() for word in words]
        assert all(LEAST - 1e-9 <= cue.end - cue.start <= LONGEST_CUE + 1e-9 for cue in found)
        for cue, following in pairwise(found):
            assert cue.end <= following.start + 1e-9
            assert cue.end - cue.start >= min(SHORTEST, following.start - cue.start) - 1e-9


def test_no_line_is_too_long_whatever_is_said() -> None:
    for text in ("word " * 100, "字" * 200, "x" * 100 + " y", "a sentence without an end " * 10):
        found = cues([timed(text, 0.0, 10.0)])
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
    segments = [timed("Tom & Jerry", 3599.5, 3601.25)]
    assert subtitles(segments, "srt") == "1\n00:59:59,500 --> 01:00:01,250\nTom & Jerry\n"
    assert subtitles(segments, "vtt") == "WEBVTT\n\n1\n00:59:59.500 --> 01:00:01.250\nTom &amp; Jerry\n"
    assert subtitles([()], "srt") == ""
