"""Files, folders and standard input, and where their transcripts go."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.transcription.inputs import Input, gather, targets
from fewer.transcription.recording import File


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def names(inputs: list[Input]) -> list[str]:
    return [one.file.name for one in inputs]


def test_a_folder_gives_its_audio_and_video_in_order(tmp_path: Path) -> None:
    found = [tmp_path / name for name in ("B.MP3", "a.wav", "talk.webm", "more/c.m4a", "more/deep/d.mp4")]
    touch(*found, tmp_path / "notes.txt", tmp_path / "._a.wav", tmp_path / ".hidden/e.wav", tmp_path / ".wav")
    assert names(gather([tmp_path])) == [str(path) for path in found]
    assert names(gather([tmp_path / "notes.txt", tmp_path / "more"])) == [
        str(tmp_path / name) for name in ("notes.txt", "more/c.m4a", "more/deep/d.mp4")
    ]


def test_a_folder_without_audio_says_what_it_has(tmp_path: Path) -> None:
    touch(tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.pdf")
    with pytest.raises(FewerError, match=r"holds no audio or video files \(found: 2 \.txt, 1 \.pdf\)"):
        gather([tmp_path])


def test_files_of_one_stem_keep_their_endings(tmp_path: Path) -> None:
    audio = tmp_path / "audio"
    touch(audio / "call.wav", audio / "call.mp3", audio / "talk.wav", audio / "more/call.wav")
    out = tmp_path / "out"
    paths = targets(gather([audio]), "srt", out)
    expected = ["call.mp3.srt", "call.wav.srt", "talk.srt", "more/call.srt"]
    assert paths == [out / name for name in expected]
    assert targets(gather([audio / "call.wav", audio / "call.mp3"]), "text", out) == [
        out / "call.wav.txt",
        out / "call.mp3.txt",
    ]


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    inputs = gather([tmp_path / "a/call.wav", tmp_path / "b/call.wav"])
    with pytest.raises(FewerError, match="would both be written to"):
        targets(inputs, "text", tmp_path / "out")


def test_standard_input_is_a_file_of_that_name_until_the_process_ends(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path; from fewer.transcription.inputs import gather\n"
        "(one,) = gather([Path('-')]); print(one.file.path, one.file.name, one.stem, one.file.path.read_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"sound", capture_output=True, check=True)
    path, told = done.stdout.decode().split(maxsplit=1)
    assert told.strip() == "standard input stdin b'sound'"
    assert not Path(path).exists()


def test_a_terminal_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(FewerError, match="nothing is piped to standard input"):
        gather([Path("-")])


def test_a_file_keeps_its_name_in_messages(tmp_path: Path) -> None:
    from fewer.transcription.recording import name_of, opened

    file = File(tmp_path / "spool", "standard input")
    assert name_of(file) == "standard input"
    (tmp_path / "spool").write_text("no audio")
    with pytest.raises(FewerError, match=r"^standard input: cannot read the audio"):
        opened(file, 16000)
