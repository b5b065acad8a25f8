"""The perplexity of a language model, internal or not, on transcripts (and, where it listens, their audio)."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from fewer.compute.engines.engine import Engine, Local
from fewer.data.batches import Batch, TextBatch
from fewer.data.reading import Batches
from fewer.data.spelling import check_case
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import store_tokens
from fewer.data.tokenizer import Tokenizer
from fewer.evaluation.perplexity import Perplexity, batch_perplexity
from fewer.ilm.on_batches import on_batches
from fewer.models.context import Context
from fewer.models.encoded import Encoded, length_mask
from fewer.models.lm import LanguageModel
from fewer.models.tree import device_of, exact

LABELS, SCORES = 4000, 50_000_000  # in a batch of text at most: labels, and scores of labels


@torch.inference_mode()
def perplexity(
    lm: LanguageModel,
    batches: Iterable[Batch | TextBatch],
    tokenizer: Tokenizer,
    encode: Callable[[Batch], Encoded] | None = None,
) -> Perplexity:
    """encode: what encodes speech batches for an internal LM that hears the utterance."""
    total = Perplexity()
    context, device = getattr(lm, "context", None), device_of(lm)
    for batch in batches:
        listens = isinstance(context, Context) and context.needs_encoder
        options: dict[str, Any] = {}
        if listens:
            if encode is None or not isinstance(batch, Batch):
                raise ValueError("this internal LM hears the utterance: give batches with audio, and the recogniser")
            options["encoded"] = encode(batch)
        labels, lengths = batch.labels.to(device), batch.label_lengths.to(device)
        sums = label_sums(lm.log_probs(labels, **options), labels, lengths)
        rows = zip(batch.labels.tolist(), batch.label_lengths.tolist(), strict=True)
        texts = [tokenizer.decode(labels[: length - 1]) for labels, length in rows]
        total += batch_perplexity(sums.tolist(), batch.label_lengths.tolist(), texts)
    return total


def perplexity_by(
    engine: Engine,
    lm: LanguageModel,
    batches: Batches[Batch] | Batches[TextBatch],
    tokenizer: Tokenizer,
    encode: Callable[[Batch], Encoded] | None = None,
) -> Perplexity:
    """The same of planned batches, which the engine divides among its workers."""

    def of_one(batch: Batch | TextBatch) -> Perplexity:
        return perplexity(lm, [batch], tokenizer, encode)

    device = device_of(lm)
    return sum(on_batches(engine, cast(Any, batches), of_one, device, "perplexity"), Perplexity())


def text_perplexity(
    lm: LanguageModel, tokenizer: Tokenizer, text: Path, case: str = "none", engine: Engine = Local()
) -> dict[str, Any]:
    """Of a text file, or of the transcripts of a manifest."""
    with tempfile.TemporaryDirectory() as folder:  # of each process of torchrun its own
        store = store_tokens([text], tokenizer, folder, check_case(case), allow_unknown=True)
        longest = int(store.lengths(np.arange(len(store))).max()) if len(store) else 1
        size = max(min(LABELS, SCORES // tokenizer.size), longest)
        batches = SentenceBatches(store, SentenceConfig(max_size=size, order="sorted"))
        return perplexity_by(engine, lm, batches, tokenizer).to_json()


def label_sums(log_probs: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
    """Σ_i log P(labels[i]) of each sequence. (B, N, V), (B, N), (B,) -> (B,)"""
    chosen = log_probs.gather(2, labels[:, :, None]).squeeze(2).to(exact(log_probs.device))
    return (chosen * length_mask(lengths, labels.shape[1])).sum(1)
