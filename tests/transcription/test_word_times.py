"""Words from labels of any script, and their times from what is to be heard."""

from itertools import pairwise

import pytest
import torch

from fewer.transcription.subtitles import Cue, cues
from fewer.transcription.windows import sounds
from fewer.transcription.word_times import Span, spelled_words, within
from fewer.transcription.words import Word
from tests.data.sounds import noise
from tests.data.test_whisper_tokens import some_tokenizer

RATE = 8000


def spelled(text: str, leading_space: bool = True) -> tuple[list[str], list[Word]]:
    """The labels of a text, and its words if each label takes a second."""
    tokenizer = some_tokenizer(leading_space=leading_space)
    labels = tokenizer.encode(text)
    times = [(float(place), place + 1.0) for place in range(len(labels))]
    return [tokenizer.labels[label] for label in labels], spelled_words(labels, times, tokenizer.decode)


def spans(words: tuple[Word, ...] | list[Word]) -> list[tuple[str, float, float]]:
    return [(word.text, word.start, word.end) for word in words]


def test_words_have_the_times_of_their_labels() -> None:
    labels, words = spelled("the cat in a")
    assert labels == ["Ġthe", "Ġcat", "Ġ", "in", "Ġa"]
    assert spans(words) == [("the", 0, 1), (" cat", 1, 2), (" in", 2, 4), (" a", 4, 5)]
    assert spelled("")[1] == []


def test_punctuation_takes_no_time_unless_it_is_all_there_is() -> None:
    labels, words = spelled("“the” 5% cat. – a...")
    assert "".join(word.text for word in words) == "“the” 5% cat. – a..."
    times = {word.text.strip(): [labels[round(time)] for time in (word.start, word.end - 1)] for word in words}
    assert times["“the”"] == ["t", "he"]
    assert times["5%"] == ["Ġ", "%"]
    assert times["cat."] == ["Ġcat", "Ġcat"]
    assert times["a..."] == ["Ġa", "Ġa"]
    dash = next(word for word in words if word.text == " –")
    assert dash.end - dash.start == 4  # a blank and three bytes


def test_without_blanks_a_word_is_a_whole_character() -> None:
    labels, words = spelled("今天很好，「你」說a b。", leading_space=False)
    assert len(labels) > len(words)
    assert [word.text for word in words] == ["今", "天", "很", "好，", "「你」", "說", "a", " b。"]
    assert spans(words)[:4] == [("今", 0, 3), ("天", 3, 6), ("很", 6, 9), ("好，", 9, 12)]
    assert [word.text for word in spelled("ที่นี่ ดี", leading_space=False)[1]] == ["ที่", "นี่", " ดี"]


def test_bytes_that_are_no_character_are_kept() -> None:
    tokenizer = some_tokenizer()
    first, second, _ = tokenizer.encode("天")[-3:]
    labels = [*tokenizer.encode("a"), first, second, *tokenizer.encode("cat"), first]
    words = spelled_words(labels, [(float(place), place + 1.0) for place in range(len(labels))], tokenizer.decode)
    assert spans(words) == [("a\ufffd", 0, 2), (" cat\ufffd", 2, 5)]
    assert "".join(word.text for word in words) == tokenizer.decode(labels)


def test_a_chinese_sentence_with_a_pause_makes_two_subtitles() -> None:
    tokenizer = some_tokenizer(leading_space=False)
    labels = tokenizer.encode("今天，很好。")
    starts = [*(0.1 * place for place in range(6)), *[0.6] * 3, *(3.7 + 0.1 * place for place in range(10))]
    times = list(pairwise(starts))  # the comma has the pause
    words = within(spelled_words(labels, times, tokenizer.decode), [(0.0, 0.65), (3.5, 4.5)])
    assert cues([words]) == [Cue(0.0, 1.0, "今天，"), Cue(3.5, 4.5, "很好。")]


HEARD = [(1.0, 2.0), (5.0, 7.0)]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([(0.0, 1.4), (1.4, 4.0)], [(1.0, 1.4), (1.4, 2.0)]),  # pauses at both ends
        ([(1.0, 1.4), (1.4, 5.5), (5.5, 7.0)], [(1.0, 1.4), (1.4, 2.0), (5.0, 7.0)]),  # the longer part of it
        ([(1.0, 1.8), (1.9, 5.6), (5.6, 7.0)], [(1.0, 2.0), (5.0, 5.6), (5.6, 7.0)]),
        ([(1.2, 1.8), (5.4, 5.4), (5.4, 6.5)], [(1.0, 2.0), (5.0, 5.4), (5.4, 7.0)]),  # sounds are filled, …
        ([(6.2, 6.4), (6.4, 6.5)], [(6.2, 6.4), (6.4, 7.0)]),  # … but for what is far from their edges
        ([(0.0, 0.5), (0.5, 1.5), (3.0, 3.5), (8.0, 9.0)], [(1.0, 1.0), (1.0, 2.0), (3.0, 3.5), (7.0, 7.0)]),
        ([], []),
    ],
)
def test_words_are_where_something_is_to_be_heard(given: list[Span], found: list[Span]) -> None:
    words = within([Word(" a", *span) for span in given], HEARD)
    assert [(word.start, word.end) for word in words] == found


@pytest.mark.parametrize("level", [0.0, 1e-4, 3e-3])
def test_in_faint_noise_a_pause_is_no_part_of_a_word(level: float) -> None:
    samples = torch.from_numpy(noise(10, RATE, seed=1, level=level))
    for start, end in HEARD:
        part = slice(round(start * RATE), round(end * RATE))
        samples[part] += torch.from_numpy(noise(end - start, RATE))
    heard = [(first / RATE, last / RATE) for first, last in sounds(samples, RATE)]
    words = within([Word("One", 0.0, 1.5), Word(" two", 1.5, 5.2), Word(" three", 5.2, 10.0)], heard)
    (first, second) = cues([words])
    assert (first.text, second.text) == ("One two", "three")
    assert [first.start, first.end, second.start, second.end] == pytest.approx([1, 2, 5, 7], abs=0.03)
