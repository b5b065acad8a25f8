"""Batched beam search over utterances × beam (SPEC §6). It knows weighted terms and nothing about speech.

An ended hypothesis stays in the beam and competes with the others by its score, which is normalised by length unless
the policy says otherwise; an utterance is done when its whole beam has ended or is as long as allowed.

Rewards, those of hotwords, make a total positive where the recogniser is sure, and a positive total divided by a length
is the greater the shorter a hypothesis is: one that breaks off behind its hotwords would win. So a hypothesis that is
shorter than the one that is best without rewards has its own rewards divided by that one's length.
"""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.models.largest import largest
from fewer.models.tree import exact, free_to_ask, select_rows
from fewer.search.fusion import Fusion
from fewer.search.nbest import Hypothesis, LengthPolicy
from fewer.search.scorer import first_labels

GOING, DONE, BAD = range(3)  # what becomes of an utterance; bad: a score is not a number
CROWD = 0.5  # on a GPU, utterances that are done stay until no more than this share is being searched


@dataclass(frozen=True)
class SearchOptions:
    beam: int = 12  # hypotheses kept for each utterance: 12 (Switchboard, TED-LIUM), 32 (LibriSpeech)
    length: LengthPolicy = field(default_factory=LengthPolicy)
    n_best: int | None = None  # how many to return; None: the whole beam
    max_length: int | None = None  # labels at most; None: as many as the utterance has encoder frames
    label_scores: bool = field(default=False, repr=False)  # keep every term's score of every label

    def __post_init__(self) -> None:
        for name, value in (("beam", self.beam), ("n_best", self.n_best), ("max_length", self.max_length)):
            if value is not None and value < 1:
                raise FewerError(f"{name} is {value}; it must be at least 1")


class SearchError(FewerError):
    """A problem of one utterance: `index` is its place in the batch."""

    def __init__(self, index: int, problem: str):
        super().__init__(f"utterance {index} of the batch: {problem}")
        self.index, self.problem = index, problem


@dataclass
class Beam:
    """The hypotheses of the utterances that are still being searched. B utterances × K hypotheses."""

    total: Tensor  # (B, K) weighted sum of the terms
    scores: Tensor  # (B, K, terms) each term's own sum
    rank: Tensor  # (B, K) what they are ordered by; -inf: no hypothesis
    length: Tensor  # (B, K) labels, end label counted
    ended: Tensor  # (B, K)
    tokens: Tensor  # (B, K, steps) end label included
    label_scores: Tensor  # (B, K, steps, terms), or of no step if they are not kept

    def select(self, utterances: Tensor) -> "Beam":
        return Beam(**select_rows(vars(self), utterances))


def beam_search(
    fusion: Fusion,
    encoded: Sized,
    max_lengths: Tensor,
    options: SearchOptions = SearchOptions(),
    to_text: Callable[[Sequence[int]], str] = lambda tokens: " ".join(map(str, tokens)),
) -> list[tuple[Hypothesis, ...]]:
    """N-best lists of all utterances, best first. max_lengths: (B,) labels at most, end label counted."""
    device = fusion.device
    if options.max_length is not None:
        max_lengths = max_lengths.clamp_max(options.max_length)
    if len(max_lengths) and int(max_lengths.min()) < 1:
        raise SearchError(int(max_lengths.argmin()), "it may have no label: is it empty?")
    max_lengths = max_lengths.to(device)
    crowd = 1.0 if free_to_ask(max_lengths) else CROWD
    finished: list[tuple[list[int], Beam]] = []
    with torch.inference_mode():
        memory, states = fusion.start(encoded)
        utterances = list(range(len(encoded)))  # which one is at each place of the beam
        going = utterances  # places of those that are still being searched
        beam = _empty_beam(len(encoded), len(fusion.terms), device)
        labels = first_labels(len(encoded), device)
        step = 0
        while going:
            combined, log_probs, states = fusion.step(memory, states, labels, first=step == 0)
            step += 1
            beam, parents, labels, status = _extend(fusion, beam, combined, log_probs, step, options)
            now = torch.where(max_lengths <= step, status.clamp_min(DONE), status).tolist()  # the question of this step
            if bad := [place for place in going if now[place] == BAD]:
                problem = f"a score is not a number at label {step}: look at the term '{fusion.culprit(log_probs)}'"
                raise SearchError(utterances[bad[0]], problem)
            if done := [place for place in going if now[place]]:
                ended = _settled(fusion, beam.select(torch.tensor(done, device=device)), options.length)
                finished.append(([utterances[place] for place in done], ended))
                going = [place for place in going if not now[place]]
            if len(going) < len(utterances) and len(going) <= crowd * len(utterances):
                kept = torch.tensor(going, dtype=torch.long, device=device)
                memory, beam, max_lengths = fusion.select(memory, kept), beam.select(kept), max_lengths[kept]
                parents, labels = parents[kept], labels[kept]
                utterances = [utterances[place] for place in going]
                going = list(range(len(going)))
            labels = labels.flatten()
            states = fusion.reorder(states, parents)
        results: list[tuple[Hypothesis, ...]] = [()] * len(encoded)
        for places, last in finished:
            for utterance, hypotheses in zip(places, _hypotheses(fusion, last, options, to_text), strict=True):
                results[utterance] = hypotheses
    return results


