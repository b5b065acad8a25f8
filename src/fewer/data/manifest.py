"""Random access to a manifest: one lhotse cut per line of a .jsonl (or .jsonl.gz) file of any length.

An index of 24 bytes per utterance lies beside the manifest and is memory-mapped, so that memory does not grow with the
corpus. It is made in one pass, which also checks every line, and made again when the manifest changes.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fewer.data.cut_schema import check_line
from fewer.data.lines import LONGEST_LINE, read_raw_lines
from fewer.data.manifest_index import RECORD, BadLine, Summary, open_index, transcript
from fewer.errors import FewerError
from fewer.progress import warn

SHOWN = 10  # lines that are left out of which a warning tells


class Manifest:
    """The cuts of one set. `manifest[i]` reads and parses one line; nothing is kept."""

    def __init__(self, path: str | Path, skip_bad: bool = False, transcripts: bool = True):
        """Open (and index, the first time) a manifest.

        skip_bad: list lines that cannot be used and leave them out, instead of an error.
        transcripts: every cut needs a supervision with text; False for audio that is to be transcribed.
        """
        self.path = Path(path)
        self.summary, self._index, self._lines = open_index(self.path, transcripts)
        self._open()
        if self.summary.bad_count:
            _complain(self.path, self.summary, skip_bad)
        if not self.summary.count:
            raise FewerError(f"{self.path} has no utterances")

    def _open(self) -> None:
        shape = (self.summary.count,)
        self._records = np.memmap(self._index, RECORD, "r", shape=shape) if shape[0] else np.zeros(shape, RECORD)
        self._file = os.open(self._lines, os.O_RDONLY)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in ("_records", "_file")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, OSError):
            os.close(self._file)

    def __len__(self) -> int:
        return self.summary.count

    def __getitem__(self, index: int) -> Any:
        """A lhotse cut."""
        from lhotse.cut.set import deserialize_cut

        value = self._value(index)
        try:
            return deserialize_cut(value)
        except Exception as error:  # lhotse raises whatever a damaged field leads to
            raise FewerError(f"{self.path}: utterance {value.get('id')} is not a lhotse cut: {error!r}") from error

    @property
    def durations(self) -> np.ndarray:
        """Seconds of each utterance. (n,) float32, memory-mapped"""
        return self._records["duration"]

    @property
    def text_chars(self) -> np.ndarray:
        """Characters of each transcript. (n,) int32, memory-mapped"""
        return self._records["chars"]

    @property
    def skipped(self) -> list[BadLine]:
        """The lines that were left out (at most the first thousand of them)."""
        return self.summary.bad

    def id(self, index: int) -> str:
        return self._value(index)["id"]

    def ids(self) -> Iterator[str]:
        """All ids, in order, read from the file."""
        return (value["id"] for value in self._values())

    def texts(self) -> Iterator[str]:
        """All transcripts, in order, read from the file."""
        return (transcript(value) for value in self._values())

    def id_matches(self, pattern: str) -> np.ndarray:
        """Where an id contains the regular expression. (n,) bool"""
        search = _regex(pattern).search
        return np.fromiter((search(id) is not None for id in self.ids()), bool, len(self))

    def subset_matches(self, pattern: str) -> np.ndarray:
        """Where `custom["subset"]` contains the regular expression. (n,) bool"""
        search = _regex(pattern).search
        chosen = np.array([False, *(search(name) is not None for name in self.summary.subsets)])
        if not chosen.any():
            known = ", ".join(self.summary.subsets) or "none"
            raise FewerError(f"{self.path}: no subset matches {pattern!r}; the subsets of its cuts are: {known}")
        return chosen[self._records["subset"]]

    def _value(self, index: int) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"utterance {index} of {len(self)}")
        offset, length = (int(self._records[field][index]) for field in ("offset", "length"))
        return self._parse(os.pread(self._file, min(length, LONGEST_LINE), offset))

    def _values(self) -> Iterator[dict[str, Any]]:
        with open(self._lines, "rb") as stream:
            for index in range(len(self)):
                stream.seek(int(self._records["offset"][index]))
                yield self._parse(stream.readline())

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            return json.loads(line)
        except ValueError as error:
            raise FewerError(f"{self.path} has changed while it was in use; start again") from error


def read_transcripts(path: str | Path) -> Iterator[str]:
    """The transcripts of a manifest, without an index."""
    for number, line in enumerate(read_raw_lines(path), start=1):
        cut = check_line(line, transcripts=True)
        if isinstance(cut, str):
            raise FewerError(f"{path}, line {number}: {cut}")
        yield cut.text


def is_manifest(path: str | Path) -> bool:
    """Whether a file is named like a manifest."""
    return Path(path).name.endswith((".jsonl", ".jsonl.gz"))


def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise FewerError(f"{pattern!r} is not a regular expression: {error}") from error


def _complain(path: Path, summary: Summary, skip_bad: bool) -> None:
    if not skip_bad:
        more = f" … and {summary.bad_count - 1} more such lines" if summary.bad_count > 1 else ""
        raise FewerError(
            f"{path}, {summary.bad[0]}{more}\n"
            "mend these lines or take them out; a training leaves them out with --set data.skip_bad=true"
        )
    shown = [f"  {bad}" for bad in summary.bad[:SHOWN]]
    if summary.bad_count > len(shown):
        shown.append(f"  … and {summary.bad_count - len(shown)} more")
    listing = "\n".join(shown)
    warn(f"{path}: {summary.bad_count} lines are left out:\n{listing}")
