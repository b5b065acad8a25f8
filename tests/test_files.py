"""Files that can be written are told from those that cannot, before and after the work."""

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fewer.errors import FewerError
from fewer.files import atomic_write, check_output, locked, stop_by, unwritable
from tests.cli.running import Fewer


def test_the_folder_of_an_output_is_made_and_nothing_else(tmp_path: Path) -> None:
    check_output(tmp_path / "a" / "b" / "out.jsonl")
    assert (tmp_path / "a" / "b").is_dir()
    assert not list((tmp_path / "a" / "b").iterdir())
    (tmp_path / "old.txt").write_text("old")
    check_output(tmp_path / "old.txt")
    assert (tmp_path / "old.txt").read_text() == "old"


def test_an_output_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, complaint in (
        (tmp_path, f"{tmp_path}: it is a folder"),
        (tmp_path / "file" / "x", "file is not a folder"),
        (tmp_path / "file" / "sub" / "x", "sub is not a folder"),
        (Path("/proc/x"), "cannot write /proc/x"),
        (Path("/proc/sub/x"), "cannot write /proc/sub/x"),
    ):
        with pytest.raises(FewerError, match=complaint):
            check_output(path)


def test_a_lock_is_had_by_one_at_a_time(tmp_path: Path) -> None:
    with locked(tmp_path / "work") as alone:
        assert alone
        with locked(tmp_path / "work", wait=False) as second:
            assert not second
    with locked(tmp_path / "work", wait=False) as again:
        assert again


def test_a_signal_comes_when_a_file_has_its_name_or_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return work(*arguments, **options)

        return call

    before = signal.signal(signal.SIGINT, lambda *_: stop_by(KeyboardInterrupt()))
    try:
        for name in ("replace", "fsync"):
            with monkeypatch.context() as patch:
                patch.setattr(os, name, interrupted(getattr(os, name)))
                with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / name) as stream:
                    stream.write("all of it")
            assert (tmp_path / name).read_text() == "all of it"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", interrupted(Path.unlink))
            with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "unlink"):
                raise ValueError
    finally:
        signal.signal(signal.SIGINT, before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fsync", "replace"]


def test_a_full_disk_is_told_and_other_errors_are_not() -> None:
    problem = unwritable(OSError(errno.ENOSPC, "No space left on device", "n.jsonl"))
    assert problem is not None
    assert "cannot write n.jsonl: No space left" in problem
    assert unwritable(OSError(errno.EIO, "Input/output error")) is None


@pytest.mark.parametrize(
    "command",
    [
        ("rescore", "missing.jsonl", "missing-lm", "there.json"),
        ("perplexity", "missing-lm", "missing.txt", "--json", "there.json"),
        ("ngram", "missing.txt", "there.arpa", "--tokenizer", "missing"),
    ],
)
def test_a_bad_output_path_is_found_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.json").mkdir()
    Path("there.arpa").mkdir()
    code, _, said = Fewer(monkeypatch, capsys)(*command)
    assert code == 1
    assert "it is a folder; give the name of a file" in said
