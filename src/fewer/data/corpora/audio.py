"""Headers of audio files: length, rate and channels, without decoding the file."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from fewer.data.corpora.corpus import Problem

SPHERE_HEADER = 1024  # bytes; LDC's files have a header of this size
MISSING = 0.5  # seconds that a SPHERE or media file may be shorter than its header says
LONGEST = 7 * 24 * 3600  # seconds of a file that is decoded to count its samples


@dataclass(frozen=True)
class AudioHeader:
    samples: int  # per channel
    rate: int  # Hz
    channels: int

    @property
    def duration(self) -> float:
        return self.samples / self.rate


@lru_cache(maxsize=256)
def read_header(path: Path) -> AudioHeader | Problem:
    """Open the file; reading its last sample shows whether it is complete. Formats whose headers are not exact about
    their length are decoded to count their samples."""
    from fewer.data.media import UNREADABLE, MediaFile, open_audio

    if not path.is_file():
        return Problem(str(path), "there is no such audio file")
    try:
        sphere = _sphere_fields(path)
        if compression := _compression(sphere):
            return Problem(str(path), f"is compressed SPHERE audio ({compression}); {_conversion(path)}")
        with open_audio(path) as stream:
            rate, channels = stream.samplerate, stream.channels
            if isinstance(stream, MediaFile):
                samples = stream.seek(LONGEST * rate)
                claimed, complete = max(samples, stream.frames or 0), True
            else:
                samples = claimed = stream.frames
                stream.seek(max(samples - 1, 0))
                complete = samples == 0 or len(stream.read(1)) == 1
    except (*UNREADABLE, OSError) as error:
        return Problem(str(path), f"cannot be read as audio ({_reason(error)}); is the file complete?")
    claimed = int(sphere.get("sample_count", claimed))
    if not complete or claimed > samples + MISSING * rate:
        return Problem(str(path), f"is cut off: the header promises {claimed} samples, the file has fewer")
    if samples == 0:
        return Problem(str(path), "holds no audio")
    return AudioHeader(min(samples, claimed), rate, channels)


def _sphere_fields(path: Path) -> dict[str, str]:
    """The `name -type value` lines of a NIST SPHERE header; empty for other files."""
    with open(path, "rb") as stream:
        head = stream.read(SPHERE_HEADER)
    if not head.startswith(b"NIST_1A"):
        return {}
    lines = head.decode("latin-1").split("end_head")[0]
    return dict(re.findall(r"^(\w+) -\w+ +(.+?) *$", lines, re.MULTILINE))


def _compression(fields: dict[str, str]) -> str | None:
    """What follows the comma in a coding such as `ulaw,embedded-shorten-v2.00`."""
    return fields.get("sample_coding", "").partition(",")[2] or None


def _conversion(path: Path) -> str:
    return (
        f"uncompress it with LDC's sph2pipe, for example `sph2pipe -f wav -p {path.name} {path.stem}.wav`: "
        "a .wav beside the .sph is used in its place"
    )


def _reason(error: Exception) -> str:
    return str(getattr(error, "error_string", None) or getattr(error, "strerror", None) or error).rstrip(".")
