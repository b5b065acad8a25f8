"""LibriSpeech and Mini LibriSpeech: <set>/<speaker>/<chapter>/<speaker>-<chapter>{-0000.flac, .trans.txt}."""

from functools import partial
from pathlib import Path

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, Utterance
from fewer.data.corpora.places import find_root, numbered_lines, subfolders
from fewer.data.spelling import fold_space


def sets(source: Source) -> list[SpeechSet]:
    """Every set (train-clean-100, dev-other, …) that is there; any number of them may be."""
    root = find_root(source.folder, lambda folder: bool(_set_folders(folder)), "folders such as train-clean-100")
    return [SpeechSet(folder.name, partial(_read, folder)) for folder in _set_folders(root)]


def _set_folders(root: Path) -> list[Path]:
    return [
        folder
        for folder in subfolders(root)
        if next(folder.glob("*/*/*.trans.txt"), None) or next(folder.glob("*/*/*.flac"), None)
    ]


def _read(folder: Path) -> Items:
    for speaker in subfolders(folder):
        for chapter in subfolders(speaker):
            yield from _read_chapter(chapter, folder.name)


def _read_chapter(chapter: Path, subset: str) -> Items:
    speaker, name = chapter.parent.name, f"{chapter.parent.name}-{chapter.name}"
    audio = {path.stem: path for path in sorted(chapter.glob("*.flac"))}
    transcripts = chapter / f"{name}.trans.txt"
    if not transcripts.is_file():
        yield Problem(str(transcripts), f"the transcripts of {len(audio)} audio files are missing")
        return
    without_transcript = set(audio)
    for where, line in numbered_lines(transcripts):
        id, _, text = line.strip().partition(" ")
        without_transcript.discard(id)
        if not id.startswith(f"{name}-"):
            yield Problem(where, f"utterance {id} does not belong to speaker {speaker}, chapter {chapter.name}")
        elif not text.strip():
            yield Problem(where, f"utterance {id} has no words")
        else:
            path = audio.get(id, chapter / f"{id}.flac")
            yield Utterance(id, path, fold_space(text), speaker, where, custom={"subset": subset})
    for id in sorted(without_transcript):
        yield Problem(str(audio[id]), f"has no line in {transcripts.name}")
