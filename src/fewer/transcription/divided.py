"""Recordings that an engine's workers transcribe: each takes groups of them."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fewer.compute.engines.engine import Engine, Work
from fewer.decoding.system import Search
from fewer.progress import Bar
from fewer.transcription.recording import Recording, grouped, name_of
from fewer.transcription.transcribe import TranscribeOptions, Transcriber
from fewer.transcription.transcript import Transcript


class _Transcribing(Work):
    """A shard is a group of recordings; what was done of it before it was lost is in its journal."""

    def __init__(
        self, search: Search, options: TranscribeOptions, journal: str | Path | None, recordings: Sequence[Recording]
    ):
        self.search, self.options, self.journal, self.recordings = search, options, journal, recordings
        self.groups, self.device = grouped(recordings), search.system.recogniser.device

    def __call__(self, shard: int, *arguments: Any) -> list[Transcript]:
        group = self.groups[shard]
        transcripts = [Transcript(name_of(recording)) for recording in self.recordings]
        transcriber = Transcriber(self.search, self.options, self.journal, shard)
        with Bar("seconds of audio", group.seconds) as bar:
            for _ in transcriber.stream_group(group, self.recordings, transcripts, bar):
                pass
        return transcripts[group.first : group.last]

    def name(self, shard: int) -> str:
        group = self.groups[shard]
        more = f" and {group.last - group.first - 1} others" if group.last - group.first > 1 else ""
        return f"{name_of(self.recordings[group.first])}{more}"


def stream_by(
    engine: Engine,
    search: Search,
    options: TranscribeOptions,
    journal: str | Path | None,
    recordings: Sequence[Recording],
    transcripts: Sequence[Transcript],
) -> Iterator[int]:
    """As `Transcriber.stream`, with the same transcripts, which come a group at a time."""
    work = _Transcribing(search, options, journal, recordings)
    Transcriber(search, options)  # complains at once
    with Bar("seconds of audio", sum(group.seconds for group in work.groups) or None) as bar:
        results = engine.in_order(work, range(len(work.groups)))
        for group, found in zip(work.groups, results, strict=True):
            for target, transcript in zip(transcripts[group.first : group.last], found, strict=True):
                for field in fields(Transcript):
                    setattr(target, field.name, getattr(transcript, field.name))
            bar.advance(group.seconds)
            yield group.last
