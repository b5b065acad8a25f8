"""TED-LIUM release 2: {train,dev,test}/{sph,stm}/<talk>.{sph,stm}, one channel of 16 kHz, and LM/*.en.gz, the text for
language models."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, TextSet, Utterance, Wordless
from fewer.data.corpora.places import find_files, find_root, index_audio, numbered_lines
from fewer.data.corpora.stm import StmSegment, read_stm
from fewer.data.corpora.texts import tedlium_lm_text, tedlium_text

SETS = ("train", "dev", "test")
LM_TEXT = r".*\.en(\.gz)?"  # of files in the folder LM


def sets(source: Source) -> list[SpeechSet | TextSet]:
    """The speech sets that are there, and `lm` if the folder LM is."""
    root = find_root(source.folder, lambda folder: bool(_set_folders(folder)), "folders train/stm, dev/stm, test/stm")
    speech = [SpeechSet(folder.name, partial(_read, folder)) for folder in _set_folders(root)]
    texts = find_files(root / "LM", LM_TEXT)
    return [*speech, *([TextSet("lm", partial(_read_lm_text, texts))] if texts else [])]


def _set_folders(root: Path) -> list[Path]:
    return [root / name for name in SETS if (root / name / "stm").is_dir()]


def _read(folder: Path) -> Items:
    audio = index_audio(folder / "sph")
    talks = find_files(folder / "stm", r".*\.stm")
    for talk in talks:
        if talk.stem not in audio:
            yield Problem(str(talk), f"there is no audio of this talk: expected {folder / 'sph' / talk.stem}.sph")
            continue
        for segment in read_stm(talk):
            yield segment if isinstance(segment, Problem) else _utterance(segment, talk, audio[talk.stem], folder.name)
    for name in sorted(set(audio) - {talk.stem for talk in talks}):
        yield Problem(str(audio[name]), f"has no transcript: expected {folder / 'stm' / name}.stm")


def _read_lm_text(paths: list[Path]) -> Iterator[str | Problem | Wordless]:
    for path in paths:
        for where, line in numbered_lines(path):
            yield tedlium_lm_text(line) or Wordless(where)


def _utterance(segment: StmSegment, talk: Path, audio: Path, subset: str) -> Utterance | Problem | Wordless:
    if segment.recording != talk.stem:
        return Problem(segment.where, f"the segment is of {segment.recording}, but the file is named after {talk.stem}")
    if not segment.text:
        return Problem(segment.where, "the segment has no words")
    text = tedlium_text(segment.text)
    if not segment.scored or not text:
        return Wordless(segment.where)
    return Utterance(
        id=f"{talk.stem}-{round(segment.start * 100):07d}-{round(segment.end * 100):07d}",
        audio=audio,
        text=text,
        speaker=talk.stem,  # one talk, one speaker
        where=segment.where,
        start=segment.start,
        end=segment.end,
        custom={"subset": subset},
    )
