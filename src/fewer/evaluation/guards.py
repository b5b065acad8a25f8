"""What makes a number look better than it is, found and said.

Two guards: a result on the set its scales were tuned on, and language-model text that contains the test transcripts.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


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
