"""Scoring hypotheses that are given, exactly as a search that found them would have scored them."""

from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace

import torch

from fewer.models.tree import exact
from fewer.search.fusion import Fusion
from fewer.search.nbest import Hypothesis, NBest
from fewer.search.scorer import NOTHING


@torch.inference_mode()
def forced_scores(
    fusion: Fusion, encoded: Sized, hypotheses: Sequence[Sequence[Hypothesis]]
) -> list[list[dict[str, float]]]:
    """What every term of `fusion` says of the hypotheses of each utterance of `encoded`."""
    width = max(len(each) for each in hypotheses)
    labels = [
        [torch.tensor([*h.tokens, fusion.end] if h.ended else [*h.tokens], dtype=torch.long) for h in each]
        + [torch.zeros(0, dtype=torch.long)] * (width - len(each))
        for each in hypotheses
    ]
    rows = [row for each in labels for row in each]  # utterance-major
    device = fusion.device
    lengths = torch.tensor([len(row) for row in rows], device=device)
    padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fusion.end).to(device)  # (rows, N)
    memory, states = fusion.start(encoded)
    states = fusion.reorder(states, torch.arange(len(hypotheses), device=device)[:, None].expand(-1, width))
    every = torch.arange(len(rows), device=device)
    previous = torch.full((len(rows),), NOTHING, device=device)
    sums = torch.zeros(len(fusion.terms), len(rows), dtype=exact(device), device=device)
    for step in range(padded.shape[1]):
        _, log_probs, states = fusion.step(memory, states, previous, first=step == 0)
        previous = padded[:, step]
        said = torch.stack([term[every, previous] for term in log_probs]).to(sums.dtype)  # (terms, rows)
        sums += said.masked_fill(lengths <= step, 0.0)
    columns = sums.T.tolist()
    return [
        [dict(zip(fusion.terms, columns[utterance * width + place], strict=True)) for place in range(len(each))]
        for utterance, each in enumerate(hypotheses)
    ]


def add_terms(fusion: Fusion, batches: Iterable[tuple[Sequence[str], Sized]], lists: Sequence[NBest]) -> list[NBest]:
    """The lists with the scores of those terms of `fusion` that they lack; ranks stay as they were.

    `batches` are utterance ids and what the encoder made of them, together all utterances of the lists.
    """
    by_id = {nbest.id: nbest for nbest in lists}
    added: dict[str, NBest] = {}
    for ids, encoded in batches:
        found = forced_scores(fusion, encoded, [by_id[id].hypotheses for id in ids])
        for id, scores in zip(ids, found, strict=True):
            pairs = zip(by_id[id].hypotheses, scores, strict=True)
            added[id] = replace(by_id[id], hypotheses=tuple(replace(h, scores=s | h.scores) for h, s in pairs))
    return [added[nbest.id] for nbest in lists]
