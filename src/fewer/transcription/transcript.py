"""What was said in a recording, when, and how sure that is; as text, JSON, a table or subtitles."""

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal

from fewer.search.nbest import Hypothesis
from fewer.transcription.subtitles import subtitles
from fewer.transcription.words import Word

Output = Literal["text", "json", "srt", "vtt", "tsv"]
ENDINGS: dict[str, str] = {"text": ".txt", "json": ".json", "srt": ".srt", "vtt": ".vtt", "tsv": ".tsv"}
WithoutLm = Literal["skipped", "foreign", "repeated"]
REASONS = {
    "skipped": "the language models skipped speech",
    "foreign": "the text is of another kind than that of the language models",
    "repeated": "the language models repeated themselves",
}
TSV_HEAD = "start\tend\ttext\n"  # as openai/whisper writes it; times in milliseconds


@dataclass(frozen=True)
class Segment:
    """One window of a recording, or a part of it."""

    start: float  # seconds
    end: float
    hypothesis: Hypothesis | None = None  # None: there is no text
    words: tuple[Word, ...] = ()
    no_speech: float | None = None  # the recogniser's probability that nobody speaks
    unclear: bool = False  # something is to be heard, but nothing could be made out
    without_lm: WithoutLm | None = None  # why this is the recogniser's own text, if it is
    in_parts: bool = False  # of a window that was cut in two, since the recogniser skipped speech

    @property
    def text(self) -> str:
        return "" if self.hypothesis is None else self.hypothesis.text

    @property
    def confidence(self) -> float | None:
        """The recogniser's mean probability (geometric) of the tokens, the end included; None without text."""
        if self.hypothesis is None:
            return None
        return math.exp(self.hypothesis.scores["aed"] / max(self.hypothesis.length, 1))

    def to_tsv(self) -> str:
        """A line: start and end in milliseconds, text."""
        return f"{round(1000 * self.start)}\t{round(1000 * self.end)}\t{' '.join(self.text.split())}\n"

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"start": round(self.start, 2), "end": round(self.end, 2), "text": self.text}
        if self.no_speech is not None:
            value["no_speech"] = round(self.no_speech, 4)
        if self.unclear:
            value["unclear"] = True
        if self.without_lm is not None:
            value["without_lm"] = self.without_lm
        if self.in_parts:
            value["in_parts"] = True
        if self.hypothesis is not None:
            value |= {"score": self.hypothesis.score, "scores": self.hypothesis.scores}
            value["labels"] = self.hypothesis.length
            value["words"] = [word.to_json() for word in self.words]
        return value


@dataclass
class Transcript:
    """A recording's segments in order."""

    file: str
    duration: float = 0.0  # seconds that were read
    segments: list[Segment] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # why it is not complete
    language: str | None = None  # what is spoken, if the recogniser knows several languages

    @property
    def text(self) -> str:
        """A line for each segment."""
        return "\n".join(segment.text for segment in self.segments if segment.text)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "duration": round(self.duration, 2),
            **({} if self.language is None else {"language": self.language}),
            "text": self.text,
            "segments": [segment.to_json() for segment in self.segments],
            "problems": self.problems,
        }

    def written(self, output: Output) -> str:
        """As a file's content, or to be printed."""
        if output == "json":
            return json.dumps(self.to_json(), ensure_ascii=False) + "\n"
        if output == "text":
            return self.text + "\n" if self.text else ""
        if output == "tsv":
            return TSV_HEAD + "".join(segment.to_tsv() for segment in self.segments if segment.text)
        return subtitles([segment.words for segment in self.segments], output)
