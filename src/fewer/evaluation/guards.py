"""What makes a number look better than it is, found and said.

Two guards: a result on the set its scales were tuned on, and language-model text that contains the test transcripts.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

MIN_WORDS = 4  # transcripts shorter than this are found in any text
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


def tuned_on_itself(tuned: UtteranceSet | None, scored: UtteranceSet) -> bool:
    """Whether the scales of a result come from the very set it is scored on: the same utterances or the same name."""
    return tuned is not None and (tuned.fingerprint == scored.fingerprint or tuned.name == scored.name)


@dataclass(frozen=True)
class Overlap:
    """Test transcripts that stand in the text a language model was trained on."""

    count: int  # utterances whose whole transcript is a line of the text
    utterances: int  # looked for: those with at least MIN_WORDS words
    examples: tuple[str, ...] = ()  # ids of the first few

    def __str__(self) -> str:
        return f"{self.count} of {self.utterances} test transcripts are in the language model's text"


def text_overlap(refs: Mapping[str, str], lines: Iterable[str], normalise: Callable[[str], str] = str) -> Overlap:
    """Look for whole transcripts among the lines of a text of any length; memory grows with the transcripts alone.

    Texts are compared by their words in lower case, after `normalise`. Very short transcripts ("yes", "oh no") are in
    any text by chance and do not count.
    """
    wanted: dict[str, list[str]] = {}
    for utterance, ref in refs.items():
        words = normalise(ref).lower().split()
        if len(words) >= MIN_WORDS:
            wanted.setdefault(" ".join(words), []).append(utterance)
    found: list[str] = []
    utterances = sum(len(ids) for ids in wanted.values())
    for line in lines:
        if not wanted:
            break
        found += wanted.pop(" ".join(normalise(line).lower().split()), [])
    return Overlap(len(found), utterances, tuple(found[:EXAMPLES]))
