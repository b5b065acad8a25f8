"""`fewer prepare` on the command line."""

import subprocess
import sys

from tests.data.corpora.builders import librispeech, switchboard, texts


def fewer(*arguments):
    code = "from fewer.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)


def test_table_of_results_on_standard_output(tmp_path):
    corpus = librispeech(tmp_path)
    result = fewer(
        "prepare", "librispeech", corpus, tmp_path / "out", "--set", "dev-clean", "--split", "dev-clean=tune:1,report"
    )
    assert result.returncode == 0, result.stderr
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["set", "utterances", "hours", "speakers", "words"],
        ["dev-clean", "3", "0.00", "2", "19"],
        ["tune", "2", "0.00", "1", "10"],
        ["report", "1", "0.00", "1", "9"],
    ]
    assert list(texts(tmp_path / "out/tune.jsonl")) == ["84-121123-0000", "84-121123-0001"]


def test_one_clear_error_without_a_traceback(tmp_path):
    switchboard(tmp_path)
    audio = tmp_path / "swb1_d1/data/sw02001.sph"
    audio.write_bytes(b"NIST_1A\n   1024\nno more")
    result = fewer("prepare", "switchboard", tmp_path, tmp_path / "out")
    assert result.returncode == 1
    assert result.stderr.startswith(f"fewer: {audio}: cannot be read as audio")
    assert "Traceback" not in result.stderr
    assert "--skip-bad" in result.stderr
    assert not (tmp_path / "out").exists()
    result = fewer("prepare", "switchboard", tmp_path, tmp_path / "out", "--skip-bad", "--case", "upper", "--text")
    assert result.returncode == 0, result.stderr
    assert "skipped 3 bad entries" in result.stderr
    assert "left out 2 segments without words" in result.stderr
    assert (tmp_path / "out/train.txt").read_text() == "OKAY\nRIGHT\n"
