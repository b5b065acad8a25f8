"""Rules of the search: small parts that `Fusion` and `beam_search` compose.

A rule answers up to three questions at every step: what the terms may say of the labels (`score`), which labels may
come next (`restrict`), and which hypotheses may not go on (`stops`). Forced scoring asks the first one only, so given
hypotheses get the scores that a search would have given them. Rules are asked in order.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.models.tree import free_to_ask

LITTLE = 0.5  # probability of suppressed labels above which what they leave is summed instead of subtracted
# Of so many last labels, no more than so many different ones: a loop. Not one is in 4.2 million labels of books.
POOR = {32: 7, 48: 10, 64: 14, 96: 19}
LEAST = 1e-30  # smallest probability that is divided by


@dataclass(frozen=True)
class Step:
    """What a rule knows of the labels that are scored."""

    terms: tuple[str, ...]
    normalised: tuple[bool, ...]  # of each term: its scores are log-probabilities over all labels
    end: int  # the end label
    first: bool  # nothing has been said yet


class Rule:
    """One that changes nothing; a rule overrides what it needs."""

    def score(self, log_probs: list[Tensor], step: Step) -> None:
        """Change what the terms say, in place. (rows, V) each"""

    def restrict(self, combined: Tensor, step: Step) -> None:
        """Set the weighted sum of labels that may not come to -inf, in place. (rows, V)"""

    def stops(self, tokens: Tensor) -> Tensor | None:
        """Hypotheses that are dropped if there is any other, and must end otherwise. (B, K, n) -> (B, K)"""
        return None


class Suppression(Rule):
    """Labels that never come; terms that are normalised become so over the rest."""

    def __init__(self, always: Tensor | None, first: Tensor | None = None):
        """always: (V,) True where a label is suppressed. first: the same for the first label; None: as `always`."""
        ids = [None if mask is None else mask.nonzero().flatten() for mask in (always, first)]
        self.always, self.first = ids[0], ids[0] if first is None else ids[1]

    def ids(self, step: Step) -> Tensor | None:
        return self.first if step.first else self.always

    def score(self, log_probs: list[Tensor], step: Step) -> None:
        if (ids := self.ids(step)) is None:
            return
        for said, normalised in zip(log_probs, step.normalised, strict=True):
            if normalised:  # rewards stay as they are
                said.sub_(log_of_rest(said, ids))

    def restrict(self, combined: Tensor, step: Step) -> None:
        if (ids := self.ids(step)) is not None:
            combined.index_fill_(1, ids, float("-inf"))


class Mixing(Rule):
    """The language model is mixed with the internal one, as probabilities.

    P(v)  =  share · P_LM(v) + (1 − share) · P_ILM(v)

    What an LM of little text, or of another domain, has never seen gets a probability near zero, which as a logarithm
    outweighs what the recogniser hears. Mixed, P / P_ILM is never below 1 − share: a label that the LM expects gains,
    and all that it does not know loses the same little. LMs of words, whose scores are no probabilities of labels,
    stay as they are.
    """

    def __init__(self, share: float, lm: str = "lm", ilm: str = "ilm"):
        if not 0 < share < 1:
            raise FewerError(f"the LM's share of a mixture is {share:g}; it must be between 0 and 1")
        self.share, self.lm, self.ilm = share, lm, ilm

    def score(self, log_probs: list[Tensor], step: Step) -> None:
        if self.lm not in step.terms or self.ilm not in step.terms:
            return
        lm, ilm = step.terms.index(self.lm), step.terms.index(self.ilm)
        if step.normalised[lm] and step.normalised[ilm]:
            log_probs[lm] += math.log(self.share)
            torch.logaddexp(log_probs[lm], log_probs[ilm] + math.log1p(-self.share), out=log_probs[lm])


class Centring(Rule):
    """Language models say how much better or worse a label is than what the recogniser expects here.

    score(v)  =  log P(v) − Σ_u P_AED(u) · log P(u)

    Un-centred, each label costs about λ1·log P_LM − λ2·log P_ILM, so a hypothesis that says less wins wherever the
    recogniser's attention can jump over speech. Centred, the mean cost of a label is zero: length is not paid for, and
    where the recogniser is sure the language models are silent. The scores stay linear in the scales.
    """

    def __init__(
        self,
        terms: Collection[str] = ("lm", "ilm"),
        by: str = "aed",
        suppression: Suppression | None = None,
        end_scored_by: Collection[str] | None = None,  # as in `EndScoredBy`: means leave out an end that is not scored
    ):
        self.terms, self.by, self.suppression, self.end_scored_by = terms, by, suppression, end_scored_by

    def score(self, log_probs: list[Tensor], step: Step) -> None:
        centred = [place for place, term in enumerate(step.terms) if term in self.terms]
        if not centred:
            return
        expected = log_probs[step.terms.index(self.by)].exp()  # (rows, V)
        ids = None if self.suppression is None else self.suppression.ids(step)
        if ids is not None:
            expected.index_fill_(1, ids, 0.0)
        end = expected[:, step.end].clone()  # (rows,)
        expected[:, step.end] = 0.0
        rest = expected.sum(-1)  # (rows,)
        for place in centred:
            said = log_probs[place]  # (rows, V)
            total, mean = rest, torch.linalg.vecdot(expected, said)
            if self.end_scored_by is None or step.terms[place] in self.end_scored_by:
                total, mean = rest + end, mean + end * said[:, step.end]
            said -= (mean / total.clamp_min(LEAST))[:, None]


class EndScoredBy(Rule):
    """Of the end label only some terms have a say; the others' score of it is 0."""

    def __init__(self, terms: Collection[str]):
        self.terms = terms

    def score(self, log_probs: list[Tensor], step: Step) -> None:
        for place, term in enumerate(step.terms):
            if term not in self.terms:
                log_probs[place][:, step.end] = 0.0


