"""trn, stm, ctm, text and utt2spk files."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.evaluation.formats import (
    Segment,
    Word,
    assign,
    read_ctm,
    read_speakers,
    read_stm,
    read_text,
    read_trn,
    segment_ids,
    spread,
    trn_speaker,
    write_ctm,
    write_stm,
    write_trn,
)
from fewer.evaluation.normalise import load_normaliser
from fewer.evaluation.transcripts import pair_by_time
from fewer.evaluation.wer import score
from tests.evaluation import sctk

words = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"], exclude_characters="(){}/;@"), min_size=1)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,8}", fullmatch=True)
seconds = st.integers(0, 10**6).map(lambda thousandths: thousandths / 1000)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_trn_lines_are_words_and_an_id_in_parentheses(tmp_path: Path) -> None:
    path = write(tmp_path / "a.trn", ";; comment\nshe had  (uh) your suit (84-1-0)\n\n(84-1-1)\n")
    assert read_trn(path) == {"84-1-0": "she had (uh) your suit", "84-1-1": ""}


@given(st.dictionaries(names, st.lists(words, max_size=5).map(" ".join), max_size=6))
@settings(deadline=None, max_examples=50)
def test_trn_comes_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]) -> None:
    path = tmp_path_factory.mktemp("trn") / "a.trn"
    write_trn(path, texts)
    assert read_trn(path) == texts


def test_trn_ids_begin_with_the_speaker_as_sclite_expects(tmp_path: Path) -> None:
    write_trn(tmp_path / "a.trn", {"84-1": "a", "7": "b"}, {"84-1": "84", "7": "ann"})
    assert read_trn(tmp_path / "a.trn") == {"84-1": "a", "ann-7": "b"}
    assert [trn_speaker(utterance) for utterance in ("84-121-0", "cmh_sa01", "x7")] == ["84", "cmh", None]


def test_an_id_that_cannot_stand_in_a_trn_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FewerError, match=r"'a \(b\)' cannot stand in a trn"):
        write_trn(tmp_path / "a.trn", {"a (b)": "x"})
    assert not list(tmp_path.iterdir())


def test_kaldi_text_and_utt2spk(tmp_path: Path) -> None:
    assert read_text(write(tmp_path / "text", "u1 a  b\nu2\nu3\tc\n")) == {"u1": "a b", "u2": "", "u3": "c"}
    assert read_speakers(write(tmp_path / "utt2spk", "u1 ann\nu2 bob\n")) == {"u1": "ann", "u2": "bob"}


def test_stm_lines_may_have_labels_and_no_words(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.stm",
        ";; comment\nf2 A ann 0.0 1.5 <O,en,F> oh  yeah\nf1 B bob 2 3 hi\nf1 B bob 1 2\n"
        "f1 A bob 0 1 ignore_time_segment_in_scoring\n",
    )
    assert read_stm(path) == [
        Segment("f1", "A", "bob", 0.0, 1.0, "ignore_time_segment_in_scoring"),
        Segment("f1", "B", "bob", 1.0, 2.0, ""),
        Segment("f1", "B", "bob", 2.0, 3.0, "hi"),
        Segment("f2", "A", "ann", 0.0, 1.5, "oh yeah", "<O,en,F>"),
    ]
    assert [segment.ignored for segment in read_stm(path)] == [True, False, False, False]
    assert list(segment_ids(read_stm(path))) == ["f1-A-0001", "f1-B-0001", "f1-B-0002", "f2-A-0001"]


segments_strategy = st.builds(
    lambda file, channel, speaker, start, length, text, label: Segment(
        file, channel, speaker, start, round(start + length, 3), " ".join(text), label
    ),
    names,
    st.sampled_from("AB"),
    names,
    seconds,
    seconds,
    st.lists(words.filter(lambda word: not word.startswith("<")), max_size=4),
    st.sampled_from(["", "<O,F>"]),
)


@given(st.lists(segments_strategy, max_size=5))
@settings(deadline=None, max_examples=50)
def test_stm_comes_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, segments: list[Segment]) -> None:
    path = tmp_path_factory.mktemp("stm") / "a.stm"
    write_stm(path, segments)
    assert read_stm(path) == sorted(segments, key=lambda segment: (segment.file, segment.channel, segment.start))


word_strategy = st.builds(
    Word,
    names,
    st.sampled_from("AB"),
    seconds,
    seconds,
    words.filter(lambda word: not word.upper().startswith("<ALT")),
    st.none() | st.sampled_from([0.5, 1.0]),
)


@given(st.lists(word_strategy, max_size=6))
@settings(deadline=None, max_examples=50)
def test_ctm_comes_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, listed: list[Word]) -> None:
    path = tmp_path_factory.mktemp("ctm") / "a.ctm"
    write_ctm(path, listed)
    assert read_ctm(path) == sorted(listed, key=lambda word: (word.file, word.channel, word.start))


def test_ctm_alternatives_are_one_word_with_the_latest_middle(tmp_path: Path) -> None:
    text = "f A 1 1 a\nf A * * <ALT_BEGIN>\nf A 2 1 he\nf A 3 1 is\nf A * * <ALT>\nf A * * <ALT_END>\nf A 4 1 b 0.7\n"
    found = read_ctm(write(tmp_path / "a.ctm", text))
    assert [word.text for word in found] == ["a", "{ he is / @ }", "b"]
    assert found[1].middle == 3.5
    write_ctm(tmp_path / "b.ctm", found)
    assert [word.text for word in read_ctm(tmp_path / "b.ctm")] == ["a", "{ he is / @ }", "b"]


def test_several_words_of_one_share_its_time(tmp_path: Path) -> None:
    write_ctm(tmp_path / "a.ctm", [Word("f", "A", 1.0, 0.5, "going to")])
    assert (tmp_path / "a.ctm").read_text() == "f A 1.000 0.250 going\nf A 1.250 0.250 to\n"
    assert spread("", "f", "A", 0.0, 1.0) == []


@pytest.mark.parametrize(
    ("name", "text", "line", "problem"),
    [
        ("a.trn", "a (1)\nno id\n", 2, r"expected 'words \(utterance-id\)'"),
        ("a.trn", "a (1)\nb (1)\n", 2, "utterance 1 is there twice"),
        ("a.trn", "a ()\n", 1, "expected 'words"),
        ("a.stm", "f A s 0\n", 1, "expected 'file channel speaker start end"),
        ("a.stm", ";;\nf A s 2 1 a\n", 2, "ends .* before it starts"),
        ("a.stm", "f A s x 1 a\n", 1, "'x' is not a time"),
        ("a.stm", "f A s 0 inf a\n", 1, "'inf' is not a time"),
        ("a.ctm", "f A 0 1\n", 1, "expected 'file channel start duration word"),
        ("a.ctm", "f A 0 1 a\nf A 0 -1 a\n", 2, "'-1' is not a time"),
        ("a.ctm", "f A 0 1 a high\n", 1, "'high' is not a confidence"),
        ("a.ctm", "f A * * <ALT>\n", 1, "out of place"),
        ("a.ctm", "f A * * <ALT_BEGIN>\nf A 0 1 a\nf A * * <ALT_END>\n", 3, "at least two"),
        ("text", "u1 a\n\n", 2, "empty"),
        ("text", "u1 a\nu1 b\n", 2, "utterance u1 is there twice"),
        ("utt2spk", "u1 ann\nu2\n", 2, "expected 'utterance-id speaker'"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, name: str, text: str, line: int, problem: str) -> None:
    read = {"a.trn": read_trn, "a.stm": read_stm, "a.ctm": read_ctm, "text": read_text, "utt2spk": read_speakers}[name]
    with pytest.raises(FewerError, match=rf"{name}, line {line}: .*{problem}"):
        read(write(tmp_path / name, text))


def test_words_go_to_segments_by_their_middle() -> None:
    segments = [
        Segment("f", "A", "s", 0.0, 2.0, "a b c"),
        Segment("f", "A", "s", 2.0, 4.0, "d"),
        Segment("f", "A", "s", 4.0, 6.0, "IGNORE_TIME_SEGMENT_IN_SCORING"),
        Segment("f", "A", "s", 6.0, 8.0, "g"),
        Segment("g", "A", "s", 0.0, 1.0, "x"),
    ]
    times = {"a": 0.1, "b": 1.7, "c": 1.8, "zz": 5.5, "g": 5.8, "late": 9.0}
    found = assign([Word("f", "A", start, 0.4, text) for text, start in times.items()], segments)
    assert [[word.text for word in theirs] for _, theirs in found] == [["a", "b"], ["c"], ["g", "late"], []]
    with pytest.raises(FewerError, match="file h, channel A"):
        assign([Word("h", "A", 0.0, 1.0, "x")], segments)


@sctk.needs("sclite")
@pytest.mark.parametrize("hubscr", [False, True])
def test_sclite_scores_ctm_against_stm_alike(tmp_path: Path, hubscr: bool) -> None:
    rng = random.Random(2)
    segments, timed = [], []
    for file in ("fa", "fb"):
        for channel in "AB":
            at = 0.0
            for _ in range(15):
                start, at = at + rng.random(), at + rng.uniform(1.5, 5)
                text = " ".join(
                    rng.choice(["a", "b", "c", "{ d / e f }", "(g)", "ab-"]) for _ in range(rng.randint(1, 8))
                )
                if rng.random() < 0.1:
                    text = "ignore_time_segment_in_scoring"
                segments.append(Segment(file, channel, f"{file}{channel}", round(start, 2), round(at, 2), text))
            clock = 0.0
            while clock < at:
                clock += rng.uniform(0.1, 0.6)
                timed.append(
                    Word(file, channel, round(clock, 2), 0.25, rng.choice(["a", "b", "c", "d", "e", "f", "g"]))
                )
    write_stm(tmp_path / "ref.stm", segments)
    write_ctm(tmp_path / "hyp.ctm", timed)
    pairs = pair_by_time(
        read_ctm(tmp_path / "hyp.ctm"), read_stm(tmp_path / "ref.stm"), load_normaliser("none"),
        {(word.file, word.channel) for word in timed},
    )  # fmt: skip
    ours = score(pairs.refs, pairs.hyps, pairs.speakers, rules="hubscr" if hubscr else "sclite")
    flags = ["-F", "-D"] if hubscr else []
    theirs = sctk.sclite_counts("-r", tmp_path / "ref.stm", "stm", "-h", tmp_path / "hyp.ctm", "ctm", *flags)
    assert [(s, d, i) for _, (_, s, d, i) in theirs] == [tuple(row) for row in ours.counts[:, :3].tolist()]
