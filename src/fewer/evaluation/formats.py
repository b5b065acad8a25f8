"""Transcript files: NIST's trn, stm and ctm (as sclite reads them), and Kaldi's text and utt2spk.

    trn   she had your dark suit (84-121123-0000)
    stm   en_4156 A en_4156_A 301.85 302.48 <O,en,F> oh yeah
    ctm   en_4156 A 301.90 0.25 oh 0.98
    text  84-121123-0000 she had your dark suit

Lines that start with ;; are comments in NIST's files. Every complaint names file and line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fewer.config import shown
from fewer.data.lines import read_lines
from fewer.errors import FewerError
from fewer.files import atomic_write

IGNORED = "IGNORE_TIME_SEGMENT_IN_SCORING"  # the transcript of a stretch of time that is not scored


@dataclass(frozen=True)
class Segment:
    """A stretch of one channel that somebody transcribed: a line of an stm file."""

    file: str
    channel: str
    speaker: str
    start: float  # seconds
    end: float
    text: str
    label: str = ""  # of subsets, such as <O,en,F>

    @property
    def ignored(self) -> bool:
        return IGNORED in self.text.upper()


@dataclass(frozen=True)
class Word:
    """A recognised word with its time: a line of a ctm file. `text` may be a group `{ a / b c }` of alternatives."""

    file: str
    channel: str
    start: float  # seconds
    duration: float
    text: str
    confidence: float | None = None

    @property
    def middle(self) -> float:
        return self.start + self.duration / 2


def read_trn(path: str | Path) -> dict[str, str]:
    """Texts by utterance id."""
    texts: dict[str, str] = {}
    for number, line in _nist_lines(path):
        match = re.fullmatch(r"(.*)\(([^()]*)\)", line)
        if match is None or not match[2].strip():
            raise FewerError(f"{path}, line {number}: expected 'words (utterance-id)', found {shown(line)}")
        _add(texts, match[2].strip(), match[1], path, number)
    return texts


def write_trn(path: str | Path, texts: Mapping[str, str], speakers: Mapping[str, str] | None = None) -> None:
    """One line an utterance. With `speakers`, an id that does not start with its speaker gets it in front: sclite
    takes what precedes the first - or _ for the speaker (its options -i rm and -i spu_id)."""
    with atomic_write(path) as stream:
        for utterance, text in texts.items():
            if re.search(r"[()\s]", utterance):
                raise FewerError(
                    f"utterance id '{utterance}' cannot stand in a trn file: it has a space or parenthesis"
                )
            if speakers and trn_speaker(utterance) != speakers[utterance]:
                utterance = f"{speakers[utterance]}-{utterance}"
            print(f"{' '.join(text.split())} ({utterance})".lstrip(), file=stream)


def trn_speaker(utterance: str) -> str | None:
    """What sclite takes for the speaker of an utterance id: the part before the first - (or else _)."""
    for separator in "-_":
        if separator in utterance:
            return utterance.partition(separator)[0] or None
    return None


def read_text(path: str | Path) -> dict[str, str]:
    """Kaldi's text file: utterance id, then words."""
    texts: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split(maxsplit=1)
        if not fields:
            raise FewerError(f"{path}, line {number}: empty; expected 'utterance-id words'")
        _add(texts, fields[0], fields[1] if len(fields) > 1 else "", path, number)
    return texts


def read_speakers(path: str | Path) -> dict[str, str]:
    """Kaldi's utt2spk file: utterance id and speaker."""
    speakers: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split()
        if len(fields) != 2:
            raise FewerError(f"{path}, line {number}: expected 'utterance-id speaker', found {shown(line)}")
        _add(speakers, fields[0], fields[1], path, number)
    return speakers


def read_stm(path: str | Path) -> list[Segment]:
    """Segments in the order of file, channel and time, ignored ones among them."""
    segments: list[Segment] = []
    for number, line in _nist_lines(path):
        fields = line.split(maxsplit=5)
        if len(fields) < 5:
            raise FewerError(
                f"{path}, line {number}: expected 'file channel speaker start end [<label>] words', found {shown(line)}"
            )
        start, end = _seconds(fields[3], path, number), _seconds(fields[4], path, number)
        if end < start:
            raise FewerError(f"{path}, line {number}: the segment ends ({end}) before it starts ({start})")
        text = fields[5] if len(fields) > 5 else ""
        label = re.match(r"<\S*>", text)
        if label:
            text = text[label.end() :]
        words = " ".join(text.split())
        segments.append(Segment(fields[0], fields[1], fields[2], start, end, words, label[0] if label else ""))
    return sorted(segments, key=lambda segment: (segment.file, segment.channel, segment.start))


def write_stm(path: str | Path, segments: Iterable[Segment]) -> None:
    """Write segments, sorted as sclite wants them."""
    with atomic_write(path) as stream:
        for s in sorted(segments, key=lambda segment: (segment.file, segment.channel, segment.start)):
            fields = (s.file, s.channel, s.speaker, f"{s.start:.3f}", f"{s.end:.3f}", s.label, s.text)
            for name in fields[:3]:
                if not name or re.search(r"\s", name):
                    raise FewerError(f"'{name}' cannot stand in an stm file: names are not empty and have no spaces")
            print(" ".join(field for field in fields if field), file=stream)


