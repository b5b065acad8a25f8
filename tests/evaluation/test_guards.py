"""What makes numbers look better than they are."""

import random

import pytest

from fewer.evaluation import guards
from fewer.evaluation.guards import text_overlap, utterances_fingerprint


def test_a_fingerprint_names_the_utterances_not_their_order() -> None:
    assert utterances_fingerprint(["b", "a"]) == utterances_fingerprint(["a", "b"])
    assert utterances_fingerprint(["ab", "c"]) != utterances_fingerprint(["a", "bc"])


REFS = {
    "u1": "IT WAS THE BEST OF TIMES IT WAS THE WORST OF TIMES",
    "u2": "call me ishmael please",
    "u3": "yes",
    "u4": "nobody ever wrote this sentence before today i think",
    "u5": "call me ishmael please",
}


def test_whole_lines_are_found_whatever_their_case_and_punctuation() -> None:
    overlap = text_overlap(REFS, ["Yes.", "Call me Ishmael, please!", "and call me ishmael please again"])
    assert (overlap.count, overlap.utterances, overlap.examples) == (2, 4, ("u2", "u5"))
    assert str(overlap) == "2 of 4 test transcripts are in the language model's text"


def test_long_transcripts_are_found_inside_and_across_lines() -> None:
    lines = ["Chapter I. It was the best of times,", "it was the", "worst of times; it was the age of wisdom"]
    assert text_overlap(REFS, lines).examples == ("u1",)
    assert text_overlap(REFS, lines[:2]).count == 0


def test_short_ones_inside_other_lines_are_chance() -> None:
    assert text_overlap(REFS, ["please call me ishmael please and thank you"]).count == 0


def test_a_text_without_the_transcripts_has_no_overlap() -> None:
    assert text_overlap(REFS, ["something else entirely"]).count == 0
    assert text_overlap({}, ["something"]).utterances == 0


@pytest.mark.parametrize("buffer", [1, 7, 1000])
def test_what_is_found_is_what_a_plain_search_finds(monkeypatch: pytest.MonkeyPatch, buffer: int) -> None:
    monkeypatch.setattr(guards, "BUFFER", buffer)
    rng = random.Random(buffer)
    stream = [rng.choice("abcdefghijkl") for _ in range(400)]
    refs = {}
    for i in range(40):
        start, length = rng.randrange(380), rng.randint(8, 20)
        words = stream[start : start + length]
        if i % 2 and words:
            words[rng.randrange(len(words))] = "zz"
        refs[str(i)] = " ".join(words)
    lines, rest = [], list(stream)
    while rest:
        cut = rng.randint(1, 30)
        lines.append(" ".join(rest[:cut]))
        rest = rest[cut:]
    text = f" {' '.join(stream)} "
    expected = [i for i, ref in refs.items() if len(ref.split()) >= 8 and f" {ref} " in text]
    found = text_overlap(refs, lines)
    assert found.count == len(expected) > 0
    assert found.examples == tuple(expected[:5])
