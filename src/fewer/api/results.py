"""What the functions of `fewer` return."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fewer.errors import FewerError
from fewer.search.nbest import Header, NBest, read_header, read_nbest
from fewer.transcription.transcript import Output, Segment, Transcript
from fewer.transcription.words import Word


class Transcription:
    """What was said in one recording.

    Iterate over it to get segments as they are recognised; `text`, `words` and so on wait for the last one. It may be
    iterated over several times: what was recognised is kept.
    """

    def __init__(self, transcript: Transcript, rest: Iterator[object] = iter(())):
        """rest: puts further segments into the transcript when it is advanced, and ends when it is complete."""
        self._transcript, self._rest = transcript, rest
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Segment]:
        """Segments with text, in order."""
        place = 0
        while True:
            for segment in self._transcript.segments[place:]:
                place += 1
                if segment.text:
                    yield segment
            if place == len(self._transcript.segments) and not self._advance():
                return

    @property
    def segments(self) -> list[Segment]:
        """Segments with text: start and end in seconds, text, words, confidence."""
        return list(self)

    @property
    def words(self) -> list[Word]:
        """Words with start and end in seconds and the recogniser's confidence, from 0 to 1."""
        return [word for segment in self for word in segment.words]

    @property
    def text(self) -> str:
        """A line for each segment."""
        return self._whole().text

    @property
    def file(self) -> str:
        return self._transcript.file

    @property
    def language(self) -> str | None:
        """What is spoken, such as "de", if the recogniser knows several languages."""
        return self._whole().language

    @property
    def duration(self) -> float:
        """Seconds."""
        return self._whole().duration

    @property
    def problems(self) -> list[str]:
        """Why it is not complete, if the recording could not be read, or not to its end."""
        return self._whole().problems

    def to_json(self) -> dict[str, Any]:
        """What `fewer transcribe --output json` writes: also segments without text, and every term's scores."""
        return self._whole().to_json()

    def written(self, output: Output) -> str:
        """As the content of a file: text, json, srt, vtt or tsv."""
        return self._whole().written(output)

    def so_far(self, output: Output) -> str:
        """As `written`, but of what is recognised by now; empty if that is nothing. Its JSON says where it stopped."""
        found = self._transcript
        if not any(segment.text for segment in found.segments):
            return ""
        stopped = f"{found.file}: stopped after {found.segments[-1].end:.1f} s"
        return replace(found, problems=[*found.problems, stopped]).written(output)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Transcription of {self.file}: {len(self._transcript.segments)} segments so far>"

    def _whole(self) -> Transcript:
        for _ in self:
            pass
        return self._transcript

    def _advance(self) -> bool:
        """Recognise more; whether there was any more."""
        if self._error is not None:
            raise self._error
        try:
            return next(self._rest, None) is not None
        except BaseException as error:  # or what is there would pass for the whole the next time
            stopped = FewerError(f"{self.file}: the transcription was stopped; start it again")
            self._error = error if isinstance(error, Exception) else stopped
            raise


class Transcriptions:
    """One `Transcription` for each recording of a list, in its order. All are recognised as their segments are used."""

    def __init__(self, transcripts: Sequence[Transcript], rest: Iterator[int]):
        """rest: puts further segments into the transcripts, and gives how many transcripts are complete."""
        self._rest, self._complete = rest, 0
        self._all = [Transcription(transcript, self._up_to(place)) for place, transcript in enumerate(transcripts)]

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Transcription]:
        return iter(self._all)

    def __getitem__(self, place: int) -> Transcription:
        return self._all[place]

    def __repr__(self) -> str:
        return f"<Transcriptions of {len(self)} recordings, {self._complete} of them so far>"

    def _up_to(self, place: int) -> Iterator[int]:
        """Recognise until a recording is complete; what comes before it is recognised on the way."""
        while self._complete <= place:
            complete = next(self._rest, None)
            if complete is None:  # an error ended it while another recording was recognised
                raise FewerError("the transcription was stopped; start it again")
            self._complete = complete
            yield complete


class NBestLists:
    """The N-best lists of a set in the order of its manifest; those of a file are read one at a time.

    Iterate over it: each item has `id`, `ref`, `speaker` and `hypotheses`, best first, with text and scores.
    """

    def __init__(self, path: Path, count: int, lists: list[NBest] | None = None):
        """lists: what the file holds, if it does not stay."""
        self.path = None if lists is not None else path
        if lists is not None:
            self.__dict__["header"] = read_header(path)
        self._count, self._lists, self._path = count, lists, path

    @cached_property
    def header(self) -> Header:
        """Terms, scales, length policy."""
        return read_header(self._path)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[NBest]:
        return iter(self._lists) if self._lists is not None else read_nbest(self._path)

    def __repr__(self) -> str:
        where = "" if self.path is None else f" in {self.path}"
        return f"<NBestLists of {self._count} utterances{where}>"


@dataclass(frozen=True)
class TextScores:
    """What recogniser and language models say of a text that is given: natural logarithms, summed over its tokens."""

    scores: dict[str, float]  # of each term by itself: "aed", "lm", "ilm", …
    total: float  # Σ scale · score
    score: float  # what the search would rank it by: the total under the length policy
    tokens: int  # the end counted
