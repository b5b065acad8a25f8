"""Commands take tables and folders where they take manifests."""

import shutil
from pathlib import Path

import pytest

from fewer.data.manifest import Manifest
from fewer.search.nbest import read_nbest
from tests.cli.running import Fewer


@pytest.fixture
def table(tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The dev set as a .csv file, and as a folder `spoken` of audio with .txt files beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    manifest, lines = Manifest(tones / "dev.jsonl"), ["path,sentence"]
    (tmp_path / "spoken").mkdir()
    for index in range(len(manifest)):
        cut = manifest[index]
        audio, text = Path(cut.recording.sources[0].source), cut.supervisions[0].text
        lines.append(f"{audio},{text}")
        shutil.copy(audio, tmp_path / "spoken" / audio.name)
        (tmp_path / "spoken" / f"{audio.stem}.txt").write_text(text)
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines))
    return path


def test_what_is_decoded_and_scored_is_the_same(fewer: Fewer, tones: Path, table: Path, tmp_path: Path) -> None:
    found = []
    for given in (tones / "dev.jsonl", table, table.parent / "spoken"):
        out = tmp_path / "n.jsonl"
        code, _, told = fewer("decode", tones / "aed", given, out, "--beam", 2)
        assert code == 0, told
        assert given.suffix != ".csv" or "audio from column 'path', text from column 'sentence'" in told
        found.append(sorted((nbest.ref, nbest.hypotheses[0].text) for nbest in read_nbest(out)))
        code, printed, told = fewer("score", out, "--ref", given)
        assert code == 0, told
        found.append(printed.split("WER")[-1].split("\n")[0])
    assert found[0] == found[2] == found[4]
    assert found[1] == found[3] == found[5]


def test_adapt_tune_and_ilm(fewer: Fewer, tones: Path, table: Path, tmp_path: Path) -> None:
    options = ("--text", tones / "train.txt", "--order", 2, "--beam", 2, "--budget", 2, "--method", "sf")
    sets = ("--dev", table, "--general", table.parent / "spoken", "--audio", table)
    code, printed, told = fewer("adapt", tones / "aed", tmp_path / "bundle", *options, *sets)
    assert code == 0, told
    assert [line.split(": WER")[0] for line in printed.splitlines()[:3]] == ["mine, none", "mine, sf", "spoken"]
    code, _, told = fewer("tune", tones / "aed", table, tmp_path / "tuned", "--budget", 2, "--beam", 2)
    assert code == 0, told
    code, printed, told = fewer("ilm", tones / "aed", tmp_path / "ilm", "--method", "zero", "--dev", table)
    assert (code, "zero: perplexity on mine" in printed) == (0, True), told


def test_an_error_says_what_was_found_and_what_to_write(fewer: Fewer, tones: Path, table: Path, tmp_path: Path) -> None:
    table.write_text("path,remark\nx.wav,hm\n")
    code, _, told = fewer("tune", tones / "aed", table, tmp_path / "tuned")
    assert code == 1
    assert " ".join(told.split()).endswith(
        "has no column of transcripts: its columns are 'path', 'remark'; rename one to 'text'"
    )


def test_prepare_writes_beside_what_it_read(fewer: Fewer, table: Path, tmp_path: Path) -> None:
    code, printed, told = fewer("prepare", "table", table)
    assert (code, printed.split()[5:7]) == (0, ["mine", "6"])
    assert "text from column 'sentence'; no column for speaker" in told
    assert len(Manifest(tmp_path / "mine.jsonl")) == 6
    code, _, told = fewer("prepare", "kaldi", tmp_path)
    assert (code, "name a folder for the manifests: fewer prepare kaldi" in told) == (1, True)
