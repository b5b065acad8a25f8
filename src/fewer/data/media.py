"""Audio of files that soundfile cannot read (M4A, AAC, WMA, AMR, and the sound of MP4, WebM and other videos): PyAV.

Nothing that a file names is opened: FFmpeg gets the bytes of this one file, and is told which format it has. Left to
itself it would also take playlists, and read the files and addresses in them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile

FORMATS = {  # how files begin -> FFmpeg's name of the format
    rb".{4}(ftyp|moov|mdat|wide|free|skip|pnot)": "mov",  # also M4A, MP4, 3GP
    rb"\x1aE\xdf\xa3": "matroska",  # also WebM
    rb"\x30\x26\xb2\x75": "asf",  # WMA, WMV
    rb"\xff[\xf0\xf1\xf8\xf9]|ID3": "aac",  # MP3, which may begin with ID3 too, is soundfile's
    rb"RIFF.{4}AVI ": "avi",
    rb"RIFF.{4}WAVE": "wav",  # of a codec that soundfile lacks
    rb"FLV": "flv",
    rb"\x00\x00\x01[\xba\xb3]": "mpeg",
    rb"G.{187}G|.{4}G.{191}G": "mpegts",
    rb"OggS": "ogg",  # Speex, Theora
    rb"#!AMR": "amr",
    rb"\x0bw.{3}[\x00-\x57]": "ac3",
    rb"\x0bw": "eac3",
    rb"\x7f\xfe\x80\x01|\xfe\x7f\x01\x80": "dts",
    rb"MAC ": "ape",
    rb"wvpk": "wv",
    rb"TTA[12]": "tta",
    rb"caff": "caf",
    rb"FORM.{4}AIF": "aiff",
}
LONGEST_START = 200  # bytes that tell the format
RELIABLE = ("mov", "asf")  # formats that know how long the sound itself is
GAP = 0.1  # seconds between two pieces of sound that are filled with silence, as a player does
AUDIO = re.compile(  # names of audio and video files, for those who look for them in a folder
    r"[^.].*\.(wav|flac|ogg|oga|opus|mp3|sph|aiff?|aifc|au|caf|w64|m4a|m4b|aac|wma|amr|e?ac3|dts|ape|wv|tta|mka"
    r"|mp4|m4v|mov|3gp|3g2|mkv|webm|wmv|asf|avi|flv|mpe?g|m?ts|m2ts|ogv)",
    re.IGNORECASE,
)


class MediaError(Exception):
    """The file cannot be read as audio."""


class NoSound(MediaError):
    """The file is in order, but there is nothing to hear in it."""


class MediaFile:
    """A file that is read from its beginning, as a `soundfile.SoundFile` is."""

    def __init__(self, file: str | Path | BinaryIO):
        import av

        self._errors = (av.FFmpegError, ValueError, OSError)
        self._file = open(file, "rb") if isinstance(file, str | Path) else file  # noqa: SIM115 (closed with this)
        try:
            with self._complaining():
                self._container = av.open(self._file, format=_format(self._file))
                sounds = self._container.streams.audio
                if not sounds:
                    raise NoSound("the file has no sound")
                self._stream = self._container.streams.best("audio") or sounds[0]
                self._frames = self._container.decode(self._stream)
                first = next(self._frames, None)
        except MediaError:
            self.close()
            raise
        if first is None:
            self.close()
            raise NoSound("the file holds no audio")
        self.samplerate: int = first.sample_rate
        self.channels: int = first.layout.nb_channels
        self._converter = av.AudioResampler("fltp", first.layout, self.samplerate)
        self._blocks = self._decoded(first)
        self._held = np.zeros((0, self.channels), np.float32)

    @property
    def frames(self) -> int | None:
        """Samples of each channel, if the file knows that of its sound; they may be a few less."""
        if self._stream.duration is None or self._container.format.name.split(",")[0] not in RELIABLE:
            return None
        return round(self._stream.duration * self._stream.time_base * self.samplerate)

    @property
    def duration(self) -> float | None:
        """Seconds, about; None if the file does not say."""
        if self.frames is not None:
            return self.frames / self.samplerate
        length = self._container.duration
        return None if length is None else length / 1e6

    def seek(self, place: int) -> int:
        """Skip so many samples from the beginning, of which nothing was read yet; what is there is decoded."""
        left = place
        while left > 0 and len(block := self.read(min(left, self.samplerate))):
            left -= len(block)
        return place - left

    def read(self, frames: int, dtype: str = "float32", always_2d: bool = True) -> np.ndarray:
        """So many samples, fewer only at the end. (frames, channels)"""
        parts, length = [self._held], len(self._held)
        while length < frames and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            length += len(block)
        joined = np.concatenate(parts)
        self._held = joined[frames:]
        return joined[:frames]

    def _decoded(self, first: Any) -> Iterator[np.ndarray]:
        """Pieces of sound, the pauses between them filled. (T, channels) float32 each"""
        done, frame = 0, first
        start = Fraction(self._container.start_time or 0, 1_000_000)
        while frame is not None:
            for pause in self._pauses(frame, start, done):
                done += len(pause)
                yield pause
            with self._complaining():
                converted = self._converter.resample(frame)
            for part in converted:
                done += part.samples
                yield part.to_ndarray().T
            with self._complaining():
                frame = next(self._frames, None)
        with self._complaining():
            rest = self._converter.resample(None)
        yield from (part.to_ndarray().T for part in rest)

    def _pauses(self, frame: Any, start: Fraction, done: int) -> Iterator[np.ndarray]:
        """Silence before a frame that begins later than the sound so far has ended, at most a second at a time."""
        length = self._container.duration
        if frame.pts is None or frame.time_base is None or length is None:
            return
        time = frame.pts * frame.time_base - start
        left = round(time * self.samplerate) - done
        if left < GAP * self.samplerate or time > Fraction(length, 1_000_000):  # beyond the end: a damaged time
            return
        while left > 0:
            yield np.zeros((min(left, self.samplerate), self.channels), np.float32)
            left -= self.samplerate

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        """FFmpeg's errors, and PyAV's about a sound whose form changes, as one kind."""
        try:
            yield
        except self._errors as error:
            raise MediaError(str(getattr(error, "strerror", None) or error)) from error

    def close(self) -> None:
        if hasattr(self, "_container"):
            self._container.close()
        self._file.close()

    def __enter__(self) -> "MediaFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _format(file: BinaryIO) -> str:
    """FFmpeg's name of a file's format, by its first bytes."""
    start = file.read(LONGEST_START)
    file.seek(0)
    for pattern, name in FORMATS.items():
        if re.match(pattern, start, re.DOTALL):
            return name
    raise MediaError("the format is not recognised")


UNREADABLE = (soundfile.SoundFileError, MediaError)
NO_FORMAT = "File does not exist or is not a regular file"  # libsndfile says so of files without a known beginning


def why_unreadable(error: Exception) -> str:
    """What a reader said of a file that is there."""
    text = str(getattr(error, "error_string", error)).rstrip(".")
    if isinstance(error, TypeError):  # soundfile wants to know rate and channels
        return "samples without a header; convert the file to WAV"
    return "this is no audio that is known, or only its first bytes" if text.startswith(NO_FORMAT) else text


def open_audio(file: str | Path | BinaryIO, kind: Any = soundfile.SoundFile) -> Any:
    """A file, or the bytes of one, as a `soundfile.SoundFile` or a `MediaFile`. kind: how soundfile should."""
    try:
        return kind(str(file) if isinstance(file, Path) else file)
    except soundfile.SoundFileError:
        if not isinstance(file, str | Path):
            file.seek(0)
        elif not Path(file).is_file() or not Path(file).stat().st_size:
            raise
        try:
            return MediaFile(file)
        except NoSound:
            raise
        except MediaError:
            pass
        raise
