"""Lines of plain, gzip and xz files of any size; every problem names file and line."""

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from fewer.errors import FewerError

LONGEST_LINE = 1 << 24  # bytes; a longer line means that this is not line-by-line text


def open_decompressed(path: str | Path) -> IO[bytes]:
    """Open a file for reading bytes; what compression it has is told by its first bytes, not by its name."""
    raw = open(path, "rb")  # noqa: SIM115 (the caller closes it)
    head = raw.peek(6)[:6]
    if head.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], _Closing(gzip.GzipFile(fileobj=raw), raw))
    if head == b"\xfd7zXZ\x00":
        return cast(IO[bytes], _Closing(lzma.LZMAFile(raw), raw))
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
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
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


class _Closing(io.BufferedReader):
    """Buffers a decompressing stream and closes the file under it too."""

    def __init__(self, decompressed: gzip.GzipFile | lzma.LZMAFile, raw: IO[bytes]):
        super().__init__(cast(io.RawIOBase, decompressed), 1 << 16)
        self._file = raw

    def close(self) -> None:
        super().close()
        self._file.close()
