"""Datasets of Hugging Face: saved to disk, or as files that `load_dataset` knows. No network is used."""

import sys
from importlib.util import find_spec

import pytest

from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import pitch, read_cuts, texts, write_audio, write_lines

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


def rows(tmp_path, embedded):
    files = [write_audio(tmp_path / f"sounds/{hertz}.wav", [(0.5, hertz)]) for hertz in (400, 600)]
    audio = [{"path": path.name, "bytes": path.read_bytes()} if embedded else str(path) for path in files]
    table = datasets.Dataset.from_dict({"audio": audio, "sentence": ["Hello.", "Good bye."], "client_id": ["a", "b"]})
    return table.cast_column("audio", datasets.Audio(decode=False))


@pytest.mark.parametrize("embedded", [True, False])
def test_a_saved_set(tmp_path, caplog, embedded):
    caplog.set_level("INFO", "fewer")
    table = rows(tmp_path, embedded).cast_column("audio", datasets.Audio())
    table.save_to_disk(str(tmp_path / "dev"))
    (summary,) = prepare("datasets", tmp_path / "dev", tmp_path / "out")
    assert (summary.name, summary.utterances, len(summary.speakers)) == ("dev", 2, 2)
    assert texts(tmp_path / "out/dev.jsonl") == {"dev-000000": "Hello.", "dev-000001": "Good bye."}
    assert [round(pitch(cut), -1) for cut in read_cuts(tmp_path / "out/dev.jsonl")] == [400, 600]
    assert "audio from column 'audio', text from column 'sentence', speaker from column 'client_id'" in caplog.text


def test_the_splits_of_a_saved_dataset_are_sets(tmp_path):
    parts = datasets.DatasetDict({"train": rows(tmp_path, True), "test": rows(tmp_path, True).select([1])})
    parts.save_to_disk(str(tmp_path / "all"))
    prepare("datasets", tmp_path / "all", tmp_path / "out", PrepareOptions(sets=("test",)))
    assert texts(tmp_path / "out/test.jsonl") == {"test-000000": "Good bye."}
    assert not (tmp_path / "out/train.jsonl").exists()


def test_a_folder_that_load_dataset_knows(tmp_path):
    (tmp_path / "corpus").mkdir()
    rows(tmp_path, True).to_parquet(str(tmp_path / "corpus/test-00000-of-00001.parquet"))
    prepare("datasets", tmp_path / "corpus", tmp_path / "out")
    assert texts(tmp_path / "out/test.jsonl") == {"test-000000": "Hello.", "test-000001": "Good bye."}
    assert [round(pitch(cut), -1) for cut in read_cuts(tmp_path / "out/test.jsonl")] == [400, 600]


@pytest.mark.skipif(find_spec("torchcodec") is not None, reason="torchcodec is here")
def test_a_folder_for_which_datasets_needs_torchcodec(tmp_path):
    write_audio(tmp_path / "corpus/test/one.wav", [(0.5, 400)])
    write_lines(tmp_path / "corpus/test/metadata.csv", "file_name,transcription", "one.wav,Hello.")
    with pytest.raises(FewerError, match=r"pip install torchcodec; or give .*: fewer prepare table metadata\.csv"):
        prepare("datasets", tmp_path / "corpus", tmp_path / "out")
    prepare("table", tmp_path / "corpus/test/metadata.csv", tmp_path / "out")
    assert texts(tmp_path / "out/metadata.jsonl") == {"one": "Hello."}


def test_samples_in_place_of_files(tmp_path):
    values = [{"array": [0.1, -0.1] * 4000, "sampling_rate": 16000}]
    datasets.Dataset.from_dict({"audio": values, "text": ["hum"]}).save_to_disk(str(tmp_path / "dev"))
    prepare("datasets", tmp_path / "dev", tmp_path / "out")
    (cut,) = read_cuts(tmp_path / "out/dev.jsonl")
    assert (cut.duration, round(pitch(cut))) == (0.5, 8000)


def test_columns_that_are_not_there(tmp_path):
    rows(tmp_path, True).remove_columns("sentence").save_to_disk(str(tmp_path / "dev"))
    with pytest.raises(FewerError, match="dev has no column of transcripts: its columns are 'audio', 'client_id'"):
        prepare("datasets", tmp_path / "dev", tmp_path / "out")


def test_audio_that_is_not_there(tmp_path):
    datasets.Dataset.from_dict({"audio": [3], "text": ["a"]}).save_to_disk(str(tmp_path / "dev"))
    with pytest.raises(FewerError, match="dev, row 0: column 'audio': no audio: found int"):
        prepare("datasets", tmp_path / "dev", tmp_path / "out")


def test_a_name_that_cannot_be_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FewerError, match="the dataset nobody/nothing:en cannot be loaded: "):
        prepare("datasets", tmp_path.__class__("nobody/nothing:en"), tmp_path / "out")


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(FewerError, match=r"pip install 'fewer\[datasets\]'"):
        prepare("datasets", tmp_path, tmp_path / "out")
