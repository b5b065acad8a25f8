"""Dividing a set into parts by speaker, so that no speaker is in two of them."""

import re
from dataclasses import dataclass

from fewer.errors import FewerError


@dataclass(frozen=True)
class Split:
    """`dev-clean=tune:20,report`: the first 20 speakers of dev-clean are the set tune, the others report."""

    whole: str  # the set that is divided
    parts: tuple[tuple[str, int | None], ...]  # name and number of speakers; None: all that are left

    @staticmethod
    def parse(text: str) -> "Split":
        name, _, parts = text.partition("=")
        pairs = [re.fullmatch(r"([^\s:/]+)(?::([1-9]\d*))?", part) for part in parts.split(",")]
        if not name or any(pair is None for pair in pairs):
            raise FewerError(f"--split {text}: write it as SET=PART:SPEAKERS,PART, such as dev-clean=tune:20,report")
        counts = tuple((pair[1], int(pair[2]) if pair[2] else None) for pair in pairs if pair)
        if any(count is None for _, count in counts[:-1]) or len({name, *dict(counts)}) != len(counts) + 1:
            raise FewerError(
                f"--split {text}: every part needs a name of its own, and all but the last a number of speakers"
            )
        return Split(name, counts)

    def assign(self, speakers: set[str]) -> dict[str, str]:
        """Speaker -> part. Speakers are sorted, numbers by their value."""
        ordered = sorted(speakers, key=by_number)
        wanted = sum(count or 1 for _, count in self.parts)
        if wanted > len(ordered):
            raise FewerError(f"--split: {self.whole} has {len(ordered)} speakers, but the parts need at least {wanted}")
        assigned: dict[str, str] = {}
        for name, count in self.parts:
            first = len(assigned)
            last = len(ordered) if count is None else first + count
            assigned |= dict.fromkeys(ordered[first:last], name)
        return assigned


def by_number(text: str) -> list[tuple[int, str]]:
    """A key that sorts 84 before 1272 and sw02 before sw010."""
    pieces = re.split(r"(\d+)", text)
    return [(int(piece) if piece.isdigit() else -1, piece) for piece in pieces]
