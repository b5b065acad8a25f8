"""Mixtures of n-gram models: exact where they list an n-gram, proper everywhere, and no worse than their parts."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fewer.errors import FewerError
from fewer.models.ngram import NGram
from fewer.training.ngram import estimate
from fewer.training.ngram_mixture import mix, mixture_weights

V = 6


def text(seed: int, length: int, favourite: int) -> torch.Tensor:
    """Labels of which `favourite` follows itself more often than the rest."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.ones(V)
    weights[favourite] = 4
    labels = torch.multinomial(weights, length, replacement=True, generator=generator)
    labels[-1] = 0
    return labels


def model(seed: int, order: int = 3, favourite: int = 1, prune: tuple[int, ...] = ()) -> NGram:
    return estimate(text(seed, 150, favourite), order, V, prune=prune, dtype=torch.double)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.integers(1, 4), st.sampled_from([(), (0, 1), (0, 0, 1)])),
        min_size=1,
        max_size=3,
    ),
    st.data(),
)
def test_every_history_sums_to_1_and_listed_ngrams_are_interpolated_exactly(
    parts: list[tuple[int, int, tuple[int, ...]]], data: st.DataObject
) -> None:
    models = [model(seed, order, 1 + seed % (V - 1), prune) for seed, order, prune in parts]
    raw = data.draw(st.lists(st.integers(0, 5), min_size=len(parts), max_size=len(parts)).filter(any))
    weights = torch.tensor(raw, dtype=torch.double) / sum(raw)
    mixture = mix(models, weights)
    sums = mixture.distribution(torch.arange(len(mixture.backoffs))).exp().sum(1)
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-9)

    for n in range(1, mixture.order + 1):
        ngrams, log_probs, _ = mixture.ngrams(n)
        expected = sum(w * _log_prob(m, ngrams).exp() for m, w in zip(models, weights, strict=True) if w)
        torch.testing.assert_close(log_probs, expected.log())


def _log_prob(model: NGram, ngrams: torch.Tensor) -> torch.Tensor:
    """log P of each n-gram's last label after its others; the end label first is the start of a sentence."""
    state = torch.zeros(len(ngrams), dtype=torch.long)
    for column in ngrams.T:
        log_prob, state = model.read(state, column)
    return log_prob


def test_mixing_a_model_with_itself_changes_nothing() -> None:
    one = model(3)
    mixture, labels = mix([one, one], [0.3, 0.7]), text(9, 200, 2)[None]
    torch.testing.assert_close(mixture.score(labels), one.score(labels))


def test_a_model_of_weight_0_leaves_no_trace() -> None:
    assert mix([model(3), model(4, favourite=2)], [1, 0]).counts() == model(3).counts()


def test_weights_are_those_of_the_text_that_the_models_generate() -> None:
    """With 30 % of the labels from one and 70 % from the other of two sharp models, EM finds 0.3 and 0.7."""
    sharp, other = torch.tensor([0.9, 0.1]).log(), torch.tensor([0.1, 0.9]).log()
    share = 0.3 * 0.9 + 0.7 * 0.1  # of the first label
    labels = (torch.arange(10_000) >= share * 10_000).long()
    weights = mixture_weights(torch.stack([sharp[labels], other[labels]]), tolerance=1e-12)
    torch.testing.assert_close(weights, torch.tensor([0.3, 0.7], dtype=torch.double), rtol=0, atol=1e-4)


def test_em_finds_the_best_weights_and_the_mixture_beats_its_parts() -> None:
    models = [model(1, favourite=1), model(2, favourite=3)]
    held_out = torch.cat([text(11, 300, 1), text(12, 300, 3)])[None]
    scores = torch.cat([m.score(held_out) for m in models])
    weights = mixture_weights(scores)
    assert weights.sum().item() == pytest.approx(1)
    likelihoods = {
        w: torch.logsumexp(scores + torch.tensor([[w], [1 - w]]).log(), 0).mean()
        for w in torch.linspace(0.02, 0.98, 49).tolist()
    }
    assert abs(max(likelihoods, key=likelihoods.__getitem__) - weights[0].item()) <= 0.02
    mixed = mix(models, weights).score(held_out).mean()
    assert mixed > scores.mean(1).max()
    assert abs(mixed - max(likelihoods.values())) < 0.02  # as good as interpolating at every step


def test_vanishing_probabilities_do_not_disturb_em() -> None:
    weights = mixture_weights(torch.tensor([[-900.0, -950.0], [-1000.0, -2000.0]]))
    torch.testing.assert_close(weights, torch.tensor([1.0, 0.0], dtype=torch.double), rtol=0, atol=1e-3)


def test_bad_mixtures_are_refused() -> None:
    with pytest.raises(FewerError, match="sum to 1"):
        mix([model(1), model(2)], [0.5, 0.6])
    with pytest.raises(FewerError, match="sum to 1"):
        mix([model(1)], [0.5, 0.5])
    with pytest.raises(FewerError, match=r"different vocabularies \(6, 9 labels\)"):
        mix([model(1), estimate(torch.tensor([1, 0]), 2, 9)], [0.5, 0.5])
