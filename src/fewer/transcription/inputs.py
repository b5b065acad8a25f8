"""What is to be transcribed (files, folders of them, standard input), and the file that each transcript goes to."""

import atexit
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewer.data.corpora.places import walk
from fewer.data.media import AUDIO
from fewer.errors import FewerError
from fewer.files import check_output
from fewer.transcription.recording import File
from fewer.transcription.transcript import ENDINGS, Output

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Input:
    """A recording that was asked for."""

    file: File
    place: Path  # its path below the folder that was given, or its name

    @property
    def stem(self) -> Path:
        return self.place.with_suffix("")


def gather(given: Sequence[Path]) -> list[Input]:
    """The files that were given, those in folders that were given, and standard input."""
    inputs: list[Input] = []
    for path in given:
        if str(path) == STANDARD_INPUT:
            inputs.append(_from_standard_input())
        elif path.is_dir():
            inputs += _in_folder(path)
        else:
            inputs.append(Input(File(path, str(path)), Path(path.name)))
    return inputs


def _from_standard_input() -> Input:
    """As a file that is removed when the process ends: some formats cannot be read without seeking."""
    if sys.stdin is None or sys.stdin.isatty():
        raise FewerError("nothing is piped to standard input: write `fewer transcribe - … < call.m4a`, or name a file")
    spool = tempfile.NamedTemporaryFile(prefix="fewer-", suffix=".audio", delete=False)  # noqa: SIM115 (closed below)
    atexit.register(Path(spool.name).unlink, missing_ok=True)
    with spool:
        shutil.copyfileobj(sys.stdin.buffer, spool, 1 << 20)
    return Input(File(Path(spool.name), "standard input"), Path("stdin"))


def _in_folder(folder: Path) -> list[Input]:
    """Audio and video files in a folder and below it, sorted; hidden ones are left out."""
    files = [path for path in walk(folder) if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    found = [path for path in files if AUDIO.fullmatch(path.name)]
    if not found:
        kinds = ", ".join(f"{count} {kind or 'without ending'}" for kind, count in _endings(files).most_common(5))
        raise FewerError(f"{folder} holds no audio or video files (found: {kinds or 'nothing'}); name files to be read")
    return [Input(File(path, str(path)), path.relative_to(folder)) for path in found]


def _endings(files: Sequence[Path]) -> Counter[str]:
    return Counter(path.suffix.lower() for path in files)


def targets(inputs: Sequence[Input], output: Output, out: Path | None) -> list[Path | None]:
    """Where each transcript is written, if that can be; None: it is printed.

    Files of one stem (call.wav, call.mp3) keep their endings: call.wav.txt, call.mp3.txt.
    """
    if out is None:
        if len(inputs) > 1 and output in ("srt", "vtt", "tsv"):
            raise FewerError(f"{output} of {len(inputs)} files cannot be printed: give a folder for them with --out")
        return [None] * len(inputs)
    shared = Counter(one.stem for one in inputs)
    paths = [out / f"{one.place if shared[one.stem] > 1 else one.stem}{ENDINGS[output]}" for one in inputs]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            both = f"{inputs[paths.index(path)].file.name} and {inputs[number].file.name}"
            raise FewerError(f"{both} would both be written to {path}: transcribe them into two folders")
    for path in paths:
        check_output(path)
    return list(paths)
