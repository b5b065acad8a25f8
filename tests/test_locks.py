"""One process at a time in a folder, whoever was killed there before."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.files import LOCK, AtomicFiles, atomic_write, remove_leftovers
from fewer.locks import exclusive

HOLD = (
    "import sys, time, os\n"
    "from fewer.locks import exclusive\n"
    "with exclusive(sys.argv[1]):\n"
    "    if os.fork() == 0:\n"
    "        os.close(1); time.sleep(60); os._exit(0)\n"
    "    print('held', flush=True)\n"
    "    time.sleep(60)\n"
)


def holder(folder: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_told_who_works_there_and_a_killed_one_is_taken_over(tmp_path: Path) -> None:
    process = holder(tmp_path / "run")
    message = rf"run is in use by process {process.pid} on {socket.gethostname()} \(since .*\); wait for it"
    with pytest.raises(FewerError, match=message), exclusive(tmp_path / "run"):
        pass
    process.send_signal(signal.SIGKILL)  # its forked child lives on, as a data loader's would for a while
    process.wait()
    assert (tmp_path / "run" / LOCK).exists()
    with exclusive(tmp_path / "run"):
        assert json.loads((tmp_path / "run" / LOCK).read_text())["pid"] == os.getpid()
    assert not list((tmp_path / "run").iterdir())


def test_a_lock_of_another_machine_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text('{"pid": 1, "host": "elsewhere.example", "since": "2026-01-01"}')
    with pytest.raises(FewerError, match=r"process 1 on elsewhere\.example .*delete .*lock"), exclusive(tmp_path):
        pass
    assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize("content", ["", "{", '{"pid": "x"}', "\x00" * 9000])
def test_a_damaged_lock_file_of_a_killed_process_is_taken_over(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    with exclusive(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["host"] == socket.gethostname()


def test_this_process_is_excluded_too_and_shards_are_not(tmp_path: Path) -> None:
    same, other = exclusive(tmp_path, "shard-1"), exclusive(tmp_path, "shard-2")
    with same, other, pytest.raises(FewerError, match="in use by this process"):
        exclusive(tmp_path, "shard-1").__enter__()
    with exclusive(tmp_path, "shard-1"):
        pass


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(FewerError, match="cannot lock"), exclusive(tmp_path):
        pass
    assert (tmp_path / "precious").read_text() == "kept"


def write_both(first: Path, second: Path) -> None:
    with AtomicFiles() as files:
        files.open(first).write("a")
        files.open(second).write("b")


def test_several_files_take_their_names_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(FewerError, match=r"cannot write .*b"):
        write_both(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    with AtomicFiles() as files:
        files.open(tmp_path / "a").write("a")
        files.open(tmp_path / "c").write("c")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_text() + (tmp_path / "c").read_text() == "ac"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_leaves_none_of_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last file to be written is on the full disk; the first is not renamed before that is known."""
    real = open

    def full(path: object, *args: object, **options: object) -> object:
        return real("/dev/full" if ".second" in str(path) else path, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(FewerError, match=r"cannot write .*second: No space left on device"):
        write_both(tmp_path / "first", tmp_path / "second")
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    kept = [tmp_path / ".hidden", tmp_path / "a.tmp1", tmp_path / "sub" / ".x.tmpfile"]
    for path in (*kept, tmp_path / ".experiment.json.tmp123", tmp_path / "sub" / ".x.npz.tmp9"):
        path.touch()
    remove_leftovers(tmp_path, ["x.npz"])  # which is in a folder below
    assert (tmp_path / ".experiment.json.tmp123").exists()
    assert (tmp_path / "sub" / ".x.npz.tmp9").exists()
    remove_leftovers(tmp_path / "sub", ["x.npz"])
    assert not (tmp_path / "sub" / ".x.npz.tmp9").exists()
    remove_leftovers(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    with atomic_write(tmp_path / "y") as stream:
        assert Path(stream.name).name.startswith(".y.tmp")