class NoLoops(Rule):
    """No hypothesis says the same over and over."""

    def __init__(self, longest: int):
        """longest: labels of the block that is repeated."""
        self.longest = longest

    def stops(self, tokens: Tensor) -> Tensor | None:
        return repeats(tokens, self.longest)


def stopped(rules: Sequence[Rule], tokens: Tensor) -> Tensor | None:
    """What any of the rules stops; None if none has a say. (B, K, n) -> (B, K)"""
    found = [stops for rule in rules if (stops := rule.stops(tokens)) is not None]
    return torch.stack(found).any(0) if found else None


def log_of_rest(log_probs: Tensor, suppressed: Tensor) -> Tensor:
    """log of the probability that all labels but the suppressed ones have. (…, V), (ids,) -> (…, 1)

    The suppressed are few, so it is what they leave; exactly the sum of the rest where they leave little.
    """
    gone = log_probs.index_select(-1, suppressed).exp().sum(-1, keepdim=True)
    left, most = torch.log1p(-gone), gone > LITTLE
    if not free_to_ask(log_probs):
        rest = log_probs.index_fill(-1, suppressed, float("-inf")).logsumexp(-1, keepdim=True)
        return torch.where(most, rest, left)
    if bool((most := most.squeeze(-1)).any()):
        left[most] = log_probs[most].index_fill_(-1, suppressed, float("-inf")).logsumexp(-1, keepdim=True)
    return left


def repeats(tokens: Tensor, longest: int) -> Tensor:
    """Which sequences end with a block of at most `longest` labels over and over: (…, N) -> (…)

    Three times in a row, seven labels at least. Or with little differences, since a search that may not repeat itself
    goes on with another comma: of the last labels, too few are different (`POOR`).
    """
    count = tokens.shape[-1]
    found = torch.zeros(tokens.shape[:-1], dtype=torch.bool, device=tokens.device)
    for period in range(1, longest + 1):
        compared = max(2 * period, 6)
        if compared + period > count:
            break
        now, before = tokens[..., count - compared :], tokens[..., count - compared - period : count - period]
        found |= (now == before).all(dim=-1)
    for length, different in POOR.items():
        if count >= length:
            last = tokens[..., -length:].sort(dim=-1).values
            found |= (last[..., 1:] != last[..., :-1]).sum(dim=-1) < different
    return found
