"""lhotse's Shar format: cuts.000000.jsonl.gz and, in the same order, their audio in recording.000000.tar."""

from functools import partial
from pathlib import Path
from typing import Any

from fewer.data.corpora.corpus import Items, Problem, Source, SpeechSet, Utterance
from fewer.data.corpora.folder import found_in
from fewer.data.corpora.stored_audio import StoredAudio
from fewer.data.spelling import fold_space
from fewer.errors import FewerError


def is_shar(folder: Path) -> bool:
    return bool(_shards(folder, "cuts", ".jsonl"))


def sets(source: Source) -> list[SpeechSet]:
    cuts, recordings = _shards(source.folder, "cuts", ".jsonl"), _shards(source.folder, "recording", ".tar")
    if not cuts or len(cuts) != len(recordings):
        raise FewerError(
            f"{source.given} has {len(cuts)} files of cuts and {len(recordings)} of audio; lhotse's Shar format has as "
            f"many cuts.*.jsonl.gz as recording.*.tar; {found_in(source.folder)}"
        )
    return [SpeechSet(source.folder.name, partial(_read, source, cuts, recordings))]


def _shards(folder: Path, field: str, kind: str) -> list[Path]:
    return sorted(path for path in folder.glob(f"{field}.*") if kind in path.suffixes and path.is_file())


def _read(source: Source, cuts: list[Path], recordings: list[Path]) -> Items:
    from lhotse.shar import LazySharIterator

    store = StoredAudio(source.audio)
    for shard, tar in zip(cuts, recordings, strict=True):
        number = 0
        try:
            for cut in LazySharIterator({"cuts": [str(shard)], "recording": [str(tar)]}):
                number += 1
                yield _utterance(cut, f"{shard}, line {number}", source, store)
        except FewerError:
            raise
        except Exception as error:  # lhotse raises whatever damaged files lead to
            raise FewerError(f"{shard}, after cut {number}, with {tar.name}: cannot be read: {error!r:.300}") from error


def _utterance(cut: Any, where: str, source: Source, store: StoredAudio) -> Utterance | Problem:
    from lhotse import MonoCut

    if not isinstance(cut, MonoCut):
        return Problem(where, f"{cut.id} is a {type(cut).__name__}; only cuts of one channel (MonoCut) are read")
    if len(cut.supervisions) > 1:
        return Problem(where, f"{cut.id} has {len(cut.supervisions)} supervisions; split it with trim_to_supervisions")
    supervision = cut.supervisions[0] if cut.supervisions else None
    text = fold_space((supervision and supervision.text) or "")
    if source.transcribed and not text:
        return Problem(where, f"{cut.id} has no transcript")
    audio = cut.recording.sources[0] if cut.recording is not None and cut.recording.sources else None
    if audio is None or audio.type != "memory" or not isinstance(audio.source, bytes):
        return Problem(where, f"{cut.id} has no audio in the archive")
    path = store.keep(f"{cut.id}.flac" if audio.source.startswith(b"fLaC") else cut.id, audio.source)
    return Utterance(
        id=cut.id,
        audio=path,
        text=text or None,
        speaker=supervision.speaker if supervision else None,
        where=where,
        start=cut.start,
        end=cut.end,
        channel=audio.channels.index(cut.channel),
        recording=cut.recording.id,
        gender=supervision.gender if supervision else None,
        custom={"subset": source.folder.name},
    )