def read_ctm(path: str | Path) -> list[Word]:
    """Words in the order of file, channel and time; <ALT_BEGIN> … <ALT> … <ALT_END> becomes one `{ … / … }`."""
    words: list[Word] = []
    group: list[list[Word]] | None = None  # the alternatives read so far
    for number, line in _nist_lines(path):
        fields = line.split()
        if len(fields) not in (5, 6):
            raise FewerError(
                f"{path}, line {number}: expected 'file channel start duration word [confidence]', found {shown(line)}"
            )
        tag = fields[4].upper()
        if tag == "<ALT_BEGIN>" and group is None:
            group = [[]]
        elif tag == "<ALT>" and group is not None:
            group.append([])
        elif tag == "<ALT_END>" and group is not None:
            words.append(_group_word(group, path, number))
            group = None
        elif tag in ("<ALT_BEGIN>", "<ALT>", "<ALT_END>"):
            raise FewerError(f"{path}, line {number}: {tag} out of place")
        else:
            start, duration = _seconds(fields[2], path, number), _seconds(fields[3], path, number)
            confidence = _confidence(fields[5], path, number) if len(fields) == 6 else None
            word = Word(fields[0], fields[1], start, duration, fields[4], confidence)
            (words if group is None else group[-1]).append(word)
    if group is not None:
        raise FewerError(f"{path}: <ALT_BEGIN> without <ALT_END> at the end of the file")
    return sorted(words, key=lambda word: (word.file, word.channel, word.start))


def _group_word(group: list[list[Word]], path: str | Path, number: int) -> Word:
    """One word for a group of alternatives; its time is that of the latest word in it, as sclite assigns it."""
    timed = [word for alternative in group for word in alternative]
    if not timed or len(group) < 2:
        raise FewerError(f"{path}, line {number}: a group of alternatives needs at least two, and a word in one")
    texts = [" ".join(word.text for word in alternative) or "@" for alternative in group]
    return replace(max(timed, key=lambda word: word.middle), text="{ " + " / ".join(texts) + " }")


def write_ctm(path: str | Path, words: Iterable[Word]) -> None:
    """Write words, sorted as sclite wants them; several words in one `text` share its time evenly."""
    with atomic_write(path) as stream:
        for word in sorted(words, key=lambda word: (word.file, word.channel, word.start)):
            alternatives = re.fullmatch(r"\{(.*)\}", word.text.strip())
            texts = alternatives[1].split("/") if alternatives else [word.text]
            if any(brace in text for text in texts for brace in "{}"):
                raise FewerError(f"nested alternatives cannot stand in a ctm file: {word.text}")
            prefix = f"{word.file} {word.channel}"
            for index, text in enumerate(texts):
                if alternatives:
                    print(prefix, "* *", "<ALT>" if index else "<ALT_BEGIN>", file=stream)
                for part in spread(text, word.file, word.channel, word.start, word.start + word.duration):
                    confidence = "" if word.confidence is None else f" {word.confidence:g}"
                    if part.text != "@":
                        print(f"{prefix} {part.start:.3f} {part.duration:.3f} {part.text}{confidence}", file=stream)
            if alternatives:
                print(prefix, "* * <ALT_END>", file=stream)


def spread(text: str, file: str, channel: str, start: float, end: float) -> list[Word]:
    """Words without times of their own, laid evenly over a stretch."""
    words = text.split()
    step = (end - start) / max(len(words), 1)
    return [Word(file, channel, start + index * step, step, word) for index, word in enumerate(words)]


def assign(words: Iterable[Word], segments: Iterable[Segment]) -> list[tuple[Segment, list[Word]]]:
    """Give each word to a segment of its channel by its middle, as sclite does.

    A word goes to the first segment that ends after its middle, and what comes after the last segment to the last.
    Ignored segments swallow their words and are left out. Files without words have segments without words.
    """
    channels: dict[tuple[str, str], list[Segment]] = {}
    for segment in segments:
        channels.setdefault((segment.file, segment.channel), []).append(segment)
    waiting: dict[tuple[str, str], list[Word]] = {channel: [] for channel in channels}
    for word in words:
        if (word.file, word.channel) not in waiting:
            raise FewerError(
                f"the ctm has words of file {word.file}, channel {word.channel}, but the stm has none of it"
            )
        waiting[word.file, word.channel].append(word)
    assigned: list[tuple[Segment, list[Word]]] = []
    for channel, theirs in channels.items():
        theirs = sorted(theirs, key=lambda segment: segment.start)
        left = sorted(waiting[channel], key=lambda word: word.start)
        first = 0
        for segment in theirs:
            last = first
            while last < len(left) and (segment is theirs[-1] or left[last].middle < segment.end):
                last += 1
            if not segment.ignored:
                assigned.append((segment, left[first:last]))
            first = last
    return assigned


def segment_ids(segments: Iterable[Segment]) -> Iterator[str]:
    """A name for each segment: file, channel and its number in the channel."""
    counts: dict[tuple[str, str], int] = {}
    for segment in segments:
        channel = (segment.file, segment.channel)
        counts[channel] = counts.get(channel, 0) + 1
        yield f"{segment.file}-{segment.channel}-{counts[channel]:04d}"


def _nist_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip() and not line.lstrip().startswith(";;"):
            yield number, line.strip()


def _add(texts: dict[str, str], utterance: str, text: str, path: str | Path, number: int) -> None:
    if utterance in texts:
        raise FewerError(f"{path}, line {number}: utterance {utterance} is there twice")
    texts[utterance] = " ".join(text.split())


def _seconds(field: str, path: str | Path, number: int) -> float:
    try:
        seconds = float(field)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise FewerError(f"{path}, line {number}: '{field:.40}' is not a time in seconds")
    return seconds


def _confidence(field: str, path: str | Path, number: int) -> float | None:
    if field.upper() == "NA":
        return None
    try:
        return float(field)
    except ValueError as error:
        raise FewerError(f"{path}, line {number}: '{field:.40}' is not a confidence") from error
