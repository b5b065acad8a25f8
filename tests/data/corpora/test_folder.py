"""A folder of audio with .txt files beside it."""

import pytest

from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import pitch, read_cuts, texts, write_audio, write_lines


def test_audio_with_its_text_beside_it(tmp_path):
    write_audio(tmp_path / "dev/one.wav", [(0.5, 400)])
    write_lines(tmp_path / "dev/one.txt", "Hello,", "  world.")
    write_audio(tmp_path / "dev/more of it/two.mp3", [(0.5, 600)], rate=22050)
    write_lines(tmp_path / "dev/more of it/two.txt", "Bye.")
    (summary,) = prepare("folder", tmp_path / "dev", tmp_path)
    assert (summary.name, summary.utterances, summary.speakers) == ("dev", 2, set())
    assert texts(tmp_path / "dev.jsonl") == {"one": "Hello, world.", "more_of_it-two": "Bye."}
    assert [round(pitch(cut), -1) for cut in read_cuts(tmp_path / "dev.jsonl")] == [600, 400]


def test_without_transcripts_if_none_are_needed(tmp_path):
    write_audio(tmp_path / "dev/one.wav", [(0.5, 400)])
    write_audio(tmp_path / "dev/two.wav", [(0.5, 400)])
    write_lines(tmp_path / "dev/two.txt", "Bye.")
    prepare("folder", tmp_path / "dev", tmp_path, PrepareOptions(transcribed=False))
    assert texts(tmp_path / "dev.jsonl") == {"one": None, "two": "Bye."}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "dev holds no audio files; the folder is empty"),
        (["a.txt", "b.doc"], "dev holds no audio files; found a.txt, b.doc"),
        (
            ["a.wav", "metadata.csv"],
            "dev holds 1 audio files, but none has its transcript beside it: expected a.txt for a.wav; found a.wav, m",
        ),
        (["a.wav", "a.txt", "b.wav"], "b.wav: has no transcript beside it: expected b.txt"),
        (["a.wav", "a.txt", "a.flac"], "a.wav: has the same name as a.flac, and so the same transcript; remove one"),
        (["a.wav", "b.wav", "a.txt", "b.txt "], "b.wav: has no transcript"),
    ],
)
def test_bad_folders(tmp_path, files, message):
    (tmp_path / "dev").mkdir()
    for name in files:
        if name.endswith(("wav", "flac")):
            write_audio(tmp_path / "dev" / name, [(0.5, 400)])
        else:
            write_lines(tmp_path / "dev" / name, "hello")
    with pytest.raises(FewerError, match=message):
        prepare("folder", tmp_path / "dev", tmp_path)
    assert not (tmp_path / "dev.jsonl").exists()


def test_an_empty_transcript(tmp_path):
    write_audio(tmp_path / "dev/one.wav", [(0.5, 400)])
    write_lines(tmp_path / "dev/one.txt", " ")
    with pytest.raises(FewerError, match=r"one\.txt: the transcript is empty"):
        prepare("folder", tmp_path / "dev", tmp_path)
