"""From text files to an n-gram model: of all texts together, or mixed with weights from held-out text."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from fewer.config import Config
from fewer.data.spelling import Case
from fewer.data.token_store import store_tokens
from fewer.data.tokenizer import Tokenizer
from fewer.errors import FewerError
from fewer.models.ngram import NGram
from fewer.progress import say
from fewer.store.ngram_files import is_ngram_file, load_ngram, save_tensor_files
from fewer.training.columns import Column
from fewer.training.ngram import estimate
from fewer.training.ngram_disk import Estimator
from fewer.training.ngram_mixture import mix, mixture_weights

BLOCK = 1 << 20  # labels scored at a time


class NGramConfig(Config):
    order: int = Field(4, ge=1)  # length of the longest n-grams
    prune: tuple[int, ...] = ()  # for each length, n-grams that occur at most so often are dropped; the last goes on
    case: Case = "none"  # how text is changed before it is tokenised
    allow_unknown: bool = False  # what the vocabulary lacks becomes the unknown label instead of an error


@dataclass(frozen=True)
class Part:
    """One text of a mixture."""

    path: Path
    weight: float
    log_prob: float  # of the held-out text, under this part alone


@dataclass(frozen=True)
class TextNGram:
    """A model and how it came about."""

    model: NGram
    labels: int  # labels of the text, end labels counted
    parts: tuple[Part, ...] = ()  # of a mixture


def ngram_of_texts(
    texts: Sequence[Path], tokenizer: Tokenizer, config: NGramConfig, folder: Path, mix_on: Path | None = None
) -> TextNGram:
    """Estimate a model of all texts together; with `mix_on`, one of each, mixed to fit that held-out text best.

    When mixing, a text may also be an n-gram model that is there already. folder: where tokenised text is kept.
    """
    if mix_on is None:
        for path in texts:
            if is_ngram_file(path):
                raise FewerError(f"{path} is a model, not text; to mix it needs held-out text (--mix)")
        stream = store_tokens(texts, tokenizer, folder, config.case, config.allow_unknown).labels
        return TextNGram(_estimate(stream, tokenizer, config), len(stream))
    if len(texts) < 2:
        raise FewerError(f"there is only one text, {texts[0]}: nothing to mix")
    if mix_on in texts:
        raise FewerError(f"{mix_on} is one of the texts; weights come from text that no model has seen")
    held_out = store_tokens([mix_on], tokenizer, folder, config.case, config.allow_unknown).labels
    models, scores, labels = [], [], 0
    for path in texts:
        if is_ngram_file(path):
            model = load_ngram(path, tokenizer.labels, tokenizer.end).double()
        else:
            stream = store_tokens([path], tokenizer, folder, config.case, config.allow_unknown).labels
            labels += len(stream)
            model = _estimate(stream, tokenizer, config, torch.double)
        models.append(model)
        scores.append(stream_log_probs(model, held_out))
    weights = mixture_weights(torch.stack(scores))
    rows = zip(texts, weights.tolist(), scores, strict=True)
    parts = tuple(Part(Path(path), weight, float(score.sum())) for path, weight, score in rows)
    return TextNGram(mix(models, weights).float(), labels, parts)


def write_ngram_of_texts(
    texts: Sequence[Path], out: Path, tokenizer: Tokenizer, config: NGramConfig, folder: Path, memory: int
) -> tuple[tuple[int, ...], int]:
    """Estimate a model of all texts together into a binary file, with arrays of so many bytes at most.

    Returns the number of n-grams of each length, and of labels of the text.
    """
    store = store_tokens(texts, tokenizer, folder, config.case, config.allow_unknown)
    stream = Column(store.folder / "labels", store.summary.dtype)
    say(f"estimating {config.order}-grams of {len(stream):,} labels in files")
    with tempfile.TemporaryDirectory(dir=folder, prefix="sorting-") as work:
        estimator = Estimator(stream, config.order, tokenizer.size, tokenizer.end, Path(work), memory)
        files = estimator.estimate(config.prune)
        save_tensor_files(out, files.tensors, files.end, tokenizer.labels)
    return files.counts, len(stream)


def stream_log_probs(model: NGram, stream: np.ndarray) -> Tensor:
    """log P of every label of a stream of sentences, each closed by the end label. (labels,)"""
    ends = np.flatnonzero(np.asarray(stream) == model.end) + 1
    cuts = [0, *ends[np.searchsorted(ends, np.arange(BLOCK, len(stream), BLOCK))].tolist(), len(stream)]
    blocks = [torch.from_numpy(stream[a:b].astype(np.int64)) for a, b in pairwise(cuts) if b > a]
    return torch.cat([model.score(block[None])[0] for block in blocks])


def _estimate(stream: np.ndarray, tokenizer: Tokenizer, config: NGramConfig, dtype: torch.dtype = torch.float) -> NGram:
    say(f"estimating {config.order}-grams of {len(stream):,} labels")
    return estimate(stream, config.order, tokenizer.size, tokenizer.end, config.prune, dtype)
