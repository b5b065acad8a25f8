"""LibriSpeech, with any of its sets, and what may be wrong with it."""

from pathlib import Path

import pytest
from lhotse.recipes import prepare_librispeech

from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import librispeech, pitch, read_cuts, texts, write_lines


def test_every_set_that_is_there(tmp_path):
    corpus = librispeech(tmp_path)
    summaries = prepare("librispeech", corpus, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["dev-clean.jsonl", "train-clean-5.jsonl"]
    assert [(one.name, one.utterances, sorted(one.speakers), one.words) for one in summaries] == [
        ("dev-clean", 3, ["1272", "84"], 19),
        ("train-clean-5", 3, ["103", "19"], 14),
    ]
    assert summaries[0].seconds == pytest.approx(0.6 + 0.7 + 0.8)


def test_cuts_are_sorted_and_hold_the_right_audio_and_words(tmp_path):
    corpus = librispeech(tmp_path)
    prepare("librispeech", tmp_path, tmp_path / "out")  # the folder around LibriSpeech will do as well
    cuts = read_cuts(tmp_path / "out/dev-clean.jsonl")
    assert [cut.id for cut in cuts] == ["1272-128104-0000", "84-121123-0000", "84-121123-0001"]
    assert [round(pitch(cut), -1) for cut in cuts] == [600, 700, 800]
    assert cuts[1].supervisions[0].text == "GO DO YOU HEAR"
    assert cuts[1].supervisions[0].speaker == "84"
    assert cuts[1].supervisions[0].custom == {"subset": "dev-clean"}
    assert cuts[1].recording.sources[0].source == str(corpus / "dev-clean/84/121123/84-121123-0000.flac")


def test_agrees_with_lhotse(tmp_path):
    corpus = librispeech(tmp_path)
    prepare("librispeech", corpus, tmp_path / "out")
    theirs = prepare_librispeech(corpus, dataset_parts=["dev-clean", "train-clean-5"])
    for name, manifests in theirs.items():
        cuts = {cut.id: cut for cut in read_cuts(tmp_path / f"out/{name}.jsonl")}
        assert len(cuts) == len(manifests["supervisions"])
        for segment in manifests["supervisions"]:
            ours = cuts[segment.id].supervisions[0]
            assert (ours.text, ours.speaker, ours.duration) == (segment.text, segment.speaker, segment.duration)
            assert cuts[segment.id].recording == manifests["recordings"][segment.recording_id]


def test_relative_sources_give_absolute_paths(tmp_path, monkeypatch):
    librispeech(tmp_path)
    monkeypatch.chdir(tmp_path)
    prepare("librispeech", Path("LibriSpeech"), Path("out"), PrepareOptions(sets=("dev-clean",)))
    assert read_cuts(tmp_path / "out/dev-clean.jsonl")[0].recording.sources[0].source.startswith(f"{tmp_path}/")
    assert not (tmp_path / "out/train-clean-5.jsonl").exists()


CHAPTER = "dev-clean/84/121123"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: (c / f"{CHAPTER}/84-121123-0001.flac").unlink(), "84-121123-0001.flac: there is no such audio file"),
        (lambda c: (c / f"{CHAPTER}/84-121123-0001.flac").write_bytes(b"?"), "84-121123-0001.flac: cannot be read"),
        (lambda c: (c / f"{CHAPTER}/84-121123.trans.txt").unlink(), "84-121123.trans.txt: the transcripts of 2 audio"),
        (
            lambda c: write_lines(c / f"{CHAPTER}/84-121123.trans.txt", "84-121123-0000 GO", "84-121123-0001 "),
            "84-121123.trans.txt, line 2: utterance 84-121123-0001 has no words",
        ),
        (
            lambda c: write_lines(c / f"{CHAPTER}/84-121123.trans.txt", "84-121123-0000 GO"),
            "84-121123-0001.flac: has no line in 84-121123.trans.txt",
        ),
        (
            lambda c: write_lines(
                c / f"{CHAPTER}/84-121123.trans.txt", *["84-121123-0000 GO"] * 2, "84-121123-0001 DO"
            ),
            "84-121123.trans.txt, line 2: utterance 84-121123-0000 is there twice",
        ),
        (
            lambda c: write_lines(c / f"{CHAPTER}/84-121123.trans.txt", "84-999-0000 GO"),
            "line 1: utterance 84-999-0000 does not belong to speaker 84, chapter 121123",
        ),
        (
            lambda c: (c / f"{CHAPTER}/84-121123.trans.txt").write_bytes(b"84-121123-0000 caf\xe9\n"),
            "84-121123.trans.txt, line 1: not UTF-8",
        ),
    ],
)
def test_bad_input_is_one_clear_error_and_nothing_is_written(tmp_path, damage, message):
    corpus = librispeech(tmp_path)
    damage(corpus)
    with pytest.raises(FewerError, match=message.replace(".", r"\.")) as caught:
        prepare("librispeech", corpus, tmp_path / "out")
    assert str(corpus) in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_bad_entries_are_listed_and_skipped_on_request(tmp_path):
    corpus = librispeech(tmp_path)
    missing = corpus / f"{CHAPTER}/84-121123-0001.flac"
    missing.unlink()
    summaries = prepare("librispeech", corpus, tmp_path / "out", PrepareOptions(skip_bad=True))
    assert [(one.name, one.utterances, one.skipped) for one in summaries] == [
        ("dev-clean", 2, 1),
        ("train-clean-5", 3, 0),
    ]
    assert list(texts(tmp_path / "out/dev-clean.jsonl")) == ["1272-128104-0000", "84-121123-0000"]
    listed = (tmp_path / "out/dev-clean.skipped.txt").read_text().splitlines()
    assert len(listed) == 1
    assert listed[0].startswith(f"{missing}: there is no such audio file (utterance 84-121123-0001, ")


def test_a_set_without_any_transcript_is_not_overlooked(tmp_path):
    corpus = librispeech(tmp_path)
    for path in (corpus / "dev-clean").rglob("*.trans.txt"):
        path.unlink()
    with pytest.raises(FewerError, match=r"1272-128104.trans.txt: the transcripts of 1 audio files are missing"):
        prepare("librispeech", corpus, tmp_path / "out")


def test_a_folder_without_librispeech(tmp_path):
    with pytest.raises(FewerError, match="does not look like the corpus"):
        prepare("librispeech", tmp_path, tmp_path / "out")
