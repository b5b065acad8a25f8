"""Log-linear fusion: any number of named, weighted terms from any number of scorers.

Masks and the end-label policy live here, so that scorers need not know of them.
"""

from collections.abc import Collection, Mapping, Sequence, Sized
from typing import Any

import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.search.nbest import check_number
from fewer.search.scorer import Scorer, State

LITTLE = 0.5  # probability of suppressed labels above which what they leave is summed instead of subtracted


class Fusion:
    """score(label) = Σ scale · log P_term(label). An ILM is a term with a negative scale."""

    def __init__(
        self,
        scorers: Sequence[Scorer],
        scales: Mapping[str, float],
        end: int = 0,
        end_scored_by: Collection[str] | None = None,  # terms that score the end label; None: all
        suppress: Tensor | None = None,  # (V,) True: never output; terms that are normalised become so over the rest
        suppress_first: Tensor | None = None,  # (V,) the same for the first label; None: as `suppress`
        longest_loop: int = 0,  # a hypothesis that says so many labels or fewer over and over is left; 0: it is not
    ):
        self.scorers, self.end, self.longest_loop = list(scorers), end, longest_loop
        self.terms = tuple(term for scorer in scorers for term in scorer.terms)
        self._check(scales, end_scored_by)
        self.vocab_size = scorers[0].vocab_size
        self.scales = {term: float(scales.get(term, 0.0)) for term in self.terms}
        self.weights = torch.tensor([self.scales[term] for term in self.terms])
        silent = [term for term in self.terms if end_scored_by is not None and term not in end_scored_by]
        self.silent_at_end = torch.tensor([term in silent for term in self.terms]) if silent else None
        self.normalised = [getattr(scorer, "normalised", True) for scorer in scorers for _ in scorer.terms]
        ids = [None if mask is None else mask.nonzero().flatten() for mask in (suppress, suppress_first)]
        self.suppress, self.suppress_first = ids[0], ids[0] if suppress_first is None else ids[1]

    def _check(self, scales: Mapping[str, float], end_scored_by: Collection[str] | None) -> None:
        for scorer in self.scorers:
            if scorer.vocab_size != self.scorers[0].vocab_size:
                raise FewerError(
                    f"'{'/'.join(scorer.terms)}' has {scorer.vocab_size} labels but "
                    f"'{'/'.join(self.scorers[0].terms)}' has {self.scorers[0].vocab_size}: "
                    "train the LM on the recogniser's own tokens"
                )
        for name in [*scales, *(end_scored_by or ())]:
            if name not in self.terms:
                raise FewerError(f"there is no term '{name}'; the terms are {', '.join(self.terms)}")
        for name, scale in scales.items():
            check_number(f"the scale of '{name}'", scale)
        if len(set(self.terms)) != len(self.terms):
            raise FewerError(f"two terms have the same name: {', '.join(self.terms)}")

    def start(self, encoded: Sized) -> tuple[list[Any], list[State]]:
        pairs = [scorer.start(encoded) for scorer in self.scorers]
        return [memory for memory, _ in pairs], [state for _, state in pairs]

    def step(
        self, memory: list[Any], states: list[State], labels: Tensor, first: bool = False
    ) -> tuple[Tensor, Tensor, list[State]]:
        """The weighted sum and every term's log-probabilities. (rows,) -> (rows, V), (terms, rows, V), states"""
        parts, new = [], []
        for scorer, kept, state in zip(self.scorers, memory, states, strict=True):
            part, state = scorer.step(kept, state, labels)
            parts.append(part)
            new.append(state)
        log_probs = torch.cat(parts) if len(parts) > 1 else parts[0]  # a scorer's own: not to be changed in place
        suppress = self.suppress_first if first else self.suppress
        if suppress is not None:
            total = log_of_rest(log_probs, suppress)
            log_probs = log_probs - (total if all(self.normalised) else self._of_normalised(total))
        if self.silent_at_end is not None:
            log_probs = log_probs.clone() if log_probs is parts[0] else log_probs
            log_probs[self.silent_at_end, :, self.end] = 0.0
        combined = torch.tensordot(self.weights.to(log_probs), log_probs, dims=1)
        if suppress is not None:
            combined.index_fill_(1, suppress, float("-inf"))
        return combined, log_probs, new

    def _of_normalised(self, total: Tensor) -> Tensor:
        """Zero for the terms that are no probabilities, such as rewards. (terms, rows, 1)"""
        return torch.where(torch.tensor(self.normalised, device=total.device)[:, None, None], total, 0.0)

    def reorder(self, states: list[State], rows: Tensor) -> list[State]:
        return [scorer.reorder(state, rows) for scorer, state in zip(self.scorers, states, strict=True)]

    def select(self, memory: list[Any], utterances: Tensor) -> list[Any]:
        return [scorer.select(kept, utterances) for scorer, kept in zip(self.scorers, memory, strict=True)]

    def culprit(self, log_probs: Tensor) -> str:
        """The first term with a score that is not a number."""
        bad = log_probs.isnan().flatten(1).any(dim=1).tolist()
        return next((term for term, is_bad in zip(self.terms, bad, strict=True) if is_bad), "the weighted sum")


def log_of_rest(log_probs: Tensor, suppressed: Tensor) -> Tensor:
    """log of the probability that all labels but the suppressed ones have. (…, V), (ids,) -> (…, 1)

    The suppressed are few, so it is what they leave; exactly the sum of the rest where they leave little.
    """
    gone = log_probs.index_select(-1, suppressed).exp().sum(-1, keepdim=True)
    left = torch.log1p(-gone)
    if bool((most := gone.squeeze(-1) > LITTLE).any()):
        left[most] = log_probs[most].index_fill_(-1, suppressed, float("-inf")).logsumexp(-1, keepdim=True)
    return left
