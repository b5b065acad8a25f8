"""Audio that a manifest cannot point to: inside an archive, or of several channels. It is written to a folder."""

import hashlib
import io
from functools import partial
from pathlib import Path

import numpy as np
import soundfile

from fewer.data.corpora.audio import AudioHeader, read_header
from fewer.data.media import AUDIO, open_audio
from fewer.files import atomic_write

BLOCK = 1 << 18  # samples of each channel that are mixed at a time


class StoredAudio:
    """Files in one folder, named by the content that they were made of. What is there already stays, so that preparing
    a set again changes nothing."""

    def __init__(self, folder: Path):
        self.folder = folder

    def keep(self, name: str, content: bytes) -> Path:
        """Audio as it is in the archive. name: of the file that it was; its ending is kept."""
        suffix = Path(name).suffix if AUDIO.fullmatch(Path(name).name) else ""
        path = self.folder / f"{hashlib.blake2b(content, digest_size=12).hexdigest()}{suffix}"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with atomic_write(path, "wb") as stream:
                stream.write(content)
        return path

    def keep_samples(self, samples: np.ndarray, rate: int) -> Path:
        """(T,) or (T, channels) in [-1, 1]"""
        file = io.BytesIO()
        soundfile.write(file, samples, rate, format="WAV", subtype="FLOAT")
        return self.keep("samples.wav", file.getvalue())

    def one_channel(self, path: Path) -> Path:
        """The file itself, or the mean of its channels as another file, as `fewer transcribe` would hear it."""
        header = read_header(path)
        if not isinstance(header, AudioHeader) or header.channels == 1:
            return path  # what cannot be read is told later, with the utterance
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=12))
        mixed = self.folder / f"{digest.hexdigest()}.flac"
        if not mixed.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with (
                atomic_write(mixed, "wb") as stream,
                open_audio(path) as source,
                soundfile.SoundFile(stream, "w", header.rate, 1, "PCM_24", format="FLAC") as target,
            ):
                while len(block := source.read(BLOCK, dtype="float32", always_2d=True)):
                    target.write(block.mean(axis=1))
        return mixed
