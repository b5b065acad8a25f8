"""The windows that are done, in a file: a transcription that was stopped or killed goes on with the next one.

The first line names the models and options, each further line is one window:

    {"format": "fewer-windows/1", "identity": "9f2c…"}
    {"file": "call.wav", "window": "51ab…", "text": "what was said", "segments": [{"start": 0.0, …}, …]}

A window is named by its samples, so that a recording that has changed is transcribed anew. Of windows that are searched
together all are taken from here or none: the second run searches in the same batches as the first one would have, and
its transcript is the same to the bit.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fewer.config import complaints
from fewer.data.lines import read_raw_lines
from fewer.errors import FewerError
from fewer.files import atomic_write, cannot_write, remove_leftovers
from fewer.locks import exclusive
from fewer.progress import say
from fewer.transcription.transcript import Segment
from fewer.transcription.windows import Window

Hear = Callable[[Sequence[Window]], list[list[Segment]]]  # windows -> the segments of each


@contextmanager
def unfinished(paths: Sequence[Path | None], first: bool = True) -> Iterator[Path | None]:
    """Where the journal of a command that writes these files is; it is removed when the block ends without an error.

    It lies beside the first file. No second process may write it; what killed ones left of these files is removed.
    None: what is printed has no journal. first: False in further processes of the same command.
    """
    files = [path for path in paths if path is not None]
    if not files:
        yield None
        return
    folder, name = files[0].parent, partial(files[0]).stem + ".jsonl"
    journals = [journal_of(folder / name, group) for group in range(len(files))]
    if not first:
        yield folder / name
        return
    with exclusive(folder, f".{name}.lock"):
        written = {other.name for path in files for other in (path, partial(path))}
        for place in {path.parent for path in files}:
            remove_leftovers(place, {*written, *(journal.name for journal in journals)})
        try:
            yield folder / name
        except (KeyboardInterrupt, SystemExit):
            say(f"the windows that are done are in {folder / name}; the same command goes on where it was")
            raise
        for journal in journals:
            journal.unlink(missing_ok=True)


def journal_of(place: Path, group: int) -> Path:
    """The journal of a group of recordings, of which only the first has the plain name."""
    return place if not group else place.with_name(f"{place.stem}.{group}{place.suffix}")


def partial(path: Path) -> Path:
    """What a transcript is called that is not complete."""
    return path.with_name(f"{path.stem}.partial{path.suffix}")


class Journal:
    """Segments of windows; what is added is on disk before it counts as done."""

    def __init__(self, path: str | Path, identity: str):
        """identity: names everything but the audio that a transcript depends on; what has another one is not used."""
        self.path, self.done = Path(path), dict[str, list[Segment]]()
        if not self.path.exists() or not self._read(identity):
            with atomic_write(self.path) as stream:
                print(_Head(identity=identity).model_dump_json(), file=stream)

    def get(self, files: Sequence[str], windows: Sequence[Window], hear: Hear) -> list[list[Segment]]:
        """The segments of each window: as they are known, unless any window is new. files: of each window."""
        names = list(map(_name, windows))
        if all(name in self.done for name in names):
            return [self.done[name] for name in names]
        found = hear(windows)
        try:
            with open(self.path, "a", encoding="utf-8") as stream:
                for file, name, segments in zip(files, names, found, strict=True):
                    text = " ".join(segment.text.strip() for segment in segments if segment.text)
                    value = {"file": file, "window": name, "text": text, "segments": list(map(_to_json, segments))}
                    print(json.dumps(value, ensure_ascii=False), file=stream)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self.done |= zip(names, found, strict=True)
        return found

    def _read(self, identity: str) -> bool:
        """Take what is there, without a last line that a kill has cut; whether the file may be used."""
        size, number = 0, 1
        try:
            for number, line in enumerate(read_raw_lines(self.path), start=1):
                if not line.endswith(b"\n"):
                    break
                if number == 1 and _Head.model_validate_json(line).identity != identity:
                    say(f"{self.path} is of other models or options: transcribing from the beginning")
                    return False
                if number > 1:
                    value = _LINE.validate_json(line)
                    self.done[value.window] = value.segments
                size += len(line)
        except ValidationError as error:
            found = complaints(error, f"{self.path}, line {number}", most=2)
            raise FewerError(f"{found}\ndelete this file to transcribe from the beginning") from error
        if self.done:
            say(f"{len(self.done)} windows are in {self.path} already")
        os.truncate(self.path, size)
        return bool(size)


class _Head(BaseModel):
    model_config = ConfigDict(strict=True)
    format: Literal["fewer-windows/1"] = "fewer-windows/1"
    identity: str


@dataclass(frozen=True)
class _Line:
    __pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False)
    file: str
    window: str
    text: str  # for people
    segments: list[Segment]


_LINE = TypeAdapter(_Line)


def _name(window: Window) -> str:
    digest = hashlib.sha256(window.start.to_bytes(8, "little") + (window.language or "").encode())
    digest.update(window.samples.numpy().tobytes())
    return digest.hexdigest()[:32]


def _to_json(segment: Segment) -> dict[str, object]:
    """Without the scores of single labels, which no transcript tells."""
    value = asdict(segment)
    if segment.hypothesis is not None:
        del value["hypothesis"]["label_scores"]
    return value
