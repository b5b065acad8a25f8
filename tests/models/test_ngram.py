"""The n-gram model against the recursive definition of back-off."""

from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fewer.models import ngram as ngram_module
from fewer.models.lm import LmScorer
from fewer.models.ngram import DuplicateNGram, MissingHistory, NGram

END = 0


def random_ngrams(seed: int, order: int, vocab_size: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """A model that keeps a random half of the n-grams whose history it has: often without the shorter suffixes."""
    rng = np.random.default_rng(seed)
    ngrams, orders = [(label,) for label in range(vocab_size)], []
    for n in range(1, order + 1):
        log_probs = torch.from_numpy(rng.uniform(-5, 0, len(ngrams)))
        backoffs = torch.from_numpy(rng.choice([0.0, -0.7, 0.3], len(ngrams)))
        orders.append((torch.tensor(ngrams).reshape(-1, n), log_probs, backoffs))
        histories = [ngram for ngram in ngrams if n == 1 or ngram[-1] != END]
        ngrams = [(*h, v) for h in histories for v in range(vocab_size) if rng.random() < 0.5]
        rng.shuffle(ngrams)
        ngrams = [tuple(int(x) for x in ngram) for ngram in ngrams]
        if not ngrams:  # then this is the highest order, whose weights of backing off mean nothing
            break
    return orders


class Recursive:
    """P(v | h) exactly as the definition of a back-off model says it."""

    def __init__(self, orders: list[tuple[Tensor, Tensor, Tensor]]):
        self.order = len(orders)
        self.probs, self.backoffs = {}, {}
        for ngrams, log_probs, backoffs in orders:
            for ngram, log_prob, backoff in zip(ngrams.tolist(), log_probs.tolist(), backoffs.tolist(), strict=True):
                self.probs[tuple(ngram)] = log_prob
                ended = len(ngram) > 1 and ngram[-1] == END
                self.backoffs[tuple(ngram)] = 0.0 if ended else backoff

    def log_prob(self, history: tuple[int, ...], label: int) -> float:
        history = history[max(0, len(history) - self.order + 1) :]
        if (*history, label) in self.probs:
            return self.probs[*history, label]
        return self.backoffs.get(history, 0.0) + self.log_prob(history[1:], label)

    def sentence(self, labels: list[int], vocab_size: int) -> list[list[float]]:
        """log P of every label at every position; after an end label a new sentence starts."""
        rows, history = [], (END,)
        for label in labels:
            rows.append([self.log_prob(history, v) for v in range(vocab_size)])
            history = (END,) if label == END else (*history, label)
        return rows


models = st.tuples(st.integers(0, 10_000), st.integers(1, 4), st.integers(2, 5))


@settings(max_examples=60, deadline=None)
@given(models, st.sampled_from([0, 3, 64]), st.sampled_from([0, 1000]), st.data())
def test_all_ways_to_score_equal_the_recursive_definition(
    shape: tuple[int, int, int], table_rows: int, most_keys: int, data: st.DataObject
) -> None:
    orders = random_ngrams(*shape)
    vocab_size = shape[2]
    with mock.patch.multiple(ngram_module, TABLE_ROWS=table_rows, MOST_KEYS=most_keys):
        model, slow = NGram.from_ngrams(orders, END), Recursive(orders)
    assert len(model.table) <= 1 + table_rows
    assert (model.keys is None) == (len(model.labels) > most_keys)
    label = st.integers(0, vocab_size - 1)
    sentences = data.draw(st.lists(st.lists(label, min_size=6, max_size=6), min_size=1, max_size=4))
    labels = torch.tensor(sentences)
    expected = torch.tensor([slow.sentence(sentence, vocab_size) for sentence in sentences], dtype=torch.double)
    chosen = expected.gather(2, labels[..., None]).squeeze(2)

    torch.testing.assert_close(model.log_probs(labels), expected)
    torch.testing.assert_close(model.score(labels), chosen)
    state, previous = model.start(len(sentences)), torch.full((len(sentences),), -1)
    for i in range(6):
        log_probs, state = model.step(state, previous)
        torch.testing.assert_close(log_probs, expected[:, i])
        torch.testing.assert_close(model.read(state, labels[:, i])[0], chosen[:, i])
        previous = labels[:, i]


def test_a_model_gives_back_the_ngrams_it_was_made_of() -> None:
    orders = random_ngrams(3, 4, 4)
    model = NGram.from_ngrams(orders, END)
    assert model.counts() == [len(ngrams) for ngrams, _, _ in orders]
    assert model.order == 4
    for n, (ngrams, log_probs, backoffs) in enumerate(orders, start=1):
        given = dict(
            zip(map(tuple, ngrams.tolist()), zip(log_probs.tolist(), backoffs.tolist(), strict=True), strict=True)
        )
        again = [part.tolist() for part in model.ngrams(n)]
        assert [tuple(ngram) for ngram in again[0]] == sorted(given)
        for ngram, log_prob, backoff in zip(*again, strict=True):
            assert log_prob == given[tuple(ngram)][0]
            if n < 4 and (n == 1 or ngram[-1] != END):
                assert backoff == given[tuple(ngram)][1]


def test_its_tensors_make_the_same_model_again() -> None:
    model = NGram.from_ngrams(random_ngrams(5, 3, 4), end=2)
    again = NGram(**model.tensors(), end=2)
    labels = torch.randint(0, 4, (3, 7))
    assert torch.equal(model.log_probs(labels), again.log_probs(labels))
    assert again.counts() == model.counts()


def test_a_large_model_takes_8_bytes_for_an_ngram_of_full_length_and_25_for_others() -> None:
    with mock.patch.object(ngram_module, "MOST_KEYS", 0):
        model = NGram.from_ngrams(random_ngrams(7, 4, 12)).float()
    sizes = {name: values.nbytes for name, values in model.named_buffers() if name != "table"}
    assert sum(sizes.values()) == 8 * len(model.labels) + 17 * len(model.backoffs) + 4  # the root and a last begin


def test_another_end_label_than_0_starts_sentences() -> None:
    """Renaming the labels changes nothing but the names."""
    orders = random_ngrams(11, 3, 4)
    renamed = torch.tensor([3, 0, 1, 2])
    unigrams = [part[torch.tensor([1, 2, 3, 0])] for part in orders[0]]
    other = [(renamed[unigrams[0]], *unigrams[1:]), *((renamed[ngrams], *rest) for ngrams, *rest in orders[1:])]
    labels = torch.randint(0, 4, (5, 8))
    expected = NGram.from_ngrams(orders, end=0).score(labels)
    torch.testing.assert_close(NGram.from_ngrams(other, end=3).score(renamed[labels]), expected)


def test_an_ngram_without_its_history_or_given_twice_is_refused() -> None:
    orders = random_ngrams(1, 3, 4)
    ngrams, log_probs, backoffs = orders[1]
    keep = torch.ones(len(ngrams), dtype=torch.bool)
    lost = next(i for i, h in enumerate(ngrams.tolist()) if (orders[2][0][:, :2] == torch.tensor(h)).all(1).any())
    keep[lost] = False
    with pytest.raises(MissingHistory) as missing:
        NGram.from_ngrams([orders[0], (ngrams[keep], log_probs[keep], backoffs[keep]), orders[2]])
    assert missing.value.n == 3
    assert orders[2][0][missing.value.index, :2].tolist() == ngrams[lost].tolist()
    doubled = tuple(torch.cat([part, part[2:3]]) for part in orders[1])
    with pytest.raises(DuplicateNGram) as twice:
        NGram.from_ngrams([orders[0], doubled])  # type: ignore[list-item]
    assert (twice.value.n, twice.value.index) == (2, len(ngrams))


class CountOperations(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_the_number_of_operations_does_not_grow_with_the_rows() -> None:
    model = NGram.from_ngrams(random_ngrams(2, 4, 5), END)
    counts = []
    for rows in (1, 60):
        state = model.start(rows)
        with CountOperations() as operations:
            model.step(state, torch.ones(rows, dtype=torch.long))
        counts.append(operations.count)
    assert counts[0] == counts[1]


def test_as_a_scorer_its_rows_can_be_reordered() -> None:
    model = NGram.from_ngrams(random_ngrams(4, 3, 5), END)
    scorer = LmScorer(model, term="ilm")
    memory, state = scorer.start(range(2))
    _, state = scorer.step(memory, state, torch.tensor([-1, -1]))
    _, state = scorer.step(memory, state, torch.tensor([3, 1]))
    state = scorer.reorder(state, torch.tensor([1, 0, 1]))
    log_probs, _ = scorer.step(memory, state, torch.tensor([2, 2, 4]))
    expected = model.log_probs(torch.tensor([[1, 2, 0], [3, 2, 0], [1, 4, 0]]))[:, 2]
    assert scorer.terms == ("ilm",)
    torch.testing.assert_close(log_probs[0], expected)
