"""Words with times, and how a text is divided into them, in scripts with and without blanks."""

import re
from dataclasses import dataclass
from typing import Any

LONGEST = 42  # characters of what counts as one word: more do not fit into a subtitle's line
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
    return [part for word in words for part in (word if len(word.strip()) > LONGEST else [word])]
