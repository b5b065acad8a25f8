"""`fewer prepare` on the command line."""

import sys

import pytest

from fewer.cli.main import main
from tests.data.corpora.builders import librispeech, switchboard, texts


@pytest.fixture
def fewer(monkeypatch, capsys):
    """Run the program: exit code, standard output, standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["fewer", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        return (end.value.code or 0, *capsys.readouterr())

    return run


def test_table_of_results_on_standard_output(tmp_path, fewer):
    corpus, out = librispeech(tmp_path), tmp_path / "out"
    code, printed, _ = fewer(
        "prepare", "librispeech", corpus, out, "--set", "dev-clean", "--split", "dev-clean=tune:1,report"
    )
    assert code == 0
    assert [line.split() for line in printed.splitlines()] == [
        ["set", "utterances", "hours", "speakers", "words"],
        ["dev-clean", "3", "0.00", "2", "19"],
        ["tune", "2", "0.00", "1", "10"],
        ["report", "1", "0.00", "1", "9"],
    ]
    assert list(texts(out / "tune.jsonl")) == ["84-121123-0000", "84-121123-0001"]


def test_one_clear_error_without_a_traceback_and_nothing_written(tmp_path, fewer):
    switchboard(tmp_path)
    audio = tmp_path / "swb1_d1/data/sw02001.sph"
    audio.write_bytes(b"NIST_1A\n   1024\nno more")
    code, printed, talk = fewer("prepare", "switchboard", tmp_path, tmp_path / "out")
    assert (code, printed) == (1, "")
    assert talk.startswith(f"fewer: {audio}: cannot be read as audio")
    assert "--skip-bad" in talk
    assert not (tmp_path / "out").exists()


def test_skipping_what_is_bad(tmp_path, fewer):
    switchboard(tmp_path)
    (tmp_path / "swb1_d1/data/sw02001.sph").write_bytes(b"NIST_1A\n   1024\nno more")
    code, _, talk = fewer(
        "prepare", "switchboard", tmp_path, tmp_path / "out", "--skip-bad", "--case", "upper", "--text"
    )
    assert code == 0
    assert "skipped 3 bad entries" in talk
    assert "left out 2 segments without words" in talk
    assert (tmp_path / "out/train.txt").read_text() == "OKAY\nRIGHT\n"
    assert len((tmp_path / "out/train.skipped.txt").read_text().splitlines()) == 3


def test_help_names_every_corpus(fewer):
    _, printed, _ = fewer("prepare", "--help")
    for name in ("librispeech", "tedlium2", "switchboard", "fisher_text", "hub5e00", "hub5e01", "rt03", "kaldi"):
        assert f"{name}:" in printed
