"""What the command line says when it is stopped."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fewer.cli import COMMANDS, RESUMED
from fewer.cli.main import main
from tests.cli.running import Fewer


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("arguments", "where", "goes_on"),
    [
        (["adapt", "model", "out", "--text", "x"], "fewer.api.recognition.adapt_recogniser", True),
        (["rescore", "n.jsonl", "lm", "out.jsonl"], "fewer.api.recognition.load_lm_and_tokenizer", False),
    ],
)
def test_a_stopped_command_promises_to_go_on_only_if_it_does(
    arguments: list[str],
    where: str,
    goes_on: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(where, stop)
    monkeypatch.setattr(sys, "argv", ["fewer", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    told = capsys.readouterr().err
    assert told.startswith("fewer: stopped")
    assert ("goes on where it was" in told) == goes_on
    assert (arguments[0] in RESUMED) == goes_on


def test_ctrl_c_before_a_command_begins_is_told_as_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fewer.cli.main.app", stop)
    code, _, told = Fewer(monkeypatch, capsys)("train", "config.yaml", "out")
    assert code == 130
    assert told == "fewer: stopped; the same command goes on where it was\n"


def test_ctrl_c_while_a_command_is_imported_leaves_no_traceback() -> None:
    code = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "fewer.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
signal.signal(signal.SIGINT, signal.default_int_handler)
from fewer.cli import start
start()
"""
    ended = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


def test_what_goes_on_is_a_command() -> None:
    assert set(RESUMED) < set(COMMANDS)


def test_a_bug_is_one_short_message_with_the_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def bug(*_: object, **__: object) -> None:
        raise IndexError("list index\nout of range")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("fewer.api.recognition.load_lm_and_tokenizer", bug)
    code, _, told = Fewer(monkeypatch, capsys)("rescore", "n.jsonl", "lm", tmp_path / "out.jsonl")
    (report,) = tmp_path.iterdir()
    assert code == 70
    assert told.splitlines() == [
        "fewer: this is a bug in fewer: IndexError: list index out of range",
        f"the traceback is in {report}; please report it",
    ]
    assert "Traceback" in report.read_text()
    assert report.read_text().startswith("fewer rescore n.jsonl lm")


@pytest.mark.parametrize("allocate", [lambda: bytearray(1 << 60), lambda: torch.empty(1 << 58)])
def test_running_out_of_memory_is_not_a_bug(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    allocate: Callable[[], object],
) -> None:
    def full(*_: object, **__: object) -> None:
        allocate()

    monkeypatch.setattr("fewer.api.recognition.load_lm_and_tokenizer", full)
    code, _, told = Fewer(monkeypatch, capsys)("rescore", "n.jsonl", "lm", tmp_path / "out.jsonl")
    assert (code, "out of memory" in told) == (1, True)


WITHOUT_TORCH = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print("torch is imported", file=sys.stderr)
            sys.exit(3)
sys.meta_path.insert(0, Refuse())
from fewer.cli.main import main
sys.argv[1:] = {arguments!r}
main()
"""


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["transcribe", "call.wav", "--model", "tiny.en"], 3, "loading…\ntorch is imported\n"),
        (["adapt", "tiny.en", "out", "--text", "x"], 3, "loading…\ntorch is imported\n"),
        (["transcribe", "--help"], 0, ""),
    ],
)
def test_loading_is_said_before_torch_is_imported(arguments: list[str], code: int, told: str) -> None:
    program = WITHOUT_TORCH.replace("{arguments!r}", repr(arguments))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, encoding="utf-8")
    assert (ended.returncode, ended.stderr) == (code, told)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space hold on Linux")
def test_too_little_memory_to_load_torch_is_not_a_bug() -> None:
    limit = 300 << 20  # less than the libraries of torch take
    code = f"import resource; resource.setrlimit(resource.RLIMIT_AS, ({limit}, {limit})); import fewer.cli as cli"
    command = [sys.executable, "-P", "-c", f"{code}; cli.start()", "decode", "model", "set.jsonl", "out.jsonl"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.splitlines()[1:] == [
        "fewer: out of memory; use a smaller model, beam or batch, or a larger machine"
    ]


def test_only_the_command_that_is_asked_for_is_imported() -> None:
    program = "import sys; sys.argv = ['fewer', *sys.argv[1:]]; import fewer.cli.main; print(*sys.modules)"
    for arguments, others in ((["score", "--help"], False), (["--help"], True), (["scoer"], True)):
        loaded = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
        assert "fewer.cli.score" in loaded.stdout.split()
        assert ("fewer.cli.prepare" in loaded.stdout.split()) == others


def test_a_command_looks_for_garbage_rarely_and_not_at_its_end() -> None:
    """A quarter of the time of a short command; whoever imports fewer keeps Python's own settings."""
    program = """
import atexit, gc, fewer, fewer.cli
usual = gc.get_threshold()
fewer.cli.collect_rarely()
print(usual[0] == 700, gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count())
atexit._run_exitfuncs()
print(gc.get_freeze_count() > 0)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True", "True", "50000", "0", "True"]
