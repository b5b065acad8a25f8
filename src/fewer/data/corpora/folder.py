"""A folder of audio files, each with its transcript in a .txt file beside it: call.mp3 and call.txt."""

from functools import partial
from pathlib import Path

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, Utterance
from fewer.data.corpora.places import walk
from fewer.data.corpora.stored_audio import StoredAudio
from fewer.data.lines import read_lines
from fewer.data.media import AUDIO
from fewer.data.spelling import fold_space
from fewer.errors import FewerError

SHOWN = 8  # names of files that a message shows


def sets(source: Source) -> list[SpeechSet]:
    files = [path for path in walk(source.folder) if AUDIO.fullmatch(path.name)]
    if not files:
        raise FewerError(f"{source.given} holds no audio files; {found_in(source.folder)}")
    if source.transcribed and not any(path.with_suffix(".txt").is_file() for path in files):
        raise FewerError(
            f"{source.given} holds {len(files)} audio files, but none has its transcript beside it: expected "
            f"{files[0].with_suffix('.txt').relative_to(source.folder)} for {files[0].relative_to(source.folder)}; "
            f"{found_in(source.folder)}"
        )
    return [SpeechSet(source.folder.name, partial(_read, source, files))]


def _read(source: Source, files: list[Path]) -> Items:
    store = StoredAudio(source.audio)
    seen: dict[Path, Path] = {}
    for path in files:
        if other := seen.get(path.with_suffix("")):
            yield Problem(str(path), f"has the same name as {other.name}, and so the same transcript; remove one")
            continue
        seen[path.with_suffix("")] = path
        transcript = path.with_suffix(".txt")
        if transcript.is_file():
            text = fold_space(" ".join(read_lines(transcript)))
            if source.transcribed and not text:
                yield Problem(str(transcript), "the transcript is empty")
                continue
        elif source.transcribed:
            yield Problem(str(path), f"has no transcript beside it: expected {transcript.name}")
            continue
        else:
            text = ""
        yield Utterance(
            id="_".join("-".join(path.relative_to(source.folder).with_suffix("").parts).split()),
            audio=store.one_channel(path),
            text=text or None,
            speaker=None,
            where=str(transcript if text else path),
            custom={"subset": source.folder.name},
        )


def found_in(folder: Path) -> str:
    """What is in a folder, for a message."""
    names = sorted(f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir())
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"found {', '.join(names[:SHOWN])}{more}"
