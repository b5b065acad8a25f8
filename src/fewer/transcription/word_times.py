"""When each word was said: from the times of the labels that spell it, and from what is to be heard."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace

from fewer.transcription.words import Word, split_words

REACH = 1.0  # seconds by which labels may miss where a sound begins or ends
SPOKEN = "%&@#"  # signs of punctuation that are said

Span = tuple[float, float]  # seconds


def spelled_words(labels: Sequence[int], times: Sequence[Span], decode: Callable[[Sequence[int]], str]) -> list[Word]:
    """The words that labels spell, divided between labels only. times: of each label.

    Punctuation is not said: an aligner gives it the pauses.
    """
    text = decode(labels)
    breaks, offset = set[int](), 0
    for part in split_words(text):
        breaks.add(offset)
        offset += len(part)
    groups = list[list[tuple[str, Span]]]()
    done = first = 0  # characters, and the label after those that spell them
    for last in range(len(labels)):
        known = decode(labels[: last + 1])
        if len(known) == done or not text.startswith(known):  # the last character is not complete
            continue
        if done in breaks:
            groups.append([])
        groups[-1].append((known[done:], (times[first][0], times[last][1])))
        done, first = len(known), last + 1
    return [_word(group) for group in groups]


def within(words: Sequence[Word], sounds: Sequence[Span]) -> tuple[Word, ...]:
    """Words within what is to be heard: each in the sound that has most of it, and a sound's words all through it.

    A word that is said in no sound keeps its time, if that is not before or after all sounds.
    """
    places = [_place(word, sounds) for word in words]
    clipped = list[Word]()
    for number, (word, place) in enumerate(zip(words, places, strict=True)):
        start, end = (sounds[0][0], sounds[-1][1]) if place is None else sounds[place]
        opens = place is not None and place not in places[:number] and word.start - start <= REACH
        closes = place is not None and place not in places[number + 1 :] and end - word.end <= REACH
        begins = start if opens else min(max(word.start, start), end)
        clipped.append(replace(word, start=begins, end=end if closes else max(begins, min(word.end, end))))
    return tuple(clipped)


def _word(group: Sequence[tuple[str, Span]]) -> Word:
    said = [span for text, span in group if any(map(_is_said, text))] or [span for _, span in group]
    return Word("".join(text for text, _ in group), said[0][0], said[-1][1])


def _is_said(character: str) -> bool:
    return character in SPOKEN or unicodedata.category(character)[0] not in "PZ"


def _place(word: Word, sounds: Sequence[Span]) -> int | None:
    """The sound that a word shares the longest time with; None if it shares none."""
    shared = [min(word.end, end) - max(word.start, start) for start, end in sounds]
    longest = max(shared)
    return shared.index(longest) if longest >= 0 else None
