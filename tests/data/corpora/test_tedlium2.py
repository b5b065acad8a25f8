"""TED-LIUM release 2: SPHERE talks with STM transcripts."""

import shutil

import pytest
from lhotse.audio.backend import audio_backend
from lhotse.recipes import prepare_tedlium2

from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import pitch, read_cuts, tedlium2, texts, write_audio, write_lines


def test_segments_words_and_audio(tmp_path):
    corpus = tedlium2(tmp_path)
    summaries = prepare("tedlium2", tmp_path, tmp_path / "out")
    assert [(one.name, one.utterances, one.wordless) for one in summaries] == [
        ("train", 2, 0),
        ("dev", 1, 2),
        ("test", 1, 0),
        ("lm", 4, 1),
    ]
    assert texts(tmp_path / "out/train.jsonl") == {
        "AaronHuey_2010X-0000100-0000200": "i'm here today to show my photographs",
        "AaronHuey_2010X-0000200-0000300": "of the lakota don't know",
    }
    assert texts(tmp_path / "out/test.jsonl") == {"BillGates_2010-0000000-0000100": "the parents' o'clock"}
    cuts = read_cuts(tmp_path / "out/train.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts] == [440, 660]
    assert {cut.supervisions[0].speaker for cut in cuts} == {"AaronHuey_2010X"}
    assert cuts[0].recording.sources[0].source == str(corpus / "train/sph/AaronHuey_2010X.sph")


def test_ignored_segments_make_no_utterance(tmp_path):
    tedlium2(tmp_path)
    prepare("tedlium2", tmp_path, tmp_path / "out")
    assert texts(tmp_path / "out/dev.jsonl") == {
        "AlGore_2009-0000050-0000150": "last year i showed these two slides so that"
    }


def test_text_for_language_models_is_spelled_as_the_transcripts(tmp_path):
    """The release closes each line by </s> and splits suffixes off; both would become unknown labels."""
    tedlium2(tmp_path)
    prepare("tedlium2", tmp_path, tmp_path / "out", PrepareOptions(sets=("lm",)))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["lm.txt"]
    assert (tmp_path / "out/lm.txt").read_text().splitlines() == [
        "thank you",
        "the parents' house at eight o'clock",
        "it's what they're for",
        "we don't know",
    ]


def test_a_release_without_text_for_language_models(tmp_path):
    corpus = tedlium2(tmp_path)
    shutil.rmtree(corpus / "LM")
    assert [one.name for one in prepare("tedlium2", corpus, tmp_path / "out")] == ["train", "dev", "test"]


def test_agrees_with_lhotse_on_the_segments(tmp_path):
    corpus = tedlium2(tmp_path)
    prepare("tedlium2", corpus, tmp_path / "out")
    with audio_backend("LibsndfileBackend"):
        theirs = prepare_tedlium2(corpus, dataset_parts=["train", "dev", "test"])
    for name, manifests in theirs.items():
        cuts = read_cuts(tmp_path / f"out/{name}.jsonl")
        expected = [(s.recording_id, s.start, s.duration, s.speaker, s.channel) for s in manifests["supervisions"]]
        ours = [(c.recording.id, c.start, c.duration, c.supervisions[0].speaker, c.channel) for c in cuts]
        assert ours == sorted(expected)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda c: (c / "train/sph/AaronHuey_2010X.sph").unlink(),
            "AaronHuey_2010X.stm: there is no audio of this talk",
        ),
        (lambda c: (c / "dev/stm/AlGore_2009.stm").unlink(), "AlGore_2009.sph: has no transcript"),
        (
            lambda c: write_lines(c / "dev/stm/AlGore_2009.stm", "AlGore_2009 1 AlGore_2009 1.5 1.5 <F0_M> zero"),
            "AlGore_2009.stm, line 1: utterance AlGore_2009-0000150-0000150 has no length: it goes from 1.5 to 1.5 s",
        ),
        (
            lambda c: write_lines(c / "dev/stm/AlGore_2009.stm", "AlGore_2009 1 AlGore_2009 1.5 9.5 <F0_M> far"),
            "AlGore_2009.stm, line 1: .* goes from 1.5 to 9.5 s, but its recording ends at 2.500 s",
        ),
        (
            lambda c: write_lines(c / "dev/stm/AlGore_2009.stm", "BillGates_2010 1 BillGates_2010 0 1 <F0_M> who"),
            "line 1: the segment is of BillGates_2010, but the file is named after AlGore_2009",
        ),
        (
            lambda c: write_lines(c / "dev/stm/AlGore_2009.stm", "AlGore_2009 1 AlGore_2009 0.5 1.5 <F0_M>"),
            "AlGore_2009.stm, line 1: the segment has no words",
        ),
        (
            lambda c: write_audio(c / "dev/sph/AlGore_2009.sph", [(3, 300)], [(3, 300)]),
            "needs a file with one channel, this one has 2",
        ),
    ],
)
def test_bad_input(tmp_path, damage, message):
    corpus = tedlium2(tmp_path)
    damage(corpus)
    with pytest.raises(FewerError, match=message):
        prepare("tedlium2", corpus, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_segments_a_little_too_long_are_shortened(tmp_path):
    corpus = tedlium2(tmp_path)
    write_lines(corpus / "dev/stm/AlGore_2009.stm", "AlGore_2009 1 AlGore_2009 1.5 2.52 <F0_M> the end")
    summary = prepare("tedlium2", corpus, tmp_path / "out")[1]
    assert (summary.name, summary.shortened) == ("dev", 1)
    assert read_cuts(tmp_path / "out/dev.jsonl")[0].end == 2.5
