"""Batched beam search over utterances × beam (SPEC §6). It knows weighted terms and nothing about speech.

An ended hypothesis stays in the beam and competes with the others by its score, which is normalised by length unless
the policy says otherwise; an utterance is done when its whole beam has ended or is as long as allowed.
"""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fewer.errors import FewerError
from fewer.models.tree import select_rows
from fewer.search.fusion import Fusion
from fewer.search.nbest import Hypothesis, LengthPolicy
from fewer.search.scorer import first_labels


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


def beam_search(
    fusion: Fusion,
    encoded: Sized,
    max_lengths: Tensor,
    options: SearchOptions = SearchOptions(),
    to_text: Callable[[Sequence[int]], str] = lambda tokens: " ".join(map(str, tokens)),
) -> list[tuple[Hypothesis, ...]]:
    """N-best lists of all utterances, best first. max_lengths: (B,) labels at most, end label counted."""
    if options.max_length is not None:
        max_lengths = max_lengths.clamp_max(options.max_length)
    if len(max_lengths) and int(max_lengths.min()) < 1:
        raise SearchError(int(max_lengths.argmin()), "it may have no label: is it empty?")
    results: list[tuple[Hypothesis, ...]] = [()] * len(encoded)
    with torch.inference_mode():
        memory, states = fusion.start(encoded)
        utterances = torch.arange(len(encoded))  # which ones are still being searched
        beam = _empty_beam(len(encoded), len(fusion.terms), max_lengths.device)
        labels = first_labels(len(encoded), max_lengths.device)
        step = 0
        while len(utterances):
            combined, log_probs, states = fusion.step(memory, states, labels, first=step == 0)
            step += 1
            try:
                beam, parents, labels = _extend(fusion, beam, combined, log_probs, step, options)
            except SearchError as error:
                raise SearchError(int(utterances[error.index]), error.problem) from None
            done = beam.ended.all(dim=1) | (max_lengths <= step)
            going = torch.arange(len(utterances), device=done.device)
            if done.any():
                finished = done.nonzero().flatten()
                lists = _hypotheses(fusion, Beam(**select_rows(vars(beam), finished)), options, to_text)
                for utterance, hypotheses in zip(utterances[finished.cpu()].tolist(), lists, strict=True):
                    results[utterance] = hypotheses
                going = (~done).nonzero().flatten()
                memory = fusion.select(memory, going)
                beam = Beam(**select_rows(vars(beam), going))
                utterances, max_lengths = utterances[going.cpu()], max_lengths[going]
                parents, labels = parents[going], labels[going]
            parents, labels = parents.flatten(), labels.flatten()
            states = fusion.reorder(states, parents)
    return results


def _empty_beam(utterances: int, terms: int, device: torch.device) -> Beam:
    zeros = torch.zeros(utterances, 1, device=device)
    scores = torch.zeros(utterances, 1, terms, dtype=torch.float64, device=device)
    tokens = torch.zeros(utterances, 1, 0, dtype=torch.long, device=device)
    kept = scores[:, :, None][:, :, :0]
    return Beam(zeros.double(), scores, zeros.double(), zeros.long(), zeros.bool(), tokens, kept)


def _extend(
    fusion: Fusion, beam: Beam, combined: Tensor, log_probs: Tensor, step: int, options: SearchOptions
) -> tuple[Beam, Tensor, Tensor]:
    """The best continuations: the new beam, and the row each came from and its label, both (B, K)."""
    utterances, width = beam.total.shape
    vocab_size = combined.shape[-1]
    combined = combined.view(utterances, width, vocab_size)
    combined[beam.ended] = float("-inf")
    combined[:, :, fusion.end].masked_fill_(beam.ended, 0.0)  # an ended hypothesis has one continuation: itself
    beam = _without_stopped(fusion, beam, combined)
    length = torch.where(beam.ended, beam.length, step)
    # Ranks are affine in the score of the next label, so the best labels of a row are the best of `combined`.
    count = min(options.beam, vocab_size)
    best, labels = combined.topk(count, dim=-1)  # (B, K, count)
    totals = beam.total[:, :, None] + best
    ranks = options.length.score(totals, length[:, :, None])
    ranks = ranks.masked_fill(beam.rank[:, :, None].isneginf(), float("-inf")).flatten(1)
    if bool((bad := ranks.isnan().any(dim=1)).any()):
        problem = f"a score is not a number at label {step}: look at the term '{fusion.culprit(log_probs)}'"
        raise SearchError(int(bad.int().argmax()), problem)
    rank, flat = ranks.topk(min(options.beam, ranks.shape[1]), dim=-1)  # (B, K')
    parent = flat.div(count, rounding_mode="floor")  # (B, K')
    label = labels.flatten(1).gather(1, flat)
    was_ended = beam.ended.gather(1, parent)
    rows = parent + torch.arange(utterances, device=parent.device)[:, None] * width  # (B, K')
    gained = log_probs[:, rows, label].movedim(0, -1).double()  # (B, K', terms)
    scores = beam.scores.flatten(0, 1)[rows] + gained.masked_fill(was_ended[:, :, None], 0.0)
    tokens = torch.cat([beam.tokens.flatten(0, 1)[rows], label[:, :, None]], dim=2)
    ended = was_ended | (label == fusion.end) | rank.isneginf()
    kept = beam.label_scores.flatten(0, 1)[rows]  # (B, K', steps, terms)
    if options.label_scores:
        kept = torch.cat([kept, gained[:, :, None]], dim=2)
    new = Beam(totals.flatten(1).gather(1, flat), scores, rank, length.gather(1, parent), ended, tokens, kept)
    return new, rows, label


def _without_stopped(fusion: Fusion, beam: Beam, combined: Tensor) -> Beam:
    """A hypothesis that may not go on is dropped if the utterance has any other, and else must end (in `combined`)."""
    stopped = fusion.stopped(beam.tokens)
    if stopped is None or not bool((stopped := stopped & ~beam.ended).any()):
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
