"""NIST's segment time marks: `file side speaker begin end [<labels>] words`, one segment per line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fewer.data.corpora.corpus import Problem
from fewer.data.corpora.places import numbered_lines, seconds

IGNORED = "ignore_time_segment"  # …_in_scoring
GAP = "inter_segment_gap"
LABELS = re.compile(r"<((?!(?:[be]_aside|unk|sil)>)[^<>\s]*)>\s*", re.IGNORECASE)
SIDES = {"A": "A", "B": "B", "1": "A", "2": "B"}  # both ways to write a side


@dataclass(frozen=True)
class StmSegment:
    recording: str
    side: str  # A or B
    speaker: str
    start: float  # seconds
    end: float  # seconds
    labels: str  # such as O,sw,F,sw-F; may be empty
    text: str
    where: str  # file and line

    @property
    def scored(self) -> bool:
        """Whether scoring looks at this segment."""
        return not self.text.lower().startswith(IGNORED) and self.speaker.lower() != GAP


def read_stm(path: Path) -> Iterator[StmSegment | Problem]:
    """The segments of a file; comments (;;) are left out."""
    for where, line in numbered_lines(path):
        if not line.startswith(";;"):
            yield _parse(where, line)


def _parse(where: str, line: str) -> StmSegment | Problem:
    fields = line.split(maxsplit=5)
    if len(fields) < 5:
        return Problem(where, f"expected `file side speaker begin end <labels> words`, found {line.strip()!r:.80}")
    recording, side, speaker, begin, end = fields[:5]
    if side.upper() not in SIDES:
        return Problem(where, f"side {side!r} is none of A, B, 1, 2")
    try:
        start, stop = seconds(begin), seconds(end)
    except ValueError:
        return Problem(where, f"times {begin!r} and {end!r} are not numbers")
    labels, text = "", fields[5].strip() if len(fields) == 6 else ""
    if match := LABELS.match(text):
        labels, text = match[1], text[match.end() :]
    return StmSegment(recording, SIDES[side.upper()], speaker, start, stop, labels, text, where)


def clean_stm(paths: list[Path]) -> Iterator[str]:
    """The lines for scoring tools: sides as A and B, without gaps, and without the slips that stop NIST's scripts."""
    for path in paths:
        for _, line in numbered_lines(path):
            fields = line.split(maxsplit=2)
            if not line.startswith(";;"):
                if len(fields) < 3 or GAP in fields[2].lower():
                    continue
                line = " ".join([fields[0], SIDES.get(fields[1].upper(), fields[1]), fields[2]])
                for slip, right in (("((", "("), ("<B_ASIDE>", ""), ("<E_ASIDE>", "")):
                    line = line.replace(slip, right)
            yield line.rstrip()
