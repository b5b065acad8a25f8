"""One n-gram model from several, by linear interpolation with weights from held-out text.

The mixture is static: it holds every n-gram of any component with exactly its interpolated probability
Σ_i w_i P_i(v | h), and back-off weights for which every history sums to 1. Where no component has the n-gram, backing
off stands for the interpolation. So it is as fast as one model and can be written as ARPA.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.models.ngram import Level, NGram

SMALLEST = 1e-12  # probability that is left to unlisted labels at least, against rounding


def mixture_weights(log_probs: Tensor, tolerance: float = 1e-7, most_rounds: int = 1000) -> Tensor:
    """Weights under which the mixture gives a text the highest probability, by EM.

    log_probs (models, labels of the text): each model's log-probability of each label. -> (models,) double
    """
    probs = (log_probs - log_probs.amax(dim=0)).double().exp()
    weights = torch.full((len(probs), 1), 1 / len(probs), dtype=torch.double)
    likelihood = (weights * probs).sum(0).log().mean()
    for _ in range(most_rounds):
        joint = weights * probs
        weights = (joint / joint.sum(0)).mean(1, keepdim=True)
        previous, likelihood = likelihood, (weights * probs).sum(0).log().mean()
        if likelihood - previous < tolerance:
            break
    return weights.squeeze(1)


def mix(models: Sequence[NGram], weights: Sequence[float] | Tensor) -> NGram:
    """The static mixture of models over one vocabulary. Give double-precision models; so will the mixture be."""
    shares = torch.as_tensor(weights, dtype=torch.double)
    if len(shares) != len(models) or bool((shares < 0).any()) or abs(float(shares.sum()) - 1) > 1e-6:
        raise FewerError(f"{len(models)} models need as many weights that sum to 1, not {shares.tolist()}")
    vocab_size, end = models[0].vocab_size, models[0].end
    for model in models:
        if (model.vocab_size, model.end) != (vocab_size, end):
            raise FewerError(f"cannot mix models over different vocabularies ({vocab_size}, {model.vocab_size} labels)")
    components = [_Component(model, float(share)) for model, share in zip(models, shares, strict=True) if share > 0]

    shorter = _Union.root()  # all n-grams one shorter
    first, levels = 0, list[Level]()  # first: node of the first of them
    for n in range(1, max(component.model.order for component in components) + 1):
        keys = torch.cat([component.keys(n) for component in components]).unique()
        parents, labels = keys // vocab_size, keys % vocab_size
        wanted = shorter.suffixes[parents] * vocab_size + labels
        suffixes = torch.searchsorted(shorter.keys, wanted) if n > 1 else torch.zeros_like(keys)
        if n > 1 and not torch.equal(shorter.keys[suffixes.clamp(max=len(shorter.keys) - 1)], wanted):
            raise FewerError(f"cannot mix: a model has {n}-grams without the {n - 1}-grams that end them")
        probs = torch.zeros(len(keys), dtype=torch.double)
        for component in components:
            probs += component.share * component.extend(n, keys, parents, suffixes, len(shorter.keys))
        if n > 1:
            backoffs = _backoffs(parents, probs, shorter.probs[suffixes], len(shorter.keys), vocab_size)
            levels[-1] = levels[-1]._replace(backoffs=backoffs)
        levels.append(Level(parents + first, labels, suffixes + first, probs.log(), torch.zeros_like(probs)))
        first += len(shorter.keys)
        shorter = _Union(keys, suffixes, probs)
    return NGram.from_levels(levels, end)


@dataclass(frozen=True)
class _Union:
    """All n-grams of one length, sorted. Indices count from 0 within one length."""

    keys: Tensor  # (L,) index of the n-gram without its last label · V + last label
    suffixes: Tensor  # (L,) index of the n-gram without its first label
    probs: Tensor  # (L,) mixed

    @classmethod
    def root(cls) -> "_Union":
        zero = torch.zeros(1, dtype=torch.long)
        return cls(zero, zero, zero.double())


class _Component:
    """One model, followed from shorter to longer n-grams."""

    def __init__(self, model: NGram, share: float):
        self.model, self.share = model, share
        self.places = torch.zeros(1, dtype=torch.long)  # index in the union of each of its own n-grams one shorter
        self.probs = torch.ones(1, dtype=torch.double)  # its P of every n-gram of the union one shorter

    def nodes(self, n: int) -> slice:
        """Its n-grams of one length; the empty one is the root."""
        firsts = [0, *self.model.firsts]
        return slice(firsts[n], firsts[n + 1]) if n <= self.model.order else slice(0, 0)

    def keys(self, n: int) -> Tensor:
        """Its n-grams as keys of the union."""
        nodes = self.nodes(n)
        own = self.model.parents()[max(nodes.start - 1, 0) : max(nodes.stop - 1, 0)]
        parents = own - self.nodes(n - 1).start
        return self.places[parents] * self.model.vocab_size + self.model.labels[nodes]

    def extend(self, n: int, keys: Tensor, parents: Tensor, suffixes: Tensor, histories: int) -> Tensor:
        """Its P of every n-gram of the union, backing off where it does not have it. (L,)"""
        backoffs = torch.ones(histories, dtype=torch.double)
        if n <= self.model.order:
            backoffs[self.places] = self.model.backoffs[self.nodes(n - 1)].double().exp()
        probs = backoffs[parents] * self.probs[suffixes]
        self.places = torch.searchsorted(keys, self.keys(n))
        probs[self.places] = self.model.node_log_probs[self.nodes(n)].double().exp()
        self.probs = probs
        return probs


def _backoffs(parents: Tensor, probs: Tensor, lower: Tensor, histories: int, vocab_size: int) -> Tensor:
    """Log back-off weights: what the listed labels leave, over what they leave one history shorter. (histories,)"""
    left, lower_left = (
        (1 - torch.bincount(parents, weights=p, minlength=histories)).clamp(min=SMALLEST) for p in (probs, lower)
    )
    listed = torch.bincount(parents, minlength=histories)
    return torch.where((listed == 0) | (listed == vocab_size), 0.0, (left / lower_left).log())
