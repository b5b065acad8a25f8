"""Segment time marks are read line by line, and cleaned for NIST's scoring scripts."""

from fewer.data.corpora.corpus import Problem
from fewer.data.corpora.stm import StmSegment, clean_stm, read_stm
from tests.data.corpora.builders import write_lines


def test_fields_of_a_segment(tmp_path):
    path = write_lines(tmp_path / "a.stm", ";; comment", "en_4156 A en_4156_A 357.64 359.5 <O,en,F>  HE IS (%UH) HERE ")
    assert list(read_stm(path)) == [
        StmSegment("en_4156", "A", "en_4156_A", 357.64, 359.5, "O,en,F", "HE IS (%UH) HERE", f"{path}, line 2")
    ]


def test_labels_are_optional_and_words_in_angle_brackets_are_no_labels(tmp_path):
    path = write_lines(
        tmp_path / "a.stm", "f 1 s 0 1 hello you", "f 2 s 0 1 <b_aside> come", "f B s 1 2", "f 1 s 0 1 <>"
    )
    segments = [one for one in read_stm(path) if isinstance(one, StmSegment)]
    assert [(one.side, one.labels, one.text) for one in segments] == [
        ("A", "", "hello you"),
        ("B", "", "<b_aside> come"),
        ("B", "", ""),
        ("A", "", ""),
    ]


def test_ignored_segments_and_gaps_are_not_scored(tmp_path):
    path = write_lines(
        tmp_path / "a.stm",
        "f A s 0 1 <o> ignore_time_segment_in_scoring",
        "f A s 1 2 <o> IGNORE_TIME_SEGMENT_IN_SCORING",
        "f A inter_segment_gap 2 3 <o> ",
        "f A s 3 4 <o> words",
    )
    assert [one.scored for one in read_stm(path)] == [False, False, False, True]


def test_bad_lines_are_named(tmp_path):
    path = write_lines(tmp_path / "a.stm", "f A s 0", "f C s 0 1 x", "f A s zero 1 x")
    problems = list(read_stm(path))
    assert all(isinstance(problem, Problem) for problem in problems)
    assert [str(problem) for problem in problems] == [
        f"{path}, line 1: expected `file side speaker begin end <labels> words`, found 'f A s 0'",
        f"{path}, line 2: side 'C' is none of A, B, 1, 2",
        f"{path}, line 3: times 'zero' and '1' are not numbers",
    ]


def test_cleaned_for_scoring(tmp_path):
    first = write_lines(
        tmp_path / "a.stm", ";; CATEGORY", "f 1 s 0 1 <o> ((I-) <B_ASIDE> GO", "f 1 inter_segment_gap 1 2 <o>"
    )
    second = write_lines(tmp_path / "b.stm", "g B s 0 1 <o> ignore_time_segment_in_scoring")
    assert list(clean_stm([first, second])) == [
        ";; CATEGORY",
        "f A s 0 1 <o> (I-)  GO",
        "g B s 0 1 <o> ignore_time_segment_in_scoring",
    ]
