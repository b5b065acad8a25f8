"""Adding a language model's score to N-best lists: any LM, of any tokenizer, since it reads the hypotheses' text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from fewer.data.batches import pad
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.ilm.perplexity import label_sums
from fewer.models.lm import LanguageModel
from fewer.models.tree import device_of
from fewer.progress import Bar, say
from fewer.search.nbest import Header, Hypothesis, NBest, check_number, read_header, read_nbest, write_nbest

UTTERANCES = 16  # lists scored together
SENTENCES, SCORES = 64, 1 << 27  # in one batch of the LM at most, and numbers that it gives for them
REMEMBERED = 1 << 16  # texts whose scores are kept for the next utterances


def rescore(
    nbest: str | Path, out: str | Path, lm: LanguageModel, tokenizer: Tokenizer, term: str, scale: float
) -> int:
    """Write the lists with one more term, ranked anew; returns the number of utterances."""
    check_number("the scale", scale)
    header = read_header(nbest)
    if term in header.terms:
        raise FewerError(f"{nbest} has a term '{term}' already; choose another name with --term")
    scales = {**header.scales, term: scale}
    new = Header((*header.terms, term), scales, header.length, header.info)

    known: dict[str, float] = {}

    def lists() -> Iterator[NBest]:
        source, asked = read_nbest(nbest), 0
        with Bar("rescoring") as bar:
            while chunk := list(islice(source, UTTERANCES)):
                texts = sorted({h.text for each in chunk for h in each.hypotheses} - known.keys())
                scores = known | dict(zip(texts, text_scores(texts, lm, tokenizer), strict=True))
                asked += len(texts)
                yield from _scored(chunk, scores, term, new)
                known.update((text, scores[text]) for text in texts[: REMEMBERED - len(known)])
                bar.advance(len(chunk))
        say(f"the LM scored {asked:,} texts")

    return write_nbest(out, new, lists())


def _scored(chunk: list[NBest], scores: Mapping[str, float], term: str, header: Header) -> Iterator[NBest]:
    for nbest in chunk:
        hypotheses = [_with_term(h, term, scores[h.text], header) for h in nbest.hypotheses]
        hypotheses.sort(key=lambda hypothesis: -hypothesis.score)
        yield replace(nbest, hypotheses=tuple(hypotheses))


def _with_term(hypothesis: Hypothesis, term: str, score: float, header: Header) -> Hypothesis:
    extended = replace(hypothesis, scores={**hypothesis.scores, term: score})
    return replace(extended, score=extended.rescored(header.scales, header.length))


@torch.inference_mode()
def text_scores(texts: list[str], lm: LanguageModel, tokenizer: Tokenizer) -> list[float]:
    """log P_LM of each text, its end included."""
    encoded = [torch.tensor([*tokenizer.encode(text), tokenizer.end]) for text in texts]
    order = sorted(range(len(texts)), key=lambda index: len(encoded[index]))
    scores, device = [0.0] * len(texts), device_of(lm)
    for rows in _batches(order, [len(labels) * lm.vocab_size for labels in encoded]):
        padded = pad([encoded[row] for row in rows], empty=torch.zeros(0, dtype=torch.long))
        labels, lengths = (tensor.to(device) for tensor in padded)
        for row, value in zip(rows, label_sums(lm.log_probs(labels), labels, lengths).tolist(), strict=True):
            scores[row] = value
    return scores


def _batches(order: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Texts in this order, shorter ones first, as many at once as have room. sizes: numbers for each."""
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) == SENTENCES or (len(batch) + 1) * sizes[row] > SCORES):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
