"""Commands whose work is divided, as users start them."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.cli.running import Fewer


@pytest.fixture
def calls(tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four recordings in two groups."""
    monkeypatch.setattr("fewer.transcription.recording.TOGETHER", 4)
    folder = tmp_path / "calls"
    folder.mkdir()
    parts = [soundfile.read(path)[0] for path in sorted((tones / "audio").glob("train-*.wav"))]
    for number in range(4):
        soundfile.write(folder / f"{number}.wav", np.concatenate(parts[number : number + 3]), 8000)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_processes_transcribe_what_one_transcribes(fewer: Fewer, tones: Path, calls: Path, tmp_path: Path) -> None:
    options = ("--model", tones / "aed", "--output", "json", "--longest", 2)
    assert fewer("transcribe", calls, *options, "--out", tmp_path / "one")[0] == 0
    code, out, _ = fewer("transcribe", calls, *options, "--out", tmp_path / "two", "--engine", "processes:2")
    assert code == 0
    assert out.split() == [str(tmp_path / "two" / f"{number}.json") for number in range(4)]
    assert contents(tmp_path / "two") == contents(tmp_path / "one")
    for part in (1, 2):
        shard = f"{part}/2"
        assert fewer("transcribe", calls, *options, "--out", tmp_path / "array", "--shard", shard)[0] == 0
        assert len(contents(tmp_path / "array")) == 2 * part


@pytest.mark.parametrize("engine", ["local", "processes:2"])
def test_a_bug_in_a_worker_is_told_as_any_other(
    fewer: Fewer, tones: Path, calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    def bug(*_: object, **__: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr("fewer.decoding.decode.beam_search", bug)
    monkeypatch.setattr("fewer.transcription.transcribe.beam_search", bug)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    out = tmp_path / "out"
    for arguments in (
        ("decode", tones / "aed", tones / "dev.jsonl", out / "n.jsonl"),
        ("transcribe", calls, "--model", tones / "aed", "--out", out),
    ):
        code, _, told = fewer(*arguments, "--engine", engine)
        assert code == 70
        *_, message, where = told.splitlines()
        assert message.startswith("fewer: this is a bug in fewer: ")
        assert "IndexError: list index out of range" in message
        (report,) = (tmp_path / "temporary").iterdir()
        assert where == f"the traceback is in {report}; please report it"
        assert "in bug" in report.read_text()
        report.unlink()
        assert [path for path in out.rglob("*") if path.suffix != ".jsonl" or path.name == "n.jsonl"] == []


def test_torchrun_divides_files_and_utterances(tones: Path, calls: Path, tmp_path: Path) -> None:
    """Each is done by one process, and written by the first one alone."""
    command = ["transcribe", calls, "--model", tones / "aed", "--out", tmp_path / "text", "--device", "cpu"]
    ended = torchrun(*command)
    assert ended.returncode == 0, ended.stderr
    assert sorted(ended.stdout.split()) == [str(tmp_path / "text" / f"{number}.txt") for number in range(4)]
    assert sorted(contents(tmp_path / "text")) == [f"{number}.txt" for number in range(4)]


def test_torchrun_is_refused_at_once_where_it_would_do_everything_twice(tones: Path, tmp_path: Path) -> None:
    ended = torchrun("run", "libri-lstm-ilme", tmp_path / "run")
    assert ended.returncode != 0
    assert "fewer run runs in one process: start it without torchrun" in ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("tune", "aed", "dev.jsonl", "OUT"),
        ("run", "libri-lstm-ilme", "OUT"),
        ("adapt", "aed", "OUT", "--text", "train.txt"),
        ("demo", "OUT"),
        ("rescore", "dev.jsonl", "lm", "OUT"),
    ],
)
def test_what_every_process_would_do_whole_is_refused_under_torchrun(
    fewer: Fewer, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.chdir(tones)
    code, _, told = fewer(*(tmp_path / "out" if word == "OUT" else word for word in command))
    assert code == 1
    assert f"fewer {command[0]} runs in one process: start it without torchrun" in told
    assert not (tmp_path / "out").exists()


def torchrun(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "fewer"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [*command, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, env=environment)


@pytest.mark.parametrize("command", ["perplexity", "ilm"])
def test_processes_measure_what_one_measures(fewer: Fewer, tones: Path, tmp_path: Path, command: str) -> None:
    told = []
    for engine in ("local", "processes:2"):
        if command == "perplexity":
            arguments = ("perplexity", tones / "lm", tones / "dev.jsonl")
        else:
            data = ("--train", tones / "train.jsonl", "--dev", tones / "dev.jsonl", "--set", "batch=40")
            arguments = ("ilm", tones / "aed", tmp_path / engine.replace(":", ""), "--method", "ctx_avg", *data)
        code, out, err = fewer(*arguments, "--engine", engine)
        assert code == 0, err
        told.append(out)
    assert told[0] == told[1]
    if command == "ilm":
        name = "context.safetensors"
        assert (tmp_path / "local" / name).read_bytes() == (tmp_path / "processes2" / name).read_bytes()
