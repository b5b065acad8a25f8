"""Ordinary speech, made on the spot: what an adaptation does to it where the user has no general set.

Synthetic voices are not people. What is looked for is harm that nobody would want: a recogniser that no longer
understands everyday sentences, because its language models are too strong or too far from them.
"""

import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from fewer.data.synthesis.spoken import speak_set

WORK = 30.0  # seconds that the look may take
FEWEST = 5  # sentences that say anything
PASSES = 2.5  # times that a sentence is heard alone: with and without language models, and these cost something


def everyday() -> list[str]:
    """Sentences of everyday life, in English."""
    text = resources.files("fewer.adaptation").joinpath("everyday.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def ordinary_speech(folder: Path, recognise: Callable[[Path], object], work: float = WORK) -> Path | None:
    """A manifest of as many spoken sentences as there is time for; None if those are too few.

    recognise: does so with a manifest, without language models. It is called twice with one sentence, to see how long
    that takes; the first call also loads what later ones use.
    """
    sentences = everyday()
    one = speak_set(sentences[:1], folder / "one-sentence.jsonl")
    began = time.monotonic()
    recognise(one)
    again = time.monotonic()
    recognise(one)
    now = time.monotonic()
    count = int((work - (now - began)) / max(PASSES * (now - again), 1e-3))
    return speak_set(sentences[:count], folder / "ordinary-speech.jsonl") if count >= FEWEST else None
