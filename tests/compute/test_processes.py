"""New processes that train together."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fewer.compute.processes import together
from fewer.errors import FewerError

forks = pytest.mark.skipif(sys.platform != "linux", reason="it looks at /proc")


@pytest.fixture(autouse=True)
def _tests_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """By new processes, which import nothing from the current folder."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


def note_rank(folder: str, also: str = "") -> None:
    facts = [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")]
    Path(folder, f"rank{os.environ['RANK']}").write_text(" ".join([*facts, str(torch.get_num_threads())]))
    if also == "complain" and os.environ["RANK"] == "1":
        raise FewerError("the second process complains")
    if also == "die" and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    if also:
        Path(folder, f"pid{os.environ['RANK']}").write_text(str(os.getpid()))
        time.sleep(600)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_new_processes_know_their_rank_share_the_threads_and_import_nothing_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yaml.py").write_text("open('ran', 'w')")
    (tmp_path / "torch.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    threads = max(torch.get_num_threads() // 2, 1)
    together(note_rank, 2, str(tmp_path))
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "rank0").read_text() == f"0 0 2 {threads}"
    assert (tmp_path / "rank1").read_text() == f"1 1 2 {threads}"


@forks
@pytest.mark.parametrize(("also", "message"), [("complain", "the second process complains"), ("die", "was killed")])
def test_what_ends_one_new_process_ends_all(tmp_path: Path, also: str, message: str) -> None:
    with pytest.raises(FewerError, match=message):
        together(note_rank, 2, str(tmp_path), also)
    assert not ((tmp_path / "pid0").exists() and alive(int((tmp_path / "pid0").read_text())))


@forks
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_new_processes_end_with_the_one_that_started_them(tmp_path: Path, how: signal.Signals) -> None:
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # it may be ignored out here
        "from fewer.compute.processes import together; from tests.compute.test_processes import note_rank; "
        f"together(note_rank, 2, {str(tmp_path)!r}, 'wait')"
    )
    starter = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    notes = [tmp_path / "pid0", tmp_path / "pid1"]
    until(lambda: all(note.exists() and note.read_text() for note in notes))
    starter.send_signal(how)
    starter.wait(60)
    until(lambda: not any(alive(int(note.read_text())) for note in notes))


def until(done: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)
