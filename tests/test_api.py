"""Every command from Python."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fewer
from fewer.cli import COMMANDS
from fewer.errors import FewerError
from fewer.files import read_json
from fewer.search.nbest import read_header, read_nbest
from tests.training.tones import lm_values, write_yaml

untyped: Any = fewer  # strings for paths and paths for strings, which type checkers would not like


def test_every_command_has_its_name_and_help() -> None:
    assert sorted(fewer.__all__) == sorted([*COMMANDS, "load"])
    for verb in COMMANDS:
        command = getattr(fewer, verb)
        assert callable(command)
        assert command.__doc__
        assert verb in dir(fewer)
    with pytest.raises(AttributeError, match="no attribute 'undo'"):
        untyped.undo  # noqa: B018


def test_names_of_packages_stay_packages_in_whatever_order_they_are_imported() -> None:
    program = """
import fewer, sys
assert "torch" not in sys.modules
before = fewer.ilm
import fewer.ilm.config, fewer.report.paper
from fewer import ilm, report, decode, tune, train
assert before is ilm is fewer.ilm is sys.modules["fewer.ilm"] and callable(ilm) and callable(report)
assert ilm.config.IlmConfig and report.paper.paper_tables()
import fewer.training
assert train is fewer.train and fewer.training.__name__ == "fewer.training"
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_from_a_tokenizer_to_a_score(tones: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    untyped.tokenizer(str(tones / "train.txt"), str(tmp_path / "tokenizer.json"), kind="characters")
    values = lm_values(tones, {"kind": "lstm_lm", "embedding": 4, "size": 8})
    config = write_yaml(tmp_path / "lm.yaml", values)
    untyped.train(config, tmp_path / "lm", change=["sub_epochs=1"])
    untyped.ngram([tones / "train.txt"], tmp_path / "two.arpa", tokenizer=str(tones), order=2)
    data = {"train": tones / "train.jsonl", "dev": tones / "dev.jsonl"}
    facts = untyped.ilm(tones / "aed", tmp_path / "ilm", method="seq_avg", **data)
    assert facts["perplexity"]["dev"]["ppl_label"] > 1
    lists = str(tmp_path / "dev.nbest.jsonl")
    options = {"lm": tmp_path / "two.arpa", "lm_scale": 0.4, "ilm": str(tmp_path / "ilm"), "beam": 3}
    untyped.decode(tones / "aed", str(tones / "dev.jsonl"), lists, **options)
    assert read_header(lists).scales == {"aed": 1.0, "lm": 0.4, "ilm": -0.2}  # what is not given is as in the shell
    untyped.rescore(lists, tmp_path / "lm", tmp_path / "again.jsonl", scale=0.1)
    assert read_header(tmp_path / "again.jsonl").terms == ("aed", "ilm", "lm", "rescore")
    capsys.readouterr()
    report = untyped.score(lists, against=str(tmp_path / "again.jsonl"), json=tmp_path / "s.json")
    assert report == read_json(tmp_path / "s.json")
    assert "WER" in capsys.readouterr().out
    numbers = untyped.perplexity(tmp_path / "lm", tones / "dev.txt")
    assert numbers[str(tones / "dev.txt")]["sentences"] == 6
    fewer.tune(str(tones / "aed"), tones / "dev.jsonl", tmp_path / "tune", lm=str(tones / "lm"), budget=1, beam=2)
    assert (tmp_path / "tune" / "sf" / "tune.json").exists()
    assert untyped.load(tones / "aed")
    assert len(list(read_nbest(lists))) == 6


def test_errors_are_exceptions(tones: Path, tmp_path: Path) -> None:
    with pytest.raises(FewerError, match="nowhere"):
        untyped.decode(tmp_path / "nowhere", tones / "dev.jsonl", tmp_path / "n.jsonl")
    with pytest.raises(TypeError, match="beem"):
        untyped.decode(str(tones / "aed"), tones / "dev.jsonl", tmp_path / "n.jsonl", beem=3)
    with pytest.raises(FewerError, match=r"fewer\.tokenizer: kind is 'letters'; there are bpe, characters"):
        untyped.tokenizer(tones / "train.txt", tmp_path / "tokenizer.json", kind="letters")
    with pytest.raises(FewerError, match=r"fewer\.prepare: case is 'low'; there are"):
        untyped.prepare("librispeech", tmp_path, tmp_path / "out", case="low")
    with pytest.raises(FewerError, match="there is no folder"):
        untyped.prepare("librispeech", str(tmp_path / "nowhere"), tmp_path / "out", case="lower")
    with pytest.raises(FewerError, match="has no results"):
        untyped.report(str(tmp_path))
    assert isinstance(fewer.report, ModuleType)