def _empty_beam(utterances: int, terms: int, device: torch.device) -> Beam:
    zeros = torch.zeros(utterances, 1, dtype=exact(device), device=device)
    scores = zeros[:, :, None].expand(-1, -1, terms)
    tokens = torch.zeros(utterances, 1, 0, dtype=torch.long, device=device)
    kept = scores[:, :, None][:, :, :0]
    return Beam(zeros, scores, zeros, zeros.long(), zeros.bool(), tokens, kept)


def _extend(
    fusion: Fusion, beam: Beam, combined: Tensor, log_probs: Sequence[Tensor], step: int, options: SearchOptions
) -> tuple[Beam, Tensor, Tensor, Tensor]:
    """The best continuations: the new beam, the row each came from and its label, both (B, K), and what has become of
    each utterance: GOING, DONE or BAD (B,)."""
    utterances, width = beam.total.shape
    vocab_size = combined.shape[-1]
    combined = combined.view(utterances, width, vocab_size)
    if free_to_ask(combined):  # by row, which is much faster
        combined.view(-1, vocab_size).index_fill_(0, beam.ended.flatten().nonzero().flatten(), float("-inf"))
    else:
        combined.masked_fill_(beam.ended[:, :, None], float("-inf"))
    combined[:, :, fusion.end].masked_fill_(beam.ended, 0.0)  # an ended hypothesis has one continuation: itself
    beam = _without_stopped(fusion, beam, combined)
    length = torch.where(beam.ended, beam.length, step)
    # Ranks are affine in the score of the next label, so the best labels of a row are the best of `combined`.
    count = min(options.beam, vocab_size)
    best, labels = largest(combined, count)  # (B, K, count)
    totals = summed = beam.total[:, :, None] + best
    if fusion.rewards:
        withheld = _rewards(fusion, beam) * (1 - _share(fusion, beam, options.length))
        totals = totals - withheld[:, :, None]
    ranks = options.length.score(totals, length[:, :, None])
    ranks = ranks.masked_fill(beam.rank[:, :, None].isneginf(), float("-inf")).flatten(1)
    rank, flat = ranks.topk(min(options.beam, ranks.shape[1]), dim=-1)  # (B, K')
    parent = flat.div(count, rounding_mode="floor")  # (B, K')
    label = labels.flatten(1).gather(1, flat)
    was_ended = beam.ended.gather(1, parent)
    rows = parent + torch.arange(utterances, device=parent.device)[:, None] * width  # (B, K')
    gained = torch.stack([said[rows, label] for said in log_probs], dim=-1).to(beam.scores.dtype)  # (B, K', terms)
    scores = beam.scores.flatten(0, 1)[rows] + gained.masked_fill(was_ended[:, :, None], 0.0)
    tokens = torch.cat([beam.tokens.flatten(0, 1)[rows], label[:, :, None]], dim=2)
    ended = was_ended | (label == fusion.end) | rank.isneginf()
    kept = beam.label_scores.flatten(0, 1)[rows]  # (B, K', steps, terms)
    if options.label_scores:
        kept = torch.cat([kept, gained[:, :, None]], dim=2)
    new = Beam(summed.flatten(1).gather(1, flat), scores, rank, length.gather(1, parent), ended, tokens, kept)
    status = torch.where(ranks.isnan().any(dim=1), BAD, ended.all(dim=1).long())
    return new, rows, label, status


