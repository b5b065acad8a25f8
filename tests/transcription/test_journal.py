"""A transcription that was stopped goes on with the next window, and ends as if it had not been stopped."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fewer.adaptation.searching import Models, Options, load_search
from fewer.decoding.system import Search
from fewer.errors import FewerError
from fewer.transcription.transcribe import TranscribeOptions, Transcriber
from fewer.transcription.transcript import Segment
from fewer.transcription.windows import Window
from tests.data.sounds import noise
from tests.recognisers.tiny import make_whisper
from tests.transcription.test_transcribe import write

OPTIONS = TranscribeOptions(search=0.4)  # the tiny Whisper hears one second


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    return load_search(Models(make_whisper(tmp_path_factory.mktemp("whisper"), sharpness=0.25)), Options(beam=3))


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two recordings of some 25 windows, so that a batch has windows of both."""
    folder = tmp_path_factory.mktemp("calls")
    return [write(folder / f"{number}.wav", noise(seconds, seed=number)) for number, seconds in enumerate((13.0, 8.0))]


class Stopping(Transcriber):
    """Stops in a search."""

    left = 10**9  # searches before that
    heard = 0  # windows that were searched

    def hear(self, windows: Sequence[Window]) -> list[list[Segment]]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.heard += len(windows)
        return super().hear(windows)


def transcribed(transcriber: Transcriber, files: Sequence[Path]) -> list[str]:
    return [transcript.written("json") for transcript in transcriber.transcribe(files)]


@pytest.mark.parametrize("stops", [[0], [1], [3], [1, 1, 1]])
def test_a_stopped_transcription_goes_on_and_is_the_same_to_the_bit(
    search: Search, calls: list[Path], tmp_path: Path, stops: list[int]
) -> None:
    whole = Stopping(search, OPTIONS)
    expected = transcribed(whole, calls)
    for searches in stops:
        stopped = Stopping(search, OPTIONS, tmp_path / "journal")
        stopped.left = searches
        with pytest.raises(KeyboardInterrupt):
            transcribed(stopped, calls)
    last = Stopping(search, OPTIONS, tmp_path / "journal")
    known = len(last.journal.done) if last.journal else 0
    assert (known > 0) == (stops != [0])
    assert transcribed(last, calls) == expected
    assert last.heard == whole.heard - known  # nothing is searched twice


def test_a_line_that_a_kill_has_cut_is_done_again_with_its_batch(
    search: Search, calls: list[Path], tmp_path: Path
) -> None:
    expected = transcribed(Stopping(search, OPTIONS, tmp_path / "journal"), calls)
    content = (tmp_path / "journal").read_bytes()
    (tmp_path / "journal").write_bytes(content[:-30])
    again = Stopping(search, OPTIONS, tmp_path / "journal")
    assert transcribed(again, calls) == expected
    assert 0 < again.heard <= 8
    assert Stopping(search, OPTIONS, tmp_path / "journal").journal is not None  # it can be read again


def test_a_changed_recording_and_other_options_start_from_the_beginning(
    search: Search, calls: list[Path], tmp_path: Path
) -> None:
    first = write(tmp_path / "call.wav", noise(3.0, seed=1))
    before = transcribed(Stopping(search, OPTIONS, tmp_path / "journal"), [first])
    write(first, noise(3.0, seed=2))
    changed = Stopping(search, OPTIONS, tmp_path / "journal")
    assert transcribed(changed, [first]) == transcribed(Transcriber(search, OPTIONS), [first]) != before
    assert changed.heard
    other = Stopping(search, TranscribeOptions(search=0.4, log_prob=-9.0), tmp_path / "journal")
    assert other.journal is not None
    assert not other.journal.done


def test_a_damaged_journal_is_named_with_its_line(search: Search, calls: list[Path], tmp_path: Path) -> None:
    transcribed(Stopping(search, OPTIONS, tmp_path / "journal"), calls)
    lines = (tmp_path / "journal").read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace('"start": ', '"start": "x')
    (tmp_path / "journal").write_text("".join(lines))
    with pytest.raises(FewerError, match=r"journal, line 3: .*\ndelete this file"):
        Transcriber(search, OPTIONS, tmp_path / "journal")
