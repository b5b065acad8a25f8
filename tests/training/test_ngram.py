"""Kneser-Ney estimation against arithmetic by hand and against a slow, literal implementation."""

import itertools
import math
from collections import Counter, defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.training.ngram import FALLBACK_DISCOUNTS, count_ngrams, discounts, estimate

END, A, B, C = 0, 1, 2, 3


def stream(sentences: list[list[int]], end: int = END) -> torch.Tensor:
    return torch.tensor([label for sentence in sentences for label in [*sentence, end]])


def test_a_bigram_model_computed_by_hand() -> None:
    """Text: `a b` and `a a b`; c is never seen.

    Bigrams: <s> a 2, a b 2, a a 1, b </s> 2. No count 3 or 4, so the discounts are the fall-back's 0.5 and 1.
    Unigrams by different predecessors: a 2 (<s>, a), b 1 (a), </s> 1 (b), c 0; together 4, likewise fall-back.
    """
    model = estimate(stream([[A, B], [A, A, B]]), order=2, vocab_size=4, dtype=torch.double)
    assert model.counts() == [4, 4]
    rest = (1 + 0.5 + 0.5) / 4 / 4  # γ() = 0.5, spread over four labels
    a, b, end, c = (2 - 1) / 4 + rest, (1 - 0.5) / 4 + rest, (1 - 0.5) / 4 + rest, rest
    assert (a, b, end, c) == (0.375, 0.25, 0.25, 0.125)
    gamma_start = 1 / 2  # Σ D = 1 over Σ c = 2
    gamma_a = (1 + 0.5) / 3
    gamma_b = 1 / 2
    after_start = [gamma_start * end, (2 - 1) / 2 + gamma_start * a, gamma_start * b, gamma_start * c]
    after_a = [gamma_a * end, (1 - 0.5) / 3 + gamma_a * a, (2 - 1) / 3 + gamma_a * b, gamma_a * c]
    after_b = [(2 - 1) / 2 + gamma_b * end, gamma_b * a, gamma_b * b, gamma_b * c]
    after_c = [end, a, b, c]
    for history, expected in ((A, after_a), (B, after_b), (C, after_c)):
        probs = model.log_probs(torch.tensor([[history, END]])).exp()[0]
        torch.testing.assert_close(probs, torch.tensor([after_start, expected], dtype=torch.double))


def test_a_trigram_model_counts_sentence_starts_as_they_occur() -> None:
    """Text: `a b` three times, `b` once. The bigram `<s> a` counts 3, its occurrences; `a b` counts 1, after <s> only.

    `<s> b` counts 1 and `b </s>` 2, so that for bigrams Y = 2 / (2 + 2·1), D₁ = ½ and D₃ = 3, since none counts 4.
    Other discounts are the fall-back's. P(a): predecessors <s> → 1; b: a, <s> → 2; </s>: b → 1; in all 4.
    """
    model = estimate(stream([[A, B]] * 3 + [[B]]), order=3, vocab_size=3, dtype=torch.double)
    rest = (0.5 + 1 + 0.5) / 4 / 3
    a, b = (1 - 0.5) / 4 + rest, (2 - 1) / 4 + rest
    gamma_start = (3 + 0.5) / 4  # `<s> a` 3, `<s> b` 1
    a_start = (3 - 3) / 4 + gamma_start * a
    b_a = (1 - 0.5) / 1 + 0.5 / 1 * b
    b_start_a = (3 - 1.5) / 3 + 1.5 / 3 * b_a
    scores = model.score(torch.tensor([[A, B]])).exp()[0]
    torch.testing.assert_close(scores, torch.tensor([a_start, b_start_a], dtype=torch.double))


def test_closed_form_discounts_computed_by_hand() -> None:
    """n₁ = 4, n₂ = 2, n₃ = 1, n₄ = 1: Y = 4 / 8; D₁ = 1 − 2·½·2/4, D₂ = 2 − 3·½·1/2, D₃ = 3 − 4·½·1/1."""
    counts = torch.tensor([1, 1, 1, 1, 2, 2, 3, 4, 9, 0])
    assert discounts(counts).tolist() == [0, 0.5, 1.25, 1.0]


