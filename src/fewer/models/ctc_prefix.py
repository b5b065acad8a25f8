"""The CTC prefix score of a recogniser's CTC branch as one more term of the search (Watanabe et al. 2017).

log P_CTC(next label | prefix) = log ψ(prefix + label) − log ψ(prefix), where ψ(g) is the probability of all label
sequences that begin with g, and for the end label of g itself. The terms of a hypothesis add up to log P_CTC(y | x).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fewer.models.aed import AED
from fewer.models.encoded import Encoded
from fewer.models.tree import TreeState

FLOOR = -1e4  # stands for log 0, so that scores stay finite under any scale


class CtcMemory(NamedTuple):
    log_probs: Tensor  # (B, T, V + 1), blank last
    probs: Tensor  # (B, T, V), of the labels
    lengths: Tensor  # (B,)


class CtcState(NamedTuple):
    label: Tensor | None  # (rows,) last label, −1 if there is none; None: nothing has been read
    blank: Tensor  # (rows, T) log-probability that the prefix is out after frame t, which is a blank
    last: Tensor  # (rows, T) … which is its last label
    prefix: Tensor  # (rows,) log ψ(prefix)


class CtcPrefixScorer(TreeState):
    """Scores the whole vocabulary with one batched product per step; the recursion over frames is for chosen labels."""

    def __init__(self, aed: AED, term: str = "ctc", end: int = 0):
        self.aed, self.end = aed, end
        self.terms: Sequence[str] = (term,)
        self.vocab_size = aed.vocab_size

    def start(self, encoded: Encoded) -> tuple[CtcMemory, CtcState]:
        log_probs = self.aed.ctc_log_probs(encoded)
        blank = log_probs[:, :, -1].cumsum(dim=1)  # the empty prefix: blanks so far
        rows = len(encoded)
        memory = CtcMemory(log_probs, log_probs[:, :, :-1].exp(), encoded.lengths)
        return memory, CtcState(None, blank, torch.full_like(blank, FLOOR), blank.new_zeros(rows))

    def step(self, memory: CtcMemory, state: CtcState, labels: Tensor) -> tuple[Tensor, CtcState]:
        state = state._replace(label=labels) if state.label is None else self._advance(memory, state, labels)
        assert state.label is not None
        utterances, frames = memory.log_probs.shape[:2]
        either = torch.logaddexp(state.blank, state.last)  # (rows, T)
        before = _shift(either, state.label < 0)  # prefix is out before frame t
        before_blank = _shift(state.blank, state.label < 0)  # … and frame t − 1 is a blank
        valid = torch.arange(frames, device=labels.device) < memory.lengths[:, None]  # (B, T)
        total = self._starting(memory, before.view(utterances, -1, frames), valid)  # (B, K, V)
        repeated = self._starting(memory, before_blank.view(utterances, -1, frames), valid)
        repeats = state.label.clamp_min(0)[:, None]
        extended, again = total.flatten(0, 1), repeated.flatten(0, 1)
        again = torch.where(state.label[:, None] < 0, extended.gather(1, repeats), again.gather(1, repeats))
        scores = extended.scatter(1, repeats, again)
        final = (memory.lengths - 1)[:, None].expand(-1, len(labels) // utterances).reshape(-1, 1)
        scores[:, self.end] = either.gather(1, final).squeeze(1)
        return (scores - state.prefix[:, None]).clamp_min(FLOOR).unsqueeze(0), state

    def _starting(self, memory: CtcMemory, before: Tensor, valid: Tensor) -> Tensor:
        """log Σ_t P(prefix is out before t) · P(label at t), the largest factor taken out. (B, K, T) -> (B, K, V)"""
        masked = before.masked_fill(~valid[:, None], FLOOR)
        largest = masked.amax(dim=-1, keepdim=True)
        return ((masked - largest).exp() @ memory.probs).clamp_min(1e-38).log() + largest

    def _advance(self, memory: CtcMemory, state: CtcState, labels: Tensor) -> CtcState:
        """The state after reading `labels`: the forward recursion over frames, for all rows at once."""
        utterances, frames = memory.log_probs.shape[:2]
        utterance = torch.arange(len(labels), device=labels.device) // (len(labels) // utterances)
        emitted = memory.log_probs[utterance, :, labels]  # (rows, T)
        blanks = memory.log_probs[:, :, -1][utterance]
        assert state.label is not None
        first = state.label < 0
        same = (labels == state.label)[:, None]
        ready = torch.where(same, state.blank, torch.logaddexp(state.blank, state.last))
        ready = _shift(ready, first)  # (rows, T)
        last, blank = [], []
        label_ends = blank_ends = torch.full_like(state.prefix, FLOOR)
        starts = torch.full_like(state.prefix, FLOOR)
        for t in range(frames):
            blank_ends = torch.logaddexp(blank_ends, label_ends) + blanks[:, t]
            started = ready[:, t] + emitted[:, t]
            label_ends = torch.logaddexp(label_ends + emitted[:, t], started)
            starts = torch.where(t < memory.lengths[utterance], torch.logaddexp(starts, started), starts)
            last.append(label_ends)
            blank.append(blank_ends)
        return CtcState(labels, torch.stack(blank, dim=1), torch.stack(last, dim=1), starts)


def _shift(values: Tensor, first: Tensor) -> Tensor:
    """values at frame t − 1; before the first frame only the empty prefix is out. (rows, T) -> (rows, T)"""
    start = torch.where(first, 0.0, FLOOR).to(values)
    return torch.cat([start[:, None], values[:, :-1]], dim=1)
