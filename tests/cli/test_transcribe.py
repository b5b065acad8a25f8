"""fewer transcribe from the command line."""

import itertools
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soundfile

from fewer.transcription.transcribe import Transcriber
from fewer.transcription.transcript import Segment
from fewer.transcription.windows import Window
from tests.cli.running import Fewer
from tests.data.media import write_media
from tests.data.sounds import noise
from tests.recognisers.tiny import make_whisper


@pytest.fixture(scope="module")
def calls(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two recordings of tones, at other rates and with other channels than the recogniser's."""
    folder = tmp_path_factory.mktemp("calls")
    for name, source in (("call", "dev-0"), ("talk", "dev-1")):
        samples, rate = soundfile.read(tones / "audio" / f"{source}.wav")
        soundfile.write(folder / f"{name}.flac", np.stack([samples, samples], axis=1), rate)
    return [folder / "call.flac", folder / "talk.flac"]


def test_one_file_is_printed_and_several_with_their_names(fewer: Fewer, tones: Path, calls: list[Path]) -> None:
    options = ("--model", tones / "aed", "--beam", 2)
    code, one, _ = fewer("transcribe", calls[0], *options)
    assert code == 0
    code, both, _ = fewer("transcribe", *calls, *options)
    assert code == 0
    assert both.startswith(f"==> {calls[0]} <==\n{one}==> {calls[1]} <==\n")


def test_text_is_printed_as_it_is_recognised(
    fewer: Fewer, tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, rate = soundfile.read(tones / "audio" / "dev-0.wav")
    files = [tmp_path / "long.wav", tmp_path / "longer.wav"]
    for times, file in zip((4, 8), files, strict=True):
        soundfile.write(file, np.tile(samples, times), rate)
    seconds = len(samples) / rate
    events: list[str] = []
    hear = Transcriber.hear

    def heard(self: Transcriber, windows: list[Window]) -> list[list[Segment]]:
        events.append(f"search of {len(windows)}")
        return hear(self, windows)

    monkeypatch.setattr(Transcriber, "hear", heard)
    monkeypatch.setattr("fewer.cli.transcribe.write", events.append)
    options = ("--model", tones / "aed", "--beam", 2, "--longest", 2 * seconds, "--search", seconds)
    assert fewer("transcribe", *files, *options)[0] == 0
    assert events[:2] == ["search of 1", f"==> {files[0]} <=="]
    searches = [place for place, event in enumerate(events) if event.startswith("search of")]
    assert len(searches) > 2
    assert all(after > before + 1 for before, after in itertools.pairwise(searches))  # text between all of them
    events.clear()
    assert fewer("transcribe", files[1], *options, "--output", "tsv")[0] == 0
    assert events[:2] == ["search of 1", "start\tend\ttext"]
    assert events[2].startswith("0\t")


def test_json_has_every_terms_score_and_fused_search_is_decodes(fewer: Fewer, tones: Path, calls: list[Path]) -> None:
    options = ("--lm", tones / "lm", "--lm-scale", 0.4, "--output", "json")
    code, out, _ = fewer("transcribe", *calls, "--model", tones / "aed", *options)
    assert code == 0
    values = [json.loads(line) for line in out.splitlines()]
    assert [value["file"] for value in values] == [str(call) for call in calls]
    for value in values:
        for segment in value["segments"]:
            assert set(segment["scores"]) == {"aed", "lm"}
            total = segment["scores"]["aed"] + 0.4 * segment["scores"]["lm"]
            assert segment["score"] == pytest.approx(total / segment["labels"], abs=1e-4)
            assert all(0 < word["confidence"] <= 1 for word in segment["words"])


@pytest.mark.parametrize(
    ("output", "ending"), [("text", "txt"), ("json", "json"), ("srt", "srt"), ("vtt", "vtt"), ("tsv", "tsv")]
)
def test_files_of_their_names_are_written_into_a_folder(
    fewer: Fewer, tones: Path, calls: list[Path], tmp_path: Path, output: str, ending: str
) -> None:
    arguments = ("--model", tones / "aed", "--output", output, "--out", tmp_path / "out")
    code, out, told = fewer("transcribe", *calls, *arguments)
    assert code == 0
    assert f"==> {calls[1]} <==\n[00:00:00." in told  # what is recognised, for who looks on
    written = [tmp_path / "out" / f"{call.stem}.{ending}" for call in calls]
    assert out == "".join(f"{path}\n" for path in written)
    assert sorted((tmp_path / "out").iterdir()) == sorted(written)


def test_bad_files_are_told_of_at_the_end_and_the_others_are_there(
    fewer: Fewer, tones: Path, calls: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "empty.mp3").write_bytes(b"")
    files = [calls[0], tmp_path / "empty.mp3", tmp_path / "missing.wav", calls[1]]
    code, out, told = fewer("transcribe", *files, "--model", tones / "aed", "--out", tmp_path / "out")
    assert code == 1
    assert out == f"{tmp_path / 'out' / 'call.txt'}\n{tmp_path / 'out' / 'talk.txt'}\n"
    assert "2 of 4 files could not be transcribed" in told
    assert "empty.mp3: the file is empty" in told
    assert "missing.wav: there is no such file" in told


def test_what_can_be_read_of_a_damaged_file_is_marked_as_partial(
    fewer: Fewer, tones: Path, calls: list[Path], tmp_path: Path
) -> None:
    samples, rate = soundfile.read(calls[0])
    soundfile.write(tmp_path / "cut.flac", np.tile(samples, (20, 1)), rate)
    content = (tmp_path / "cut.flac").read_bytes()
    (tmp_path / "cut.flac").write_bytes(content[: len(content) * 3 // 4])
    options = ("--model", tones / "aed", "--output", "srt", "--out", tmp_path / "out")
    code, out, told = fewer("transcribe", tmp_path / "cut.flac", calls[1], *options)
    assert code == 1
    assert f"{tmp_path / 'cut.flac'}: " in told
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"cut.partial.srt", "talk.srt"}
    assert out.splitlines()[0] == str(tmp_path / "out" / "cut.partial.srt")


def test_a_stopped_command_goes_on_and_leaves_nothing_behind(
    fewer: Fewer, tones: Path, calls: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--model", tones / "aed", "--output", "json", "--longest", 0.2)
    assert fewer("transcribe", *calls, *options, "--out", tmp_path / "whole")[0] == 0
    left = [2]

    def stop(self: Transcriber, windows: Sequence[Window]) -> list[list[Segment]]:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return hear(self, windows)

    hear = Transcriber.hear
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Transcriber, "hear", stop)
        patch.setattr("fewer.transcription.transcribe.BATCH", 1)
        code, _, told = fewer("transcribe", *calls, *options, "--out", out)
    assert code == 143
    assert "the same command goes on where it was" in told
    assert {path.name for path in out.iterdir()} == {"call.partial.json", "call.partial.jsonl"}
    so_far = json.loads((out / "call.partial.json").read_text())
    whole = json.loads((tmp_path / "whole" / "call.json").read_text())
    assert so_far["segments"] == whole["segments"][:2]
    assert "stopped after" in so_far["problems"][0]
    (out / ".call.json.tmp4711").touch()  # what a kill leaves
    code, _, told = fewer("transcribe", *calls, *options, "--out", out)
    assert code == 0
    assert "2 windows are in" in told
    assert [(path.name, path.read_bytes()) for path in sorted(out.iterdir())] == [
        (path.name, path.read_bytes()) for path in sorted((tmp_path / "whole").iterdir())
    ]


def test_what_cannot_be_written_is_refused_before_any_work(fewer: Fewer, calls: list[Path], tmp_path: Path) -> None:
    code, _, told = fewer("transcribe", *calls, "--model", tmp_path / "none", "--output", "srt")
    assert code == 1
    assert "srt of 2 files cannot be printed: give a folder for them with --out" in told
    same = tmp_path / calls[0].name
    code, _, told = fewer("transcribe", calls[0], same, "--model", tmp_path / "none", "--out", tmp_path / "out")
    assert code == 1
    assert "would both be written to" in told
    (tmp_path / "file.txt").touch()
    (tmp_path / "out" / "call.txt").mkdir(parents=True)
    for out, complaint in (("file.txt", "file.txt is not a folder"), ("out", "call.txt: it is a folder")):
        code, _, told = fewer("transcribe", calls[0], "--model", tmp_path / "none", "--out", tmp_path / out)
        assert code == 1
        assert complaint in told


def test_a_whisper_in_another_language_given_or_detected(fewer: Fewer, tmp_path: Path) -> None:
    model = make_whisper(tmp_path / "whisper", multilingual=True, sharpness=0.2)
    soundfile.write(tmp_path / "call.wav", noise(0.9), 16000)
    arguments = ("transcribe", tmp_path / "call.wav", "--model", model)
    code, out, told = fewer(*arguments, "--output", "json")
    assert code == 0
    assert f"call.wav: the language is {json.loads(out)['language']} (" in told
    assert fewer(*arguments, "--language", "de", "--task", "translate")[0] == 0
    code, out, _ = fewer(*arguments, "--language", "de", "--output", "json", "--search", 0.5)
    assert code == 0
    assert json.loads(out)["language"] == "de"
    assert json.loads(out)["segments"][0]["no_speech"] > 0


def test_a_folder_and_standard_input(
    fewer: Fewer, tones: Path, calls: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--model", tones / "aed", "--beam", 2)
    _, expected, _ = fewer("transcribe", *calls, *options)
    code, out, _ = fewer("transcribe", calls[0].parent, *options)
    assert (code, out) == (0, expected)
    _, one, _ = fewer("transcribe", calls[0], *options)
    with open(calls[0]) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, _ = fewer("transcribe", "-", *options)
    assert (code, out) == (0, one)


def test_a_phone_recording_and_a_video_of_one_stem(fewer: Fewer, tones: Path, tmp_path: Path) -> None:
    samples, rate = soundfile.read(tones / "audio" / "dev-0.wav", dtype="float32")
    for name in ("call.m4a", "call.mp4"):
        write_media(tmp_path / "audio" / name, samples, rate, picture=name.endswith("4"))
    code, out, _ = fewer("transcribe", tmp_path / "audio", "--model", tones / "aed", "--out", tmp_path / "out")
    assert code == 0
    assert out == f"{tmp_path / 'out/call.m4a.txt'}\n{tmp_path / 'out/call.mp4.txt'}\n"
