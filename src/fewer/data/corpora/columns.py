"""Which column of a table, or of a Hugging Face dataset, means what: told by its name."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from fewer.data.corpora.corpus import Problem, Utterance
from fewer.data.corpora.places import seconds
from fewer.data.spelling import fold_space
from fewer.errors import FewerError

NAMES = {  # meaning -> names that columns have in common formats; of several, the first
    "audio": "audio audio_filepath audio_path audio_file audio_filename path file filepath file_path filename "
    "file_name wav wav_filename wav_path wav_file clip recording",
    "text": "text transcript transcription transcripts sentence reference ref words normalized_text raw_text",
    "id": "id utt_id utterance_id uttid utt utterance segment_id audio_id",
    "speaker": "speaker speaker_id spk spk_id client_id speaker_name",
    "start": "start offset start_time begin begin_time",
    "end": "end end_time stop",
    "duration": "duration duration_s length",
    "channel": "channel",
}


@dataclass(frozen=True)
class Columns:
    """The name of the column with each meaning; None: there is none."""

    audio: str
    text: str | None = None
    id: str | None = None
    speaker: str | None = None
    start: str | None = None  # seconds
    end: str | None = None  # seconds
    duration: str | None = None  # seconds; used only with a start
    channel: str | None = None  # counted from 0

    @staticmethod
    def guess(names: Iterable[str], where: str, transcribed: bool = True, audio: str | None = None) -> "Columns":
        """By the names of all columns. audio: its column, if it is known."""
        given = list(names)
        by_name = {_plain(name): name for name in reversed(given)}
        found = {
            meaning: next((by_name[name] for name in known.split() if name in by_name), None)
            for meaning, known in NAMES.items()
        }
        found["audio"] = audio or found["audio"]
        for meaning in ("audio", "text") if transcribed else ("audio",):
            if found[meaning] is None:
                raise FewerError(
                    f"{where} has no column of {'audio files' if meaning == 'audio' else 'transcripts'}: "
                    f"its columns are {', '.join(map(repr, given))[:300]}; rename one to {meaning!r}"
                )
        return Columns(**found)  # type: ignore[arg-type]

    def __str__(self) -> str:
        used = {field.name: getattr(self, field.name) for field in fields(self)}
        if self.start is None or self.end is not None:
            del used["duration"]
        known = [f"{meaning} from column {name!r}" for meaning, name in used.items() if name is not None]
        missing = [meaning for meaning in ("text", "speaker") if used[meaning] is None]
        return ", ".join(known) + (f"; no column for {' and '.join(missing)}" if missing else "")

    def utterance(
        self,
        row: Mapping[str, object],
        where: str,
        audio: Path,
        own_id: Callable[[], str],
        subset: str,
        transcribed: bool = True,
    ) -> Utterance | Problem:
        """What a row says. own_id: the id if no column has one."""
        text = fold_space(self._value(row, self.text))
        if transcribed and not text:
            return Problem(where, "the transcript is empty")
        times = []
        for name in (self.start, self.end, self.duration):
            value = self._value(row, name)
            try:
                times.append(seconds(value) if value else None)
            except ValueError:
                return Problem(where, f"{name} is {value!r:.40}, which is not a number of seconds")
        start, end, duration = times
        if start is not None and end is None and duration is not None:
            end = start + duration
        channel = self._value(row, self.channel)
        if channel and not re.fullmatch(r"\d{1,3}", channel):
            return Problem(where, f"{self.channel} is {channel!r:.40}, which is not a channel's number (0, 1, …)")
        return Utterance(
            id="_".join(self._value(row, self.id).split()) or own_id(),
            audio=audio,
            text=text or None,
            speaker=self._value(row, self.speaker) or None,
            where=where,
            start=start or 0.0,
            end=end,
            channel=int(channel) if channel else None,
            custom={"subset": subset},
        )

    @staticmethod
    def _value(row: Mapping[str, object], name: str | None) -> str:
        value = None if name is None else row.get(name)
        return "" if value is None else str(value).strip()


def known_name(name: str) -> bool:
    """Whether a column may be called so."""
    return any(_plain(name) in known.split() for known in NAMES.values())


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


class FreshIds:
    """Ids made of file names; a name that was used before gets a number too."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def make(self, stem: str, number: int) -> str:
        id = "_".join(stem.split()) or str(number)
        if id in self.used:
            id = f"{id}-{number}"
        self.used.add(id)
        return id
