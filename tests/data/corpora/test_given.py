"""Whatever a user gives as a set becomes a manifest."""

import fcntl
import json
import os
import time

import pytest

from fewer.data.corpora.given import as_manifest
from fewer.data.manifest import Manifest
from fewer.errors import FewerError
from tests.data.corpora.builders import kaldi, texts, write_audio, write_lines


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def recordings(folder):
    write_audio(folder / "one.wav", [(0.5, 400)])
    write_audio(folder / "two.wav", [(0.5, 400)], [(0.5, 500)])


def test_a_table(tmp_path, caplog):
    caplog.set_level("INFO", "fewer")
    recordings(tmp_path)
    path = write_lines(tmp_path / "dev.csv", "file,text", "one.wav,hello", "two.wav,bye")
    manifest = as_manifest(path)
    assert manifest.stem == "dev"
    assert list(Manifest(manifest).texts()) == ["hello", "bye"]
    assert f"{path}: 2 utterances, 0.0 minutes (a table)" in caplog.text


def test_the_same_set_again_leaves_the_manifest_alone_and_another_state_changes_it(tmp_path):
    recordings(tmp_path)
    path = write_lines(tmp_path / "dev.csv", "file,text", "one.wav,hello", "two.wav,bye")
    manifest = as_manifest(path)
    before = manifest.stat()
    assert as_manifest(path).stat().st_mtime_ns == before.st_mtime_ns
    write_lines(path, "file,text", "one.wav,hello", "two.wav,good bye")
    assert as_manifest(path) == manifest
    assert texts(manifest) == {"one": "hello", "two": "good bye"}


def test_sets_that_nobody_used_for_a_month_are_removed_from_the_cache(tmp_path, cache):
    recordings(tmp_path)
    names = ("old", "recent", "in-use")
    made = {name: as_manifest(write_lines(tmp_path / f"{name}.csv", "file,text", "one.wav,hello")) for name in names}
    for name, days in (("old", 31), ("recent", 29), ("in-use", 31)):
        then = time.time() - days * 86_400
        os.utime(made[name].parent / "lock", (then, then))
    with open(made["in-use"].parent / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        new = as_manifest(write_lines(tmp_path / "new.csv", "file,text", "one.wav,hello"))
    assert sorted(path.name for path in (cache / "fewer" / "sets").iterdir()) == sorted(
        path.parent.name for path in (made["recent"], made["in-use"], new)
    )
    as_manifest(tmp_path / "recent.csv")
    assert time.time() - (made["recent"].parent / "lock").stat().st_mtime < 60


def test_folders(tmp_path):
    recordings(tmp_path / "dev")
    for name, text in (("one", "hello"), ("two", "bye")):
        write_lines(tmp_path / f"dev/{name}.txt", text)
    assert texts(as_manifest(tmp_path / "dev")) == {"one": "hello", "two": "bye"}
    assert texts(as_manifest(kaldi(tmp_path / "recipe") / "dev")) == {"utt1": "Hello", "utt2": "Good bye"}


def test_shar_and_saved_datasets(tmp_path):
    from lhotse import CutSet

    datasets = pytest.importorskip("datasets")
    (tmp_path / "shar").mkdir()
    manifest = as_manifest(kaldi(tmp_path / "recipe") / "dev")
    CutSet.from_file(manifest).to_shar(tmp_path / "shar", fields={"recording": "wav"})
    assert texts(as_manifest(tmp_path / "shar")) == texts(manifest)
    audio = {"audio": [str(path) for path in sorted((tmp_path / "recipe").rglob("*.wav"))][:1], "text": ["hello"]}
    datasets.Dataset.from_dict(audio).save_to_disk(str(tmp_path / "saved"))
    assert texts(as_manifest(tmp_path / "saved")) == {"saved-000000": "hello"}


def test_a_manifest_is_taken_as_it_is(tmp_path, cache):
    recordings(tmp_path)
    made = as_manifest(write_lines(tmp_path / "dev.csv", "file,text", "one.wav,hello"))
    assert as_manifest(made) == made
    assert len(list(cache.rglob("sets/*/dev.jsonl"))) == 1


def test_transcripts_where_they_are_needed(tmp_path):
    recordings(tmp_path / "dev")
    path = write_lines(tmp_path / "dev.csv", "file,lang", "dev/one.wav,en")
    assert texts(as_manifest(path, transcripts=False)) == {"one": None}
    assert texts(as_manifest(tmp_path / "dev", transcripts=False)) == {"one": None, "two": None}
    for given in (path, tmp_path / "dev"):
        with pytest.raises(FewerError, match=r"no column of transcripts|none has its transcript beside it"):
            as_manifest(given)


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("dev.nbest.jsonl", ['{"format": "fewer-nbest/1"}'], "is an N-best file of `fewer decode`; give the set"),
        ("r.jsonl", [json.dumps({"id": "a", "sources": [], "sampling_rate": 1})], "`lhotse cut simple -r r.jsonl -s "),
        ("s.jsonl", [json.dumps({"id": "a", "recording_id": "b", "start": 0})], "`lhotse cut simple -r .* -s s.jsonl"),
        ("x.jsonl", ['{"a": 1, "b": 2}'], "has no column of audio files: its columns are 'a', 'b'; rename one to"),
        ("x.jsonl", ['{"a": 1,'], "line 1: not valid JSON"),
        ("domain.txt", ["some words"], "line 1: a table has columns, separated by tabs or commas; found 'some words'"),
        ("call.wav", ["RIFF"], r"call.wav is one audio file; a set is a manifest of .*`fewer transcribe .*call.wav`"),
        ("there/readme.md", ["hello"], "there is no set of utterances: found readme.md; a set is a manifest"),
    ],
)
def test_what_is_no_set(tmp_path, name, lines, message):
    path = write_lines(tmp_path / name, *lines)
    with pytest.raises(FewerError, match=message):
        as_manifest(tmp_path / "there" if "/" in name else path)


def test_what_is_not_there_may_be_a_name_on_the_hub():
    with pytest.raises(FewerError, match=r"no file or folder org/name; .*`fewer prepare datasets org/name OUT`"):
        as_manifest("org/name")


def test_several_sets_in_a_folder(tmp_path):
    data = kaldi(tmp_path)
    with pytest.raises(FewerError, match=f"holds the sets dev, train; give one of them, such as {data}/dev"):
        as_manifest(data)


def test_a_bad_entry_tells_how_to_leave_it_out(tmp_path):
    path = write_lines(tmp_path / "dev.csv", "file,text", "one.wav,hello")
    with pytest.raises(
        FewerError, match=r"no such audio file.*\n\(`fewer prepare table .*dev.csv OUT --skip-bad` lists"
    ):
        as_manifest(path)
