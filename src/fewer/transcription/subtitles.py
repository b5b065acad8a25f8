"""Subtitles: words divided into cues of one or two lines, so that they can be read while they are heard.

Every way to divide the words has a cost: of each cue, of ending one within a sentence or a clause, of a cue that goes
on after the end of a sentence, of a word or two by themselves, of too little time. The cheapest way is taken.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from fewer.transcription.words import BLANKLESS, LONGEST, Word

LINE = LONGEST  # characters of a line
GAP = 1.0  # seconds without a word, over which no cue lasts
SHORTEST, LONGEST_CUE, LEAST = 1.0, 7.0, 0.1  # seconds of a cue: if there is room for it; at most; in any case
READ = 17.0  # characters a second: a cue stays so long if there is room
SHORT = 20  # characters of a sentence that may share its cue with the next one
ORPHAN = 12  # characters of a part of a sentence that are too few by themselves

WITHIN, AFTER_CLAUSE = 1.0, 0.4  # costs of ending a cue inside a sentence, where a cue itself costs 1
ANOTHER, ALONE, HASTE = 1.5, 1.5, 2.0  # of a further sentence, of an orphan, of each second that SHORTEST lacks

SENTENCE_END = re.compile(r"[.?!…。？！]['\"”’)»]*$")
CLAUSE_END = re.compile(r"[,;:–—，、；：]['\"”’)»]*$")
# What is written with a point in the middle of a sentence: titles before names and initials always, others if the next
# word is not capitalised.
TITLE = re.compile(r"\W*(?:Mr|Mrs|Ms|Mx|Dr|Prof|St|Mt|Lt|Col|Gen|Maj|Capt|Sgt|Rev|Hon|Gov|Sen|Rep|Messrs|[A-Z])\.$")
SHORTENED = re.compile(
    r"\W*(?:etc|vs|e\.g|i\.e|cf|al|approx|ca|dept|est|fig|nos?|vol|pp?|jr|sr|inc|ltd|co|corp|a\.m|p\.m|U\.S)\.$", re.I
)


@dataclass(frozen=True)
class Cue:
    """A subtitle."""

    start: float  # seconds
    end: float
    text: str  # of one or two lines


def subtitles(segments: Sequence[Sequence[Word]], output: Literal["srt", "vtt"]) -> str:
    """SRT or WebVTT, of the words of each segment."""
    mark = "," if output == "srt" else "."
    parts = ["WEBVTT\n"] if output == "vtt" else []
    for number, cue in enumerate(cues(segments), start=1):
        times = f"{clock(cue.start, mark)} --> {clock(cue.end, mark)}"
        text = cue.text if output == "srt" else cue.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        parts.append(f"{number}\n{times}\n{text}\n")
    return "\n".join(parts)


def cues(segments: Sequence[Sequence[Word]]) -> list[Cue]:
    """A sentence may begin in one segment and end in the next."""
    found: list[Cue] = []
    for run in _runs(_spaced(segments)):
        found += [_cue(group) for group in _divided(run)]
    return _readable(found)


def lines(text: str) -> list[str]:
    """Text in two lines as equal as can be, or in one if it fits."""
    if len(text) <= LINE:
        return [text]
    breaks = [place.start() for place in re.finditer(" ", text)] or [len(text) // 2]
    middle = min(breaks, key=lambda place: max(place, len(text) - place))
    return [text[:middle].rstrip(), text[middle:].strip()]


def ends_sentence(word: str, following: str) -> bool:
    """Whether a sentence ends with a word."""
    word, following = word.strip(), following.strip()
    if SENTENCE_END.search(word) is None or TITLE.match(word):
        return False
    return not (SHORTENED.match(word) and following[:1].islower())


def _spaced(segments: Sequence[Sequence[Word]]) -> list[Word]:
    """All words; the first of a segment gets the blank that it lacks."""
    words: list[Word] = []
    for segment in segments:
        for number, word in enumerate(segment):
            lacks = number == 0 and words and not word.text[:1].isspace() and not re.match(f"[{BLANKLESS}]", word.text)
            words.append(replace(word, text=" " + word.text) if lacks else word)
    return words


def _runs(words: Sequence[Word]) -> Iterator[list[Word]]:
    """Words without a long gap between them."""
    run: list[Word] = []
    for word in words:
        if run and word.start - run[-1].end > GAP:
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def _divided(words: Sequence[Word]) -> list[Sequence[Word]]:
    """The cheapest way to divide a run into cues."""
    count = len(words)
    nexts = [word.text for word in words[1:]] + [""]
    ends = [ends_sentence(word.text, following) for word, following in zip(words, nexts, strict=True)]
    best: list[tuple[float, int]] = [(0.0, 0)]  # of the first words: the cost, and where the last cue begins
    for stop in range(1, count + 1):
        ways = []
        for start in range(stop - 1, -1, -1):
            group = words[start:stop]
            if len(group) > 1 and not _fits(group):
                break
            after = words[stop].start if stop < count else words[-1].end + GAP
            ways.append((best[start][0] + _cost(group, ends[start:stop], start == 0 or ends[start - 1], after), start))
        best.append(min(ways))
    found, stop = [], count
    while stop:
        start = best[stop][1]
        found.append(words[start:stop])
        stop = start
    return found[::-1]


def _fits(group: Sequence[Word]) -> bool:
    return group[-1].end - group[0].start <= LONGEST_CUE and all(len(line) <= LINE for line in lines(_joined(group)))


def _cost(group: Sequence[Word], ends: Sequence[bool], opens: bool, after: float) -> float:
    """Of a cue. ends: which words end a sentence. opens: it begins one. after: when the next word begins."""
    text, cost = _joined(group), 1.0
    whole = opens and ends[-1]
    if not ends[-1]:
        cost += AFTER_CLAUSE if CLAUSE_END.search(text) else WITHIN
    length = 0  # of the sentence so far
    for word, end in zip(group[:-1], ends, strict=False):
        length += len(word.text)
        if end:
            cost += ANOTHER if length >= SHORT or not opens else 0.0
            length, opens = 0, True
    if len(text) < ORPHAN and not whole:
        cost += ALONE
    return cost + HASTE * max(0.0, SHORTEST - (after - group[0].start))


def _cue(group: Sequence[Word]) -> Cue:
    return Cue(group[0].start, group[-1].end, "\n".join(lines(_joined(group))))


def _readable(found: Sequence[Cue]) -> list[Cue]:
    """With time to read them where there is room, none without any, and none before the one before it has gone."""
    times: list[Cue] = []
    for cue, following in pairwise([*found, None]):
        assert cue is not None
        start = max(cue.start, times[-1].end if times else 0.0)
        wanted = max(cue.end, start + max(SHORTEST, len(cue.text) / READ))
        room = wanted if following is None else following.start
        end = min(wanted, start + LONGEST_CUE, max(room, start + LEAST))
        times.append(replace(cue, start=start, end=end))
    return times


def _joined(group: Sequence[Word]) -> str:
    return "".join(word.text for word in group).strip()


def clock(seconds: float, mark: str = ".") -> str:
    """Hours, minutes, seconds and milliseconds."""
    thousandths = round(seconds * 1000)
    minutes, thousandths = divmod(thousandths, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{thousandths // 1000:02}{mark}{thousandths % 1000:03}"
