"""The index of a manifest: where each line begins, how long its utterance and its transcript are, what is wrong.

Records of 24 bytes, then a summary as JSON, then the length of the summary in 8 bytes.
"""

import hashlib
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from pydantic import TypeAdapter

from fewer.data.cut_schema import ManifestCut, check_line, line_id
from fewer.data.lines import DAMAGED, open_decompressed, read_raw_lines
from fewer.errors import FewerError
from fewer.files import atomic_write, fingerprint, user_cache
from fewer.progress import Bar

FORMAT = "fewer-manifest-index/2"  # a new number makes every manifest be checked again
RECORD = np.dtype([("offset", "<u8"), ("length", "<u4"), ("duration", "<f4"), ("chars", "<i4"), ("subset", "<u4")])
PACK = struct.Struct("<QIfiI")  # a RECORD
HOPELESS = 20_000  # bad lines after which a file without any other is given up
REMEMBERED = 1000  # bad lines that are kept by name; further ones are only counted


@dataclass(frozen=True)
class BadLine:
    """A line of a manifest that cannot be used."""

    line: int
    id: str | None
    problem: str

    def __str__(self) -> str:
        return f"line {self.line}: " + (f"{self.id}: " if self.id else "") + self.problem


@dataclass(frozen=True)
class Summary:
    """What the index knows besides its records; stored behind them as JSON."""

    format: str
    size: int  # of the manifest in bytes …
    mtime_ns: int  # … and when it was changed: an index for another state of the file is made again
    lines_size: int  # bytes of the uncompressed lines
    transcripts: bool
    count: int
    subsets: list[str]  # names of `custom["subset"]`; record field `subset` counts from 1 in it, 0 is none
    bad_count: int
    bad: list[BadLine]

    def describes(self, state: os.stat_result, lines: Path) -> bool:
        """Whether the manifest, and the copy of its lines if it is compressed, are as they were."""
        unchanged = (self.size, self.mtime_ns) == (state.st_size, state.st_mtime_ns)
        return unchanged and lines.exists() and lines.stat().st_size == self.lines_size


def open_index(path: Path, transcripts: bool) -> tuple[Summary, Path, Path]:
    """Find or make the index: its summary, its file, and the file of uncompressed lines that it points into."""
    try:
        state = path.stat()
        with open(path, "rb") as stream:
            compressed = stream.read(2) == b"\x1f\x8b"
    except OSError as error:
        raise FewerError(f"cannot read {path}: {error.strerror}") from error
    places = []
    for folder in _cache_folders(path):
        index = folder / f".{path.name}.{'index' if transcripts else 'audio-index'}"
        lines = folder / f".{path.name}.lines" if compressed else path
        places.append((index, lines))
        summary = _read_summary(index)
        if summary and summary.describes(state, lines):
            return summary, index, lines
    for index, lines in places:
        index.parent.mkdir(parents=True, exist_ok=True)
        if os.access(index.parent, os.W_OK):
            if compressed:
                _decompress(path, lines)
            return _build(path, state, lines, index, transcripts), index, lines
    raise FewerError(
        f"{path}: its index cannot be written; make {places[0][0].parent} or {places[1][0].parent} writable"
    )


def _cache_folders(path: Path) -> Iterable[Path]:
    """Where an index may lie: beside the manifest, else in the user's cache."""
    return path.parent, user_cache() / fingerprint(str(path.resolve()))[:16]


def _read_summary(index: Path) -> Summary | None:
    """The summary behind an index's records, or None when this is not a whole index of this format."""
    try:
        with open(index, "rb") as stream:
            stream.seek(-8, os.SEEK_END)
            (length,) = struct.unpack("<Q", stream.read(8))
            stream.seek(-8 - length, os.SEEK_END)
            records_size = stream.tell()
            summary = TypeAdapter(Summary).validate_json(stream.read(length), strict=True)
    except (OSError, ValueError, OverflowError):
        return None
    whole = records_size == summary.count * RECORD.itemsize and bool(summary.bad) == bool(summary.bad_count)
    return summary if summary.format == FORMAT and whole else None


def _decompress(path: Path, lines: Path) -> None:
    with open_decompressed(path) as stream, atomic_write(lines, "wb") as out:
        try:
            shutil.copyfileobj(stream, out, 1 << 20)
        except DAMAGED as error:
            raise FewerError(f"{path}: compressed data is damaged or cut off ({error})") from error


def _build(path: Path, state: os.stat_result, lines: Path, index: Path, transcripts: bool) -> Summary:
    with atomic_write(index, "wb") as out:
        scan = _Scan(path, lines, out, transcripts, twice=set())
        if twice := scan.twice():
            out.seek(0)
            out.truncate()
            scan = _Scan(path, lines, out, transcripts, twice)
        summary = Summary(
            FORMAT, state.st_size, state.st_mtime_ns, lines.stat().st_size, transcripts,
            scan.count, list(scan.subsets), scan.bad_count, scan.bad,
        )  # fmt: skip
        footer = json.dumps(asdict(summary)).encode()
        out.write(footer + struct.pack("<Q", len(footer)))
    return summary


class _Scan:
    """One pass over the lines that writes the records. Ids seen more than once are found by their hashes, kept on disk;
    a second pass, told these hashes, then marks every later appearance as bad."""

    def __init__(self, path: Path, lines: Path, out: IO[bytes], transcripts: bool, twice: set[int]):
        """path: the manifest, as messages name it. lines: it, or what was in it."""
        self.path = path
        self.count, self.bad_count, self.bad = 0, 0, list[BadLine]()
        self.subsets: dict[str, int] = {}
        self.hashes = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the scan)
        first_line: dict[str, int] = {}
        offset = 0
        with Bar(f"indexing {lines.name}") as bar:
            for number, line in enumerate(read_raw_lines(lines), start=1):
                cut = check_line(line, transcripts)
                if isinstance(cut, str):
                    self.reject(number, line, cut)
                elif (before := first_line.get(cut.id)) is not None:
                    self.reject(number, line, f"the id was used before, in line {before}")
                else:
                    hashed = _hash(cut.id)
                    if hashed in twice:
                        first_line[cut.id] = number
                    self.hashes.write(struct.pack("<Q", hashed))
                    out.write(PACK.pack(offset, len(line), cut.duration, len(cut.text), self.subset(cut)))
                    self.count += 1
                offset += len(line)
                bar.advance()

    def reject(self, number: int, line: bytes, problem: str) -> None:
        self.bad_count += 1
        if len(self.bad) < REMEMBERED:
            self.bad.append(BadLine(number, line_id(line), problem))
        if not self.count and self.bad_count >= HOPELESS:
            raise FewerError(f"{self.path}, {self.bad[0]}; none of the first {HOPELESS:,} lines can be used")

    def subset(self, cut: ManifestCut) -> int:
        name = cut.subset
        return 0 if name is None else self.subsets.setdefault(name, len(self.subsets) + 1)

    def twice(self) -> set[int]:
        """Hashes that occur more than once."""
        if self.count < 2:
            return set()
        self.hashes.flush()
        hashes = np.memmap(self.hashes, "<u8", "r+")
        hashes.sort()
        return set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())


def transcript(value: dict[str, Any]) -> str:
    """The text of a cut as it stands in a manifest."""
    supervisions = value.get("supervisions") or [{}]
    return supervisions[0].get("text") or ""


def _hash(id: str) -> int:
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "little")
