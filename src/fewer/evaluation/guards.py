"""What makes a number look better than it is, found and said.

Two guards: a result on the set its scales were tuned on, and language-model text that contains the test transcripts.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

WHOLE_LINE = 4  # words a transcript needs so that a whole line equal to it is no chance
ANYWHERE = 8  # words it needs to be looked for inside lines too
BUFFER = 100_000  # words searched at a time
EXAMPLES = 5


def utterances_fingerprint(ids: Iterable[str]) -> str:
    """16 hex digits that name a set of utterances, whatever their order."""
    digest = hashlib.sha256()
    for utterance in sorted(set(ids)):
        digest.update(utterance.encode() + b"\0")
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class UtteranceSet:
    """A set of utterances by name and content."""

    name: str
    fingerprint: str  # of its utterance ids

    @classmethod
    def of(cls, name: str, ids: Iterable[str]) -> "UtteranceSet":
        return cls(name, utterances_fingerprint(ids))


@dataclass(frozen=True)
class Overlap:
    """Test transcripts that stand in the text a language model was trained on."""

    count: int  # utterances whose transcript is in the text
    utterances: int  # how many were looked for; very short ones are in any text and are not
    examples: tuple[str, ...] = ()  # ids of the first few found

    def __str__(self) -> str:
        return f"{self.count} of {self.utterances} test transcripts are in the language model's text"


def text_overlap(refs: Mapping[str, str], lines: Iterable[str]) -> Overlap:
    """Look for transcripts in a text of any length; memory grows with the transcripts alone.

    A transcript of at least WHOLE_LINE words is found as a whole line, one of at least ANYWHERE words also inside
    lines and across their ends. Letter case and punctuation do not count.
    """
    whole: dict[str, list[str]] = {}
    for utterance, ref in refs.items():
        words = _words(ref)
        if len(words) >= WHOLE_LINE:
            whole.setdefault(" ".join(words), []).append(utterance)
    looked_for = sum(len(ids) for ids in whole.values())
    inside = _Finder(text for text in whole if text.count(" ") >= ANYWHERE - 1)
    found: set[str] = set()
    for line in lines:
        words = _words(line)
        text = " ".join(words)
        if text in whole:
            found.add(text)
        found.update(inside.feed(words))
    found.update(inside.finish())
    ids = [utterance for text, those in whole.items() if text in found for utterance in those]
    return Overlap(len(ids), looked_for, tuple(ids[:EXAMPLES]))


def _words(text: str) -> list[str]:
    return re.sub(r"[^\w']+", " ", text.casefold()).split()


class _Finder:
    """Finds word sequences in a stream of words, a buffer at a time."""

    def __init__(self, texts: Iterable[str]):
        self.by_start: dict[str, list[list[str]]] = {}  # the first ANYWHERE words -> the sequences that start so
        self.first_words: set[str] = set()
        self.longest = 0
        self.buffer: list[str] = []
        for words in map(str.split, texts):
            self.by_start.setdefault(" ".join(words[:ANYWHERE]), []).append(words)
            self.first_words.add(words[0])
            self.longest = max(self.longest, len(words))

    def feed(self, words: list[str]) -> list[str]:
        """What is found in the stream up to here, looked for now and then."""
        if not self.by_start:
            return []
        self.buffer += words
        if len(self.buffer) < BUFFER + self.longest:
            return []
        found = self.search(len(self.buffer) - self.longest)
        self.buffer = self.buffer[-self.longest :]
        return found

    def finish(self) -> list[str]:
        """What is found in the rest of the stream."""
        found = self.search(len(self.buffer))
        self.buffer = []
        return found

    def search(self, end: int) -> list[str]:
        """Sequences that start before place `end` of the buffer."""
        buffer, found = self.buffer, []
        for place in [place for place, word in enumerate(buffer[:end]) if word in self.first_words]:
            for words in self.by_start.get(" ".join(buffer[place : place + ANYWHERE]), ()):
                if buffer[place : place + len(words)] == words:
                    found.append(" ".join(words))
        return found