def test_without_count_4_the_third_discount_is_3() -> None:
    """n₁ = 2, n₂ = 2, n₃ = 1: Y = 2 / 6; D₁ = 1 − 2·⅓·2/2, D₂ = 2 − 3·⅓·1/2, D₃ = 3."""
    assert discounts(torch.tensor([1, 1, 2, 2, 3])).tolist() == pytest.approx([0, 1 / 3, 1.5, 3])


@pytest.mark.parametrize("counts", [[1, 1, 2, 2], [2, 3, 4], [1, 2, 3, 4, 4, 4, 4], [1, 1, 1, 1, 2, 3]])
def test_discounts_fall_back_where_the_closed_form_fails(counts: list[int]) -> None:
    """No count 3; no count 1; D₃ = 3 − 4·⅓·4/1 < 0; D₂ = 2 − 3·⅔·1/1 = 0."""
    assert discounts(torch.tensor(counts)).tolist() == [0, *FALLBACK_DISCOUNTS]


class Literal:
    """Kneser-Ney word for word, with dictionaries; "<s>" and "</s>" are two different things here."""

    def __init__(self, sentences: list[list[int]], order: int, vocab_size: int, prune: list[int]):
        self.order, self.vocab_size = order, vocab_size
        texts = [["<s>", *(label or "</s>" for label in sentence), "</s>"] for sentence in sentences]
        raw = {
            n: Counter(tuple(t[i : i + n]) for t in texts for i in range(len(t) - n + 1)) for n in range(1, order + 1)
        }
        self.terms, self.gammas = {}, {}
        for n in range(1, order + 1):
            counts = dict(raw[n])
            if n < order:
                before = defaultdict(set)
                for ngram in raw[n + 1]:
                    before[ngram[1:]].add(ngram[0])
                counts = {g: c if g[0] == "<s>" else len(before[g]) for g, c in counts.items()}
            counts.pop(("<s>",), None)
            having = Counter(counts.values())
            discount = {1: 0.5, 2: 1.0, 3: 1.5}
            if all(having[k] for k in (1, 2, 3)):
                y = having[1] / (having[1] + 2 * having[2])
                closed = {k: k - (k + 1) * y * having[k + 1] / having[k] for k in (1, 2, 3)}
                if all(0 < d <= k for k, d in closed.items()):
                    discount = closed
            totals, saved = Counter(), Counter()
            for g, c in counts.items():
                totals[g[:-1]] += c
                pruned = n > 1 and raw[n][g] <= prune[n - 1]
                saved[g[:-1]] += c if pruned else discount[min(c, 3)]
            for g, c in counts.items():
                if n == 1 or raw[n][g] > prune[n - 1]:
                    self.terms[g] = (c - discount[min(c, 3)]) / totals[g[:-1]]
            for h, total in totals.items():
                self.gammas[h] = saved[h] / total

    def prob(self, history: tuple, label: object) -> float:
        lower = self.prob(history[1:], label) if history else 1 / self.vocab_size
        return self.terms.get((*history, label), 0.0) + self.gammas.get(history, 1.0) * lower

    def after(self, labels: list[int]) -> list[float]:
        history = ("<s>", *labels)[-self.order + 1 :] if self.order > 1 else ()
        return [self.prob(history, label or "</s>") for label in range(self.vocab_size)]


texts = st.integers(2, 4).flatmap(
    lambda v: st.tuples(
        st.just(v),
        st.lists(st.lists(st.integers(1, v - 1), max_size=8), min_size=1, max_size=25),
        st.integers(1, 4),
        st.lists(st.integers(0, 2), max_size=3).map(lambda prune: [0, *sorted(prune)]),
    )
)


