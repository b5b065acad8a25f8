"""What an internal LM says of hypotheses that are given: all positions at once, each distinct prefix once."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fewer.data.batches import pad
from fewer.models.context import Context
from fewer.models.encoded import Encoded
from fewer.recognisers.recogniser import Recogniser
from fewer.search.nbest import Hypothesis


@torch.inference_mode()
def context_scores(
    recogniser: Recogniser,
    context: Context,
    hypotheses: Sequence[Hypothesis],
    encoded: Encoded | None = None,
    utterance: int = 0,
    end_scored: bool = True,
) -> list[float]:
    """log P of an utterance's hypotheses under a context, as the recogniser's scorer and `Fusion` say it in a search.

    encoded: encoder states of a batch in which it is number `utterance`, for a context that hears it. end_scored:
    whether the end label counts.
    """
    end = recogniser.tokenizer.end
    rows = [torch.tensor([*h.tokens, end] if h.ended else [*h.tokens], dtype=torch.long) for h in hypotheses]
    labels, _ = pad(rows, empty=torch.zeros(0, dtype=torch.long))  # (H, N)
    first: dict[tuple[int, ...], tuple[int, int]] = {}  # prefix -> where it is found: hypothesis, position
    for row, tokens in enumerate(rows):
        for position in range(len(tokens)):
            first.setdefault(tuple(tokens[:position].tolist()), (row, position))
    places = {prefix: place for place, prefix in enumerate(first)}  # the empty one comes first
    lm = recogniser.language_model(context)
    heard = None if encoded is None else encoded.select(torch.tensor([utterance]))
    hidden = lm.hidden(labels.to(recogniser.device), heard)  # (H, N, D)
    where = torch.tensor(list(first.values()), device=hidden.device)  # (prefixes, 2)
    logits = lm.logits(hidden[where[:, 0], where[:, 1]]).cpu()  # (prefixes, V)
    for mask, these in ((recogniser.suppress_first, logits[:1]), (recogniser.suppress, logits[1:])):
        if mask is not None:
            these.index_fill_(1, mask.cpu().nonzero().flatten(), float("-inf"))
    total = logits.logsumexp(-1)  # (prefixes,)
    return [_sum(tokens, places, logits, total, end, end_scored) for tokens in rows]


def _sum(
    tokens: Tensor, places: dict[tuple[int, ...], int], logits: Tensor, total: Tensor, end: int, end_scored: bool
) -> float:
    labels = tokens.tolist()
    at = torch.tensor([places[tuple(labels[:position])] for position in range(len(labels))])
    said = (logits[at, tokens] - total[at]).double()
    return float(said.sum() if end_scored else said[tokens != end].sum())
