"""lhotse's Shar format, as lhotse writes it."""

import pytest
from lhotse import CutSet

from fewer.data.corpora.prepare import prepare
from fewer.errors import FewerError
from tests.data.corpora.builders import kaldi, pitch, read_cuts, texts


@pytest.fixture
def shar(tmp_path):
    prepare("kaldi", kaldi(tmp_path) / "dev", tmp_path / "from")
    (tmp_path / "dev").mkdir()
    cuts = CutSet.from_file(tmp_path / "from/dev.jsonl")
    cuts.to_shar(tmp_path / "dev", fields={"recording": "flac"}, shard_size=1)
    return tmp_path / "dev"


def test_the_utterances_are_those_that_went_in(tmp_path, shar):
    (summary,) = prepare("shar", shar, tmp_path / "out")
    assert (summary.name, summary.utterances, len(summary.speakers)) == ("dev", 2, 2)
    assert texts(tmp_path / "out/dev.jsonl") == texts(tmp_path / "from/dev.jsonl")
    cuts = read_cuts(tmp_path / "out/dev.jsonl")
    assert [round(pitch(cut), -1) for cut in cuts] == [440, 550]
    assert {source.type for cut in cuts for source in cut.recording.sources} == {"file"}


def test_a_shard_without_its_audio(tmp_path, shar):
    (shar / "recording.000001.tar").unlink()
    with pytest.raises(FewerError, match=r"has 2 files of cuts and 1 of audio; .*found cuts.000000.jsonl.gz"):
        prepare("shar", shar, tmp_path / "out")


def test_a_damaged_archive(tmp_path, shar):
    archive = shar / "recording.000000.tar"
    archive.write_bytes(archive.read_bytes()[:700])
    with pytest.raises(FewerError, match=r"cuts.000000.jsonl.gz, after cut 0, with recording.000000.tar: cannot be"):
        prepare("shar", shar, tmp_path / "out")
