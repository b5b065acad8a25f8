"""The demo from end to end, as `fewer demo --quick` runs it: it completes, whatever it then shows."""

import errno
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fewer.cli import main as cli
from fewer.data.manifest import Manifest
from fewer.data.synthesis.script import DemoCorpusConfig
from fewer.experiments import experiment
from fewer.experiments.demo import METHODS, QUICK, demo, demo_experiment
from fewer.experiments.experiment import Experiment

SETS = ("target-test", "source-test")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of the command line; 0 when it ends well."""
    monkeypatch.setattr(sys, "argv", ["fewer", *arguments])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that was stopped by Ctrl-C before its tuning, and then run again."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Experiment, "_tune", _interrupt)
        assert run(patch, "demo", str(folder), "--quick") == 130
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "train_together", _never)
        patch.setattr(experiment, "estimate_ilm", _never)
        assert run(patch, "demo", str(folder), "--quick") == 0
    return folder


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _never(*_: Any) -> None:
    raise AssertionError("this was done before")


def test_every_method_has_its_row_in_results_and_table(folder: Path) -> None:
    results = json.loads((folder / "run" / "results.json").read_text())
    assert [row["method"] for row in results["rows"]] == list(METHODS)
    for row in results["rows"]:
        assert set(row["wer"]) == set(SETS)
        for value in row["wer"].values():
            assert value["low"] <= value["wer"] <= value["high"]
        assert (row["ilm_ppl"] is None) == (row["method"] in ("none", "sf"))
    assert results["tuned_on"] == "target-dev"
    assert not results["warnings"]
    table = (folder / "run" / "table.md").read_text()
    assert all(name in table for name in ("Shallow fusion", "Density ratio", "Mini-LSTM", "target-test"))


def test_the_page_is_there(folder: Path) -> None:
    assert "<html" in (folder / "report.html").read_text()


def test_run_again_it_does_nothing_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "train_together", _never)
    monkeypatch.setattr(experiment, "tune_all", _never)
    monkeypatch.setattr(experiment, "decode_all", _never)
    before = json.loads((folder / "run" / "results.json").read_text())
    assert {**demo(folder, quick=True), "seconds": 0} == {**before, "seconds": 0}


def test_no_sentence_stands_in_two_sets(folder: Path) -> None:
    corpus = folder / "corpus"
    texts = {path.stem: set(Manifest(path).texts()) for path in corpus.glob("*.jsonl")}
    texts["target-text"] = set((corpus / "target-text.txt").read_text().splitlines())
    assert len(texts) == 6
    assert sum(map(len, texts.values())) == len(set.union(*texts.values()))


def test_test_voices_are_unseen_in_training(folder: Path) -> None:
    def speakers(name: str) -> set[str]:
        return {cut.supervisions[0].speaker for cut in Manifest(folder / "corpus" / f"{name}.jsonl")}

    assert not speakers("train") & (speakers("target-test") | speakers("source-test") | speakers("target-dev"))


def test_the_same_seed_gives_the_same_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = DemoCorpusConfig(train=40, source_dev=6, source_test=6, target_dev=6, target_test=6, target_text=200)
    tiny = replace(QUICK, corpus=corpus, labels=60, epochs=2, lm_parts=1, ilm_passes=1, decodes=2, processes=2)
    monkeypatch.setattr("fewer.experiments.demo.QUICK", tiny)
    first, second = (demo(tmp_path / name, quick=True, seed=3) for name in ("first", "second"))
    assert first["rows"] == second["rows"]


def test_another_seed_needs_another_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "demo", str(folder), "--quick", "--seed", "2") == 1
    assert "delete the folder or choose another one" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(monkeypatch, "demo", str(tmp_path / "file" / "demo"), "--quick") == 1
    assert "choose one that you may write" in capsys.readouterr().err


def test_a_folder_that_is_read_only_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def only_read(path: Path, mode: str = "r", **options: Any) -> Any:
        if "r" not in mode:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        return open(path, mode, **options)

    monkeypatch.setattr("fewer.files.open", only_read, raising=False)  # whoever may do everything obeys no permissions
    assert run(monkeypatch, "demo", str(tmp_path), "--quick") == 1
    assert "corpus.json: Read-only file system; is the disk full or read-only?" in capsys.readouterr().err


def test_a_disk_that_fills_up_is_said_and_the_demo_goes_on_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "features.llc")

    with monkeypatch.context() as patch:
        patch.setattr("fewer.experiments.demo.write_attention", full)
        assert run(patch, "demo", str(folder), "--quick") == 1
    assert "cannot write features.llc: No space left on device; make room" in capsys.readouterr().err
    assert run(monkeypatch, "demo", str(folder), "--quick") == 0


def test_missing_voices_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    assert run(monkeypatch, "demo", str(tmp_path / "demo"), "--quick") == 1
    assert "pip install 'fewer[demo]'" in capsys.readouterr().err


def test_all_methods_are_tuned_alike_with_the_same_beam_and_budget(tmp_path: Path) -> None:
    config = demo_experiment(tmp_path / "corpus", tmp_path, QUICK, seed=1)
    assert [row.method for row in config.rows] == list(METHODS)
    assert {config.lm_of(row) for row in config.rows if row.method != "none"} == {"lm"}
    assert Path(config.tune).stem not in config.sets
