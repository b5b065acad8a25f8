"""The word-level model over labels against a slow one that keeps strings."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.models.lm import LmScorer
from fewer.models.ngram import NGram
from fewer.models.word_ngram import Piece, WordNGram, WordNGramConfig
from tests.models.test_ngram import CountOperations, random_ngrams

WORDS = [b"", b"", b"a", b"ab", b"abc", b"ba", b"c", b"\xc3\xa9"]  # </s>, <unk>, then words
START_MARKED = [
    Piece(b""),
    Piece(b"a", starts=True),
    Piece(b"ab", starts=True),
    Piece(b"c", starts=True),
    Piece(b"", starts=True),
    Piece(b"a"),
    Piece(b"b"),
    Piece(b"c"),
    Piece(b"bc"),
    Piece(b"\xc3"),
    Piece(b"\xa9"),
    Piece(b""),
    Piece(b"A-Z", starts=True),
]
END_MARKED = [
    Piece(b""),
    *(Piece(text, False, ends) for text in (b"a", b"b", b"c", b"bc", b"x") for ends in (True, False)),
]


class Slow:
    """Φ(labels) = log P of the finished words + L of the unfinished one; a label scores what it adds to Φ."""

    def __init__(self, model: NGram, pieces: Sequence[Piece], unknown: int | None, config: WordNGramConfig):
        self.model, self.pieces, self.unknown, self.config = model, pieces, unknown, config
        self.unigrams = {w: math.exp(model.node_log_probs[1 + i].item()) for i, w in enumerate(WORDS) if w}
        self.words = {word: i for i, word in enumerate(WORDS) if word}

    def split(self, labels: Sequence[int]) -> tuple[list[bytes], bytes]:
        """The finished words and the unfinished one."""
        words, closed = [b""], False
        for label in labels:
            piece = self.pieces[label]
            if piece.starts or closed:
                words.append(b"")
            words[-1] += piece.text
            closed = piece.ends
        if closed:
            words.append(b"")
        return [word for word in words[:-1] if word], words[-1]

    def log_prob(self, history: Sequence[bytes], word: bytes | None) -> float:
        """log P(word | history), None: the end."""
        state = self.model.start(1)
        for before in history:
            id = self.words.get(before, self.unknown)
            state = torch.zeros_like(state) if id is None else self.model.read(state, torch.tensor([id]))[1]
        if word is not None and word not in self.words and self.config.unknown is not None:
            return self.config.unknown
        id = self.model.end if word is None else self.words.get(word, self.unknown)
        return self.model.read(state, torch.tensor([id]))[0].item()

    def ahead(self, word: bytes) -> float:
        below = [p for other, p in self.unigrams.items() if other.startswith(word)]
        if not word:
            return 0.0
        if below:
            return math.log(max(below) if self.config.lookahead == "max" else sum(below))
        if self.config.unknown is not None:
            return self.config.unknown
        return self.model.node_log_probs[1 + self.unknown].item()

    def potential(self, labels: Sequence[int], ended: bool = False) -> float:
        words, rest = self.split(labels)
        if ended:
            words = [*words, *([rest] if rest else [])]
        total = sum(self.log_prob(words[:i], word) for i, word in enumerate(words))
        return total + (self.log_prob(words, None) if ended else self.ahead(rest))

    def scores(self, labels: Sequence[int]) -> list[float]:
        """Of every label after these. A label that ends its word is paid its end when the next one comes."""
        before = self.paid(labels)
        return [self.potential(labels, True) - before] + [
            self.paid([*labels, label]) - before for label in range(1, len(self.pieces))
        ]

    def paid(self, labels: Sequence[int]) -> float:
        if labels and self.pieces[labels[-1]].ends:
            words, _ = self.split(labels)
            return sum(self.log_prob(words[:i], word) for i, word in enumerate(words[:-1])) + self.ahead(words[-1])
        return self.potential(labels)


configs = st.builds(WordNGramConfig, lookahead=st.sampled_from(["max", "sum"]), unknown=st.sampled_from([-7.0, None]))


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([START_MARKED, END_MARKED]), configs, st.booleans(), st.data())
def test_every_label_scores_what_the_slow_model_says(
    seed: int, pieces: list[Piece], config: WordNGramConfig, has_unknown: bool, data: st.DataObject
) -> None:
    unknown = 1 if has_unknown or config.unknown is None else None
    model = NGram.from_ngrams(random_ngrams(seed, 3, len(WORDS)))
    fast, slow = WordNGram(model, WORDS, pieces, 0, unknown, config), Slow(model, pieces, unknown, config)
    label = st.integers(1, len(pieces) - 1)
    rows = data.draw(st.lists(st.lists(label, min_size=5, max_size=5), min_size=1, max_size=3))
    log_probs = fast.log_probs(torch.tensor(rows))
    for row, found in zip(rows, log_probs, strict=True):
        expected = [slow.scores(row[:i]) for i in range(5)]
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.double), rtol=0, atol=1e-9)


@pytest.mark.parametrize("lookahead", ["max", "sum"])
def test_the_total_of_a_sentence_is_the_word_models_however_it_is_spelled(lookahead: str) -> None:
    model = NGram.from_ngrams(random_ngrams(5, 3, len(WORDS)))
    fast = WordNGram(model, WORDS, START_MARKED, 0, 1, WordNGramConfig(lookahead=lookahead))
    expected = model.score(torch.tensor([[4, 2, 4, 0]])).sum()  # abc a abc </s>
    for spelled in ([2, 7, 1, 1, 6, 7, 0], [1, 8, 1, 1, 8, 0], [1, 6, 7, 1, 4, 5, 8, 0]):
        torch.testing.assert_close(fast.score(torch.tensor([spelled])).sum(), expected)


def test_an_unknown_word_is_charged_when_it_leaves_the_trie() -> None:
    model = NGram.from_ngrams(random_ngrams(5, 2, len(WORDS)))
    fast = WordNGram(model, WORDS, START_MARKED, 0, None, WordNGramConfig(unknown=-20))
    scores = fast.score(torch.tensor([[1, 5, 5, 1, 6, 0]]))[0]  # aaa ab </s>
    assert scores[:2].sum().item() == pytest.approx(-20)
    assert scores[2].item() == 0
    empty = torch.zeros(1, dtype=torch.long)  # an unknown word leaves no history
    expected, state = model.read(empty, torch.tensor([3]))
    expected = expected + model.read(state, torch.tensor([0]))[0]
    assert scores[3:].sum().item() == pytest.approx(expected.item())


def test_a_model_without_unk_needs_a_score_for_unknown_words() -> None:
    model = NGram.from_ngrams(random_ngrams(5, 2, len(WORDS)))
    with pytest.raises(ValueError, match="no <unk>"):
        WordNGram(model, WORDS, START_MARKED)


def test_rows_do_not_see_each_other_and_can_be_reordered() -> None:
    model = NGram.from_ngrams(random_ngrams(5, 3, len(WORDS)))
    scorer = LmScorer(WordNGram(model, WORDS, START_MARKED, 0, 1))
    memory, state = scorer.start(range(3))
    _, state = scorer.step(memory, state, torch.tensor([-1, -1, -1]))
    _, state = scorer.step(memory, state, torch.tensor([1, 2, 3]))
    together, _ = scorer.step(memory, scorer.reorder(state, torch.tensor([2, 1, 1])), torch.tensor([1, 7, 3]))
    for row, labels in enumerate(([3, 1], [2, 7], [2, 3])):
        _, state = scorer.start(range(1))
        for label in (-1, *labels):
            alone, state = scorer.step(None, state, torch.tensor([label]))
        torch.testing.assert_close(together[:, row], alone[:, 0])


def test_the_number_of_operations_does_not_grow_with_the_rows() -> None:
    fast = WordNGram(NGram.from_ngrams(random_ngrams(5, 3, len(WORDS))), WORDS, START_MARKED, 0, 1)
    counts = []
    for rows in (1, 60):
        state = fast.start(rows)
        with CountOperations() as operations:
            fast.step(state, torch.ones(rows, dtype=torch.long))
        counts.append(operations.count)
    assert counts[0] == counts[1]
