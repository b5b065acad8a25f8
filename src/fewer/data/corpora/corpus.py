"""What a corpus reader hands over: sets of utterances, and the problems it met, each with its place."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Utterance:
    """A stretch of one channel of an audio file, with its words."""

    id: str
    audio: Path
    text: str | None  # None: not transcribed
    speaker: str | None
    where: str  # the transcript's file and line, for messages
    start: float = 0.0  # seconds
    end: float | None = None  # seconds; None: to the end of the file
    channel: int | None = None  # None: the file must have one channel only
    rate: int | None = None  # Hz, to which it is resampled; None: the file's
    recording: str | None = None  # the recording's id; None: the file's name
    gender: str | None = None  # as the corpus writes it
    custom: dict[str, str] = field(default_factory=dict)  # goes into the supervision; "subset" among them


@dataclass(frozen=True)
class Problem:
    """An entry that cannot be used: an error, or one line of the list of what was skipped."""

    where: str  # file and line, or file
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Wordless:
    """A segment without speech ([noise], [laughter], …), which is left out and counted."""

    where: str


Items = Iterator[Utterance | Problem | Wordless]


@dataclass(frozen=True)
class SpeechSet:
    """One set of a corpus; becomes OUT/<name>.jsonl."""

    name: str
    read: Callable[[], Items]
    companions: dict[str, Callable[[], Iterator[str]]] = field(default_factory=dict)  # suffix -> lines kept beside it


@dataclass(frozen=True)
class TextSet:
    """One set of a corpus that is text alone; becomes OUT/<name>.txt."""

    name: str
    read: Callable[[], Iterator[str | Problem | Wordless]]


@dataclass(frozen=True)
class Source:
    """Where the user says that the corpus is."""

    folder: Path  # absolute; of a table, the file
    transcripts: Path | None = None  # absolute; where to look for transcripts if not in `folder`
    given: str = ""  # what the user wrote, for what may be a name
    audio: Path = Path()  # absolute; a folder for audio that is in no file of its own, made when needed
    transcribed: bool = True  # every utterance needs a transcript; else those that have none come without

    @property
    def transcripts_folder(self) -> Path:
        return self.transcripts or self.folder