@settings(max_examples=80, deadline=None)
@given(texts)
def test_it_equals_the_literal_algorithm_and_every_history_sums_to_1(
    text: tuple[int, list[list[int]], int, list[int]],
) -> None:
    vocab_size, sentences, order, prune = text
    model = estimate(stream(sentences), order, vocab_size, prune=prune, dtype=torch.double)
    literal = Literal(sentences, order, vocab_size, (prune + prune[-1:] * order)[:order])
    for length in range(order + 1):
        for history in itertools.product(range(1, vocab_size), repeat=length):
            probs = model.log_probs(torch.tensor([[*history, END]])).exp()[0, -1]
            assert probs.sum().item() == pytest.approx(1, abs=1e-12)
            torch.testing.assert_close(probs.tolist(), literal.after(list(history)), rtol=1e-10, atol=1e-14)


def test_real_discounts_are_used_for_larger_texts() -> None:
    """A Zipfian text, where the closed form holds for trigrams, still equals the literal algorithm."""
    generator = torch.Generator().manual_seed(1)
    weights = 1 / torch.arange(1.0, 40)
    sentences = [(1 + torch.multinomial(weights, 12, True, generator=generator)).tolist() for _ in range(150)]
    model = estimate(stream(sentences), 3, 40, prune=[0, 0, 1], dtype=torch.double)
    trigrams = count_ngrams(stream(sentences), 3, 40)[2].occurrences
    assert discounts(trigrams).tolist()[1:] != list(FALLBACK_DISCOUNTS)
    literal = Literal(sentences, 3, 40, [0, 0, 1])
    for sentence in sentences[:5]:
        probs = model.log_probs(torch.tensor([[*sentence, END]])).exp()[0].tolist()
        for i, row in enumerate(probs):
            torch.testing.assert_close(row, literal.after(sentence[:i]), rtol=1e-10, atol=1e-14)


def test_single_precision_sums_to_1_within_its_rounding() -> None:
    labels = torch.randint(0, 50, (5000,), generator=torch.Generator().manual_seed(0))
    labels[-1] = END
    model = estimate(labels, 4, 50, prune=[0, 0, 1, 1])
    histories = model.targets.long().unique()
    sums = model.distribution(histories).exp().sum(1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-5)


def test_pruning_drops_what_occurs_at_most_that_often() -> None:
    sentences = [[A, B]] * 3 + [[A, A]] * 2 + [[B, B]]
    assert estimate(stream(sentences), 2, 3).counts() == [3, 7]
    assert estimate(stream(sentences), 2, 3, prune=[0, 1]).counts() == [3, 5]  # without `<s> b`, `b b`: 1 each
    model = estimate(stream(sentences), 2, 3, prune=[0, 2])
    assert [tuple(ngram) for ngram in model.ngrams(2)[0].tolist()] == [(END, A), (A, B), (B, END)]


def test_an_order_beyond_the_longest_sentence_is_no_harm() -> None:
    model = estimate(stream([[A], [B]]), 6, 3)
    assert model.order == 3
    assert math.isclose(model.log_probs(torch.tensor([[A, B]])).exp().sum().item(), 2, abs_tol=1e-6)


def test_the_end_label_need_not_be_0() -> None:
    sentences = [[1, 2, 2], [2, 1], [1, 1, 2]]
    moved = [[label - 1 for label in sentence] for sentence in sentences]
    model = estimate(stream(sentences), 3, 3)
    other = estimate(stream(moved, end=2), 3, 3, end=2)
    torch.testing.assert_close(model.score(torch.tensor([[1, 2, 0]])), other.score(torch.tensor([[0, 1, 2]])))


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([], {}, "no text"),
        ([1, 7, 0], {}, "label 7"),
        ([1, -1, 0], {}, "label -1"),
        ([1, 2], {}, "not closed by the end label 0"),
        ([1, 0], {"order": 0}, "at least one label"),
        ([1, 0], {"prune": [0, 2, 1]}, "not fall"),
        ([1, 0], {"prune": [1]}, "unigrams, must be 0"),
    ],
)
def test_bad_input_is_refused(labels: list[int], options: dict, message: str) -> None:
    with pytest.raises(FewerError, match=message):
        estimate(torch.tensor(labels, dtype=torch.long), **{"order": 3, "vocab_size": 3, **options})
