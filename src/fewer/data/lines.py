"""Lines of plain, gzip and xz files of any size; every problem names file and line."""

import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from fewer.data.limits import DECOMPRESSION_MEMORY, FREE_SIZE, HIGHEST_RATIO
from fewer.errors import FewerError

DAMAGED = (EOFError, OSError, lzma.LZMAError, zlib.error)  # what reading damaged compressed data raises
LONGEST_LINE = 1 << 24  # bytes; a longer line means that this is not line-by-line text


def open_decompressed(path: str | Path) -> IO[bytes]:
    """Open a file for reading bytes; what compression it has is told by its first bytes, not by its name."""
    raw = open(path, "rb")  # noqa: SIM115 (the caller closes it)
    try:
        head = raw.peek(6)[:6]
    except OSError:  # a folder
        raw.close()
        raise
    if head.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], io.BufferedReader(_Unpacking(raw, lambda: zlib.decompressobj(31)), 1 << 16))
    if head == b"\xfd7zXZ\x00":
        xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, DECOMPRESSION_MEMORY)
        return cast(IO[bytes], io.BufferedReader(_Unpacking(raw, xz), 1 << 16))
    return raw


def read_raw_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of a file as bytes, line ends included."""
    number = 0
    try:
        with open_decompressed(path) as stream:
            while line := stream.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                    raise FewerError(f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes; is this a text file?")
                yield line
    except (EOFError, lzma.LZMAError, zlib.error) as error:
        raise FewerError(f"{path}, after line {number}: compressed data is damaged or cut off ({error})") from error
    except OSError as error:
        raise FewerError(f"cannot read {path}: {error.strerror or error}") from error


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their line ends (and without a byte order mark)."""
    for number, line in enumerate(read_raw_lines(path), start=1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise FewerError(
                f"{path}, line {number}: not UTF-8 text (byte {error.start + 1} of the line is "
                f"0x{line[error.start]:02x}); {_conversion(line)}"
            ) from error
        if "\0" in text:
            raise FewerError(f"{path}, line {number}: a zero byte, which no text holds; {_conversion(line)}")
        yield text.rstrip("\r\n")


def _conversion(line: bytes) -> str:
    """What to do about a line in another encoding."""
    wide = line.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in line
    encoding = "UTF-16" if wide else "WINDOWS-1252"
    return f"convert the file, for example with: iconv -f {encoding} -t UTF-8 FILE > NEW"


class _Unpacking(io.RawIOBase):
    """What is in a gzip or xz file, one stream after the other; an error if it is far more than real data would be."""

    def __init__(self, raw: io.BufferedReader, new: Callable[[], Any]):
        self.raw, self.new = raw, new
        self.stream, self.packed, self.unpacked = new(), b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._next(len(buffer))
        buffer[: len(data)] = data
        self.unpacked += len(data)
        if self.unpacked > FREE_SIZE and self.unpacked > HIGHEST_RATIO * self.raw.tell():
            raise FewerError(
                f"{self.raw.name}: {self.raw.tell():,} bytes unpack to more than {self.unpacked:,}; "
                "if that is meant, unpack the file yourself and give the result"
            )
        return len(data)

    def _next(self, size: int) -> bytes:
        """At most `size` bytes, none at the end."""
        while True:
            if self.stream.eof:
                rest = (self.stream.unused_data or self.raw.read(1 << 16)).lstrip(b"\0")
                if not rest:
                    return b""
                self.stream, self.packed = self.new(), rest
            elif not self.packed and getattr(self.stream, "needs_input", True):
                self.packed = self.raw.read(1 << 16)
                if not self.packed:
                    raise EOFError("it ends before its end-of-stream marker")
            data = self.stream.decompress(self.packed, size)
            self.packed = getattr(self.stream, "unconsumed_tail", b"")
            if data:
                return bytes(data)

    def close(self) -> None:
        self.raw.close()
        super().close()
