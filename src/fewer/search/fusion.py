"""Log-linear fusion: any number of named, weighted terms from any number of scorers.

Masks and the end-label policy are rules (`fewer.search.rules`), so that scorers need not know of them.
"""

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.search.nbest import check_number
from fewer.search.rules import Rule, Step, stopped
from fewer.search.scorer import Scorer, State

SUBTRACTED = frozenset({"ilm"})  # terms that users give a positive scale of, and whose score is multiplied by minus it


def signed(sizes: Mapping[str, float]) -> dict[str, float]:
    """What the search multiplies by, from scales as users give them: the minus sign of the ILM stands here."""
    return {term: (-scale if term in SUBTRACTED else scale) + 0.0 for term, scale in sizes.items()}  # no -0.0


class Fusion:
    """score(label) = Σ scale · log P_term(label). An ILM is a term with a negative scale."""

    def __init__(
        self,
        scorers: Sequence[Scorer],
        scales: Mapping[str, float],
        end: int = 0,
        rules: Sequence[Rule] = (),
        device: torch.device | str = "cpu",
    ):
        """device: where the scorers and the rules' tensors are."""
        self.scorers, self.end, self.rules, self.device = list(scorers), end, list(rules), torch.device(device)
        self.terms = tuple(term for scorer in scorers for term in scorer.terms)
        self._check(scales)
        self.vocab_size = scorers[0].vocab_size
        self.scales = {term: float(scales.get(term, 0.0)) for term in self.terms}
        self.normalised = tuple(getattr(scorer, "normalised", True) for scorer in scorers for _ in scorer.terms)
        rewards = [getattr(scorer, "rewards", False) for scorer in scorers for _ in scorer.terms]
        self.rewards = tuple(at for at, reward in enumerate(rewards) if reward)  # places of the terms that are rewards

    def _check(self, scales: Mapping[str, float]) -> None:
        for scorer in self.scorers:
            if scorer.vocab_size != self.scorers[0].vocab_size:
                raise FewerError(
                    f"'{'/'.join(scorer.terms)}' has {scorer.vocab_size} labels but "
                    f"'{'/'.join(self.scorers[0].terms)}' has {self.scorers[0].vocab_size}: "
                    "train the LM on the recogniser's own tokens"
                )
        for name, scale in scales.items():
            if name not in self.terms:
                raise FewerError(f"there is no term '{name}'; the terms are {', '.join(self.terms)}")
            check_number(f"the scale of '{name}'", scale)
        if len(set(self.terms)) != len(self.terms):
            raise FewerError(f"two terms have the same name: {', '.join(self.terms)}")

    def start(self, encoded: Sized) -> tuple[list[Any], list[State]]:
        pairs = [scorer.start(encoded) for scorer in self.scorers]
        return [memory for memory, _ in pairs], [state for _, state in pairs]

    def step(
        self, memory: list[Any], states: list[State], labels: Tensor, first: bool = False
    ) -> tuple[Tensor, list[Tensor], list[State]]:
        """The weighted sum and each term's log-probabilities. (rows,) -> (rows, V), (rows, V) each, states"""
        log_probs: list[Tensor] = []  # by term; copying them into one tensor would cost as much as adding them up
        new = []
        for scorer, kept, state in zip(self.scorers, memory, states, strict=True):
            part, state = scorer.step(kept, state, labels)
            log_probs += part.unbind()
            new.append(state)
        step = Step(self.terms, self.normalised, self.end, first)
        for rule in self.rules:
            rule.score(log_probs, step)
        combined = log_probs[0] * self.scales[self.terms[0]]
        for term, said in zip(self.terms[1:], log_probs[1:], strict=True):
            combined.add_(said, alpha=self.scales[term])
        for rule in self.rules:
            rule.restrict(combined, step)
        return combined, log_probs, new

    def stopped(self, tokens: Tensor) -> Tensor | None:
        """Hypotheses that may not go on; None if no rule has a say. (B, K, n) -> (B, K)"""
        return stopped(self.rules, tokens)

    def reorder(self, states: list[State], rows: Tensor) -> list[State]:
        return [scorer.reorder(state, rows) for scorer, state in zip(self.scorers, states, strict=True)]

    def select(self, memory: list[Any], utterances: Tensor) -> list[Any]:
        return [scorer.select(kept, utterances) for scorer, kept in zip(self.scorers, memory, strict=True)]

    def culprit(self, log_probs: Sequence[Tensor]) -> str:
        """The first term with a score that is not a number."""
        pairs = zip(self.terms, log_probs, strict=True)
        return next((term for term, said in pairs if bool(said.isnan().any())), "the weighted sum")
