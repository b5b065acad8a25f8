"""What was said in a recording, when, and how sure that is; as text, JSON or subtitles."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from fewer.search.nbest import Hypothesis

Output = Literal["text", "json", "srt", "vtt"]
ENDINGS: dict[str, str] = {"text": ".txt", "json": ".json", "srt": ".srt", "vtt": ".vtt"}
LINE = 42  # characters of a subtitle's line; a subtitle has two
SENTENCE_END = re.compile(r"[.?!…。？！]['\"”’)»]*$")
SHORT = 20  # characters of a sentence that may share its subtitle with the next one
GAP = 1.0  # seconds without a word that end a subtitle
BLANKLESS = (  # characters that words are written of without blanks between them: …
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # … Thai, Lao, Burmese, Khmer, …
    "\u2e80-\u2fff\u3005-\u3007\u31f0-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # … Chinese, …
    "\u3040-\u30ff\uff66-\uff9f"  # … Japanese
)
OPENING = "「『（《〈【〔“‘(\\[{"  # brackets that belong to what follows; other signs, to what was before
WORD = re.compile(rf"\s*(?:[{OPENING}]*[{BLANKLESS}][^\w\s{OPENING}]*|(?:(?![{OPENING}]*[{BLANKLESS}])\S)+)")


@dataclass(frozen=True)
class Word:
    """A word; where no blanks part words, a character or a few."""

    text: str  # with the blank before it, if there is one
    start: float  # seconds
    end: float
    confidence: float | None = None  # the recogniser's mean probability (geometric) of its tokens

    def to_json(self) -> dict[str, Any]:
        value = {"word": self.text.strip(), "start": round(self.start, 2), "end": round(self.end, 2)}
        return value if self.confidence is None else value | {"confidence": round(self.confidence, 4)}


@dataclass(frozen=True)
class Segment:
    """One window of a recording, or a part of it."""

    start: float  # seconds
    end: float
    hypothesis: Hypothesis | None = None  # None: there is no text
    words: tuple[Word, ...] = ()
    no_speech: float | None = None  # the recogniser's probability that nobody speaks
    unclear: bool = False  # something is to be heard, but nothing could be made out
    without_lm: bool = False  # the language models skipped speech, so this is the recogniser's own text

    @property
    def text(self) -> str:
        return "" if self.hypothesis is None else self.hypothesis.text

    @property
    def confidence(self) -> float | None:
        """The recogniser's mean probability (geometric) of the tokens, the end included; None without text."""
        if self.hypothesis is None:
            return None
        return math.exp(self.hypothesis.scores["aed"] / max(self.hypothesis.length, 1))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"start": round(self.start, 2), "end": round(self.end, 2), "text": self.text}
        if self.no_speech is not None:
            value["no_speech"] = round(self.no_speech, 4)
        if self.unclear:
            value["unclear"] = True
        if self.without_lm:
            value["without_lm"] = True
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

    @property
    def text(self) -> str:
        """A line for each segment."""
        return "\n".join(segment.text for segment in self.segments if segment.text)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "duration": round(self.duration, 2),
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
        return subtitles(self.segments, output)


@dataclass(frozen=True)
class Cue:
    """A subtitle."""

    start: float  # seconds
    end: float
    text: str  # of one or two lines


def subtitles(segments: Sequence[Segment], output: Output) -> str:
    """SRT or WebVTT."""
    mark = "," if output == "srt" else "."
    parts = ["WEBVTT\n"] if output == "vtt" else []
    for number, cue in enumerate(cues(segments), start=1):
        times = f"{_clock(cue.start, mark)} --> {_clock(cue.end, mark)}"
        text = cue.text if output == "srt" else cue.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        parts.append(f"{number}\n{times}\n{text}\n")
    return "\n".join(parts)


def cues(segments: Sequence[Segment]) -> list[Cue]:
    """Subtitles end with a sentence, before a long gap, or when two lines are full."""
    found: list[Cue] = []
    for segment in segments:
        group: list[Word] = []
        for word in segment.words:
            if group and (_is_full([*group, word]) or _is_end(group, word)):
                found.append(_cue(group))
                group = []
            group.append(word)
        if group:
            found.append(_cue(group))
    return found


def timed(text: str, start: float, end: float) -> tuple[Word, ...]:
    """Words with times in proportion to their lengths."""
    parts = split_words(text)
    total, words, time = sum(map(len, parts)), [], start
    for part in parts:
        until = time + (end - start) * len(part) / total
        words.append(Word(part, time, until))
        time = until
    return tuple(words)


def split_words(text: str) -> list[str]:
    """Words with the blanks before them; by characters what is too long for a line, and scripts without blanks."""
    words = WORD.findall(text)
    return [part for word in words for part in (word if len(word.strip()) > LINE else [word])]


def lines(text: str) -> list[str]:
    """Text in two lines as equal as can be, or in one if it fits."""
    if len(text) <= LINE:
        return [text]
    breaks = [place.start() for place in re.finditer(" ", text)] or [len(text) // 2]
    middle = min(breaks, key=lambda place: max(place, len(text) - place))
    return [text[:middle].rstrip(), text[middle:].strip()]


def _is_full(group: Sequence[Word]) -> bool:
    return any(len(line) > LINE for line in lines(_joined(group)))


def _is_end(group: Sequence[Word], following: Word) -> bool:
    text = _joined(group)
    sentence = len(text) >= SHORT and SENTENCE_END.search(text) is not None
    return sentence or following.start - group[-1].end > GAP


def _joined(group: Sequence[Word]) -> str:
    return "".join(word.text for word in group).strip()


def _cue(group: Sequence[Word]) -> Cue:
    return Cue(group[0].start, group[-1].end, "\n".join(lines(_joined(group))))


def _clock(seconds: float, mark: str) -> str:
    thousandths = round(seconds * 1000)
    minutes, thousandths = divmod(thousandths, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{thousandths // 1000:02}{mark}{thousandths % 1000:03}"
