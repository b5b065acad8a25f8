"""Kaldi data directories: wav.scp, text, utt2spk and, if recordings are longer than utterances, segments."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, Utterance
from fewer.data.corpora.disk_table import DiskTable
from fewer.data.corpora.places import find_root, first_file, numbered_lines, seconds, subfolders
from fewer.data.spelling import fold_space
from fewer.errors import FewerError

# The pipe that Kaldi's recipes write for SPHERE files, of which fewer reads the wanted channel itself.
SPH2PIPE = re.compile(
    r"(?:\S*/)?sph2pipe(?P<options>(?:\s+(?:-p|-f\s+(?:wav|rif)|-c\s+[12]))*)"
    r"\s+(?P<file>(?!-)[^\s|;&<>()$`'\"]+)\s*\|"
)


def sets(source: Source) -> list[SpeechSet]:
    """The data directory itself, or each of those in a folder such as data/."""
    root = find_root(source.folder, lambda folder: bool(_data_folders(folder)), "a file wav.scp")
    return [SpeechSet(folder.name, partial(_read, folder)) for folder in _data_folders(root)]


def _data_folders(folder: Path) -> list[Path]:
    if (folder / "wav.scp").is_file():
        return [folder]
    return [path for path in subfolders(folder) if (path / "wav.scp").is_file()]


def _read(folder: Path) -> Items:
    """Utterances in the order of their ids; all files are kept on disk while they are compared."""
    for name in ("text", "utt2spk"):
        if not (folder / name).is_file():
            raise FewerError(f"{folder} has no file {name!r}, so it is not a complete Kaldi data directory")
    with ExitStack() as stack:
        data = DataFolder(folder, *(stack.enter_context(DiskTable("place", "value")) for _ in range(4)))
        yield from data.read()


@dataclass(frozen=True)
class DataFolder:
    """The files of a data directory: each key has its place (file and line) and the rest of its line."""

    folder: Path
    recordings: DiskTable
    segments: DiskTable
    texts: DiskTable
    speakers: DiskTable

    def read(self) -> Items:
        yield from _fill(self.recordings, self.folder / "wav.scp")
        yield from _fill(self.texts, self.folder / "text")
        yield from _fill(self.speakers, self.folder / "utt2spk")
        segmented = (self.folder / "segments").is_file()
        if segmented:
            yield from _fill(self.segments, self.folder / "segments")
        genders = _genders(self.folder / "spk2gender")
        for id, place, text in self.texts:
            yield self.utterance(id, place, text, segmented, genders)
        for id, place, _ in self.segments if segmented else self.recordings:
            if self.texts.get(id) is None:
                yield Problem(place, f"utterance {id} has audio but no line in {self.folder / 'text'}")

    def utterance(
        self, id: str, place: str, text: str, segmented: bool, genders: dict[str, str]
    ) -> Utterance | Problem:
        if not text:
            return Problem(place, f"utterance {id} has no words")
        _, speaker = self.speakers.get(id) or ("", "")
        if not speaker:
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
        file = parse_audio(audio[1], self.folder)
        if isinstance(file, str):
            return Problem(audio[0], file)
        return Utterance(
            id=id,
            audio=file[0],
            text=fold_space(text),
            speaker=speaker,
            where=place,
            start=start,
            end=end,
            channel=file[1],
            recording=recording,
            gender=genders.get(speaker),
            custom={"subset": self.folder.name},
        )


def _fill(table: DiskTable, path: Path) -> Iterator[Problem]:
    for place, line in numbered_lines(path):
        key, *value = line.split(maxsplit=1)
        if not table.add(key, place, value[0].strip() if value else ""):
            yield Problem(place, f"{key} is there twice; the first is in {table.get(key)[0]}")  # type: ignore[index]


def parse_audio(value: str, folder: Path) -> tuple[Path, int | None] | str:
    """File and channel that an entry of wav.scp means, or what is wrong with it. Nothing is ever run."""
    if match := SPH2PIPE.fullmatch(value):
        channel = re.search(r"-c\s+([12])", match["options"])
        return find_audio(match["file"], folder), int(channel[1]) - 1 if channel else None
    if value.endswith("|") or value.startswith("|"):
        return (
            f"the command {value!r:.120} is not run; put the path of an audio file there "
            "(WAV, FLAC, Ogg and SPHERE are read directly), or `sph2pipe -f wav -p -c 1 FILE |`"
        )
    if re.search(r"\.ark:\d+$", value):
        return f"audio inside a Kaldi archive ({value}) is not read; put the path of an audio file there"
    return find_audio(value, folder), None


def find_audio(name: str, folder: Path) -> Path:
    """A path of wav.scp: absolute, or relative to the data directory, a folder around it, or the current directory."""
    return first_file(name, (folder, folder.parent, folder.parent.parent, Path.cwd())) or folder / name


def _genders(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    fields = (line.split() for _, line in numbered_lines(path))
    return {words[0]: words[1] for words in fields if len(words) == 2}
