"""Kaldi data directories: wav.scp, text, utt2spk and, if recordings are longer than utterances, segments."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, Utterance
from fewer.data.corpora.disk_table import DiskTable
from fewer.data.corpora.pipes import Piped, parse_pipe
from fewer.data.corpora.places import find_root, first_file, numbered_lines, seconds, subfolders
from fewer.data.corpora.stored_audio import StoredAudio
from fewer.data.spelling import fold_space
from fewer.errors import FewerError


def sets(source: Source) -> list[SpeechSet]:
    """The data directory itself, or each of those in a folder such as data/."""
    root = find_root(source.folder, lambda folder: bool(_data_folders(folder)), "a file wav.scp")
    return [SpeechSet(folder.name, partial(_read, replace(source, folder=folder))) for folder in _data_folders(root)]


def _data_folders(folder: Path) -> list[Path]:
    if (folder / "wav.scp").is_file():
        return [folder]
    return [path for path in subfolders(folder) if (path / "wav.scp").is_file()]


def _read(source: Source) -> Items:
    """Utterances in the order of their ids; all files are kept on disk while they are compared."""
    folder = source.folder
    for name in ("text", "utt2spk"):
        if source.transcribed and not (folder / name).is_file():
            raise FewerError(f"{folder} has no file {name!r}, so it is not a complete Kaldi data directory")
    with ExitStack() as stack:
        data = DataFolder(source, folder, *(stack.enter_context(DiskTable("place", "value")) for _ in range(4)))
        yield from data.read()


@dataclass(frozen=True)
class DataFolder:
    """The files of a data directory: each key has its place (file and line) and the rest of its line."""

    source: Source
    folder: Path
    recordings: DiskTable
    segments: DiskTable
    texts: DiskTable
    speakers: DiskTable

    def read(self) -> Items:
        yield from _fill(self.recordings, self.folder / "wav.scp")
        for table, name in ((self.texts, "text"), (self.speakers, "utt2spk"), (self.segments, "segments")):
            if (self.folder / name).is_file():
                yield from _fill(table, self.folder / name)
        segmented = (self.folder / "segments").is_file()
        genders = _genders(self.folder / "spk2gender")
        for id, place, text in self.texts:
            yield self.utterance(id, place, text, segmented, genders)
        for id, place, _ in self.segments if segmented else self.recordings:
            if self.texts.get(id) is not None:
                continue
            if self.source.transcribed:
                yield Problem(place, f"utterance {id} has audio but no line in {self.folder / 'text'}")
            else:
                yield self.utterance(id, place, "", segmented, genders)

    def utterance(
        self, id: str, place: str, text: str, segmented: bool, genders: dict[str, str]
    ) -> Utterance | Problem:
        if self.source.transcribed and not text:
            return Problem(place, f"utterance {id} has no words")
        _, speaker = self.speakers.get(id) or ("", "")
        if self.source.transcribed and not speaker:
            return Problem(place, f"utterance {id} has no speaker in {self.folder / 'utt2spk'}")
        recording, start, end = id, 0.0, None
        if segmented:
            segment = self.segments.get(id)
            if segment is None:
                return Problem(place, f"utterance {id} has no line in {self.folder / 'segments'}")
            place = segment[0]
            try:
                recording, begin, finish = segment[1].split()
                start, end = seconds(begin), None if finish == "-1" else seconds(finish)
            except ValueError:
                return Problem(place, f"expected `utterance recording start end`, found {f'{id} {segment[1]}'!r:.80}")
        audio = self.recordings.get(recording)
        if audio is None:
            return Problem(place, f"utterance {id} has no audio: {recording} is not in {self.folder / 'wav.scp'}")
        piped = parse_audio(audio[1])
        if isinstance(piped, str):
            return Problem(audio[0], piped)
        file = find_audio(piped.file, self.folder)
        return Utterance(
            id=id,
            audio=StoredAudio(self.source.audio).one_channel(file) if piped.mixed else file,
            text=fold_space(text) or None,
            speaker=speaker or None,
            where=place,
            start=start,
            end=end,
            channel=piped.channel,
            rate=piped.rate,
            recording=recording,
            gender=genders.get(speaker),
            custom={"subset": self.folder.name},
        )


def _fill(table: DiskTable, path: Path) -> Iterator[Problem]:
    for place, line in numbered_lines(path):
        key, *value = line.split(maxsplit=1)
        if not table.add(key, place, value[0].strip() if value else ""):
            yield Problem(place, f"{key} is there twice; the first is in {table.get(key)[0]}")  # type: ignore[index]


def parse_audio(value: str) -> Piped | str:
    """What an entry of wav.scp means, or what is wrong with it. Nothing is ever run."""
    if value.endswith("|") or value.startswith("|"):
        return parse_pipe(value) or (
            f"the command {value!r:.200} is not run, and not understood; put the path of an audio file there (all "
            "formats are read), or a sph2pipe, flac, sox or ffmpeg that only decodes, resamples or takes a channel"
        )
    if re.search(r"\.ark:\d+$", value):
        return f"audio inside a Kaldi archive ({value}) is not read; put the path of an audio file there"
    return Piped(value)


def find_audio(name: str, folder: Path) -> Path:
    """A path of wav.scp: absolute, or relative to the data directory, a folder around it, or the current directory."""
    return first_file(name, (folder, folder.parent, folder.parent.parent, Path.cwd())) or folder / name


def _genders(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    fields = (line.split() for _, line in numbered_lines(path))
    return {words[0]: words[1] for words in fields if len(words) == 2}