def _rewards(fusion: Fusion, beam: Beam) -> Tensor:
    """What rewards have added to the totals. (B, K)"""
    return sum((fusion.scales[fusion.terms[at]] * beam.scores[:, :, at] for at in fusion.rewards), 0.0 * beam.total)


def _share(fusion: Fusion, beam: Beam, policy: LengthPolicy) -> Tensor:
    """Of its rewards, what an ended hypothesis keeps beside the one that is best without any. (B, K)"""
    length = beam.length.clamp_min(1)
    without = policy.score(beam.total - _rewards(fusion, beam), length)
    best = without.masked_fill(beam.rank.isneginf(), float("-inf")).argmax(dim=1, keepdim=True)
    share = (length / torch.maximum(length, length.gather(1, best))) ** max(policy.exponent, 0.0)
    return share.masked_fill(~beam.ended, 1.0)


def _settled(fusion: Fusion, beam: Beam, policy: LengthPolicy) -> Beam:
    """A beam that is done, with as much of the rewards as counts, in the order that this gives."""
    if not fusion.rewards:
        return beam
    share = _share(fusion, beam, policy)
    total = beam.total - _rewards(fusion, beam) * (1 - share)
    scores, label_scores = beam.scores.clone(), beam.label_scores.clone()
    for at in fusion.rewards:
        scores[:, :, at] *= share
        label_scores[:, :, :, at] *= share[:, :, None]
    rank = policy.score(total, beam.length).masked_fill(beam.rank.isneginf(), float("-inf"))
    order = rank.argsort(dim=1, descending=True, stable=True)
    settled = Beam(total, scores, rank, beam.length, beam.ended, beam.tokens, label_scores)
    every = torch.arange(len(order), device=order.device)[:, None]
    return Beam(**{name: value[every, order] for name, value in vars(settled).items()})


def _without_stopped(fusion: Fusion, beam: Beam, combined: Tensor) -> Beam:
    """A hypothesis that may not go on is dropped if the utterance has any other, and else must end (in `combined`)."""
    stopped = fusion.stopped(beam.tokens)
    if stopped is None:
        return beam
    stopped = stopped & ~beam.ended
    if free_to_ask(stopped) and not bool(stopped.any()):
        return beam
    end = combined[:, :, fusion.end].clone()
    combined.masked_fill_(stopped[:, :, None], float("-inf"))
    combined[:, :, fusion.end] = end
    others = (~stopped & ~beam.rank.isneginf()).any(dim=1, keepdim=True)
    return replace(beam, rank=beam.rank.masked_fill(stopped & others, float("-inf")))


def _hypotheses(
    fusion: Fusion, beam: Beam, options: SearchOptions, to_text: Callable[[Sequence[int]], str]
) -> list[tuple[Hypothesis, ...]]:
    """The beam as N-best lists, best first."""
    lists = []
    columns = [value.tolist() for value in (beam.rank, beam.length, beam.scores, beam.tokens, beam.label_scores)]
    for utterance in zip(*columns, strict=True):
        hypotheses: list[Hypothesis] = []
        for rank, length, scores, tokens, kept in zip(*utterance, strict=True):
            if rank == float("-inf"):
                continue
            ended = tokens[length - 1] == fusion.end
            words = tuple(tokens[: length - 1] if ended else tokens[:length])
            terms = dict(zip(fusion.terms, scores, strict=True))
            labels = dict(zip(fusion.terms, zip(*kept[:length], strict=True), strict=True)) if kept else {}
            hypotheses.append(Hypothesis(to_text(words), words, terms, length, rank, ended, labels))
        lists.append(tuple(hypotheses[: options.n_best]))
    return lists
