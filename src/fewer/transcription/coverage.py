"""Whether a hypothesis accounts for what is to be heard: a search may skip speech, and its score does not tell.

An aligner gives every stretch of the audio to some label. Where speech was skipped, a label next to the gap gets it
all. So sound that falls to one label beyond what one can last, and sound after the last label, was not transcribed.
"""

from collections.abc import Sequence

LONGEST = 0.8  # seconds of sound that one label covers at most
DOUBTFUL = 1.0  # seconds of sound that are not covered, from which on a hypothesis is doubtful
BETTER = 0.5  # seconds that another hypothesis must cover in addition, to be taken instead

Span = tuple[float, float]  # seconds


def uncovered(times: Sequence[Span], sounds: Sequence[Span], longest: float = LONGEST) -> float:
    """Seconds of sound that no label accounts for. times: of the labels, in order; each ends where the next begins."""
    return sum(max(0.0, _shared(span, sounds) - longest) for span in _spans(times, sounds))


def largest_gap(times: Sequence[Span], sounds: Sequence[Span]) -> Span:
    """The stretch that one label, or none, got, and in which most is to be heard."""
    return max(_spans(times, sounds), key=lambda span: _shared(span, sounds))


def _spans(times: Sequence[Span], sounds: Sequence[Span]) -> list[Span]:
    """What each label got, and what is behind the last."""
    end = max((last for _, last in sounds), default=0.0)
    behind = times[-1][1] if times else 0.0
    return [*times, (behind, end)]


def _shared(span: Span, sounds: Sequence[Span]) -> float:
    return sum(max(0.0, min(span[1], end) - max(span[0], start)) for start, end in sounds)
