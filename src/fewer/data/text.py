"""Text for language models: batches of sentences, or of equal pieces, from a token store."""

import numpy as np
import torch
from pydantic import Field

from fewer.data.batches import TextBatch, pad
from fewer.data.plan import Items, Plan, PlanConfig, make_plan
from fewer.data.reading import Batches
from fewer.data.token_store import TokenStore
from fewer.errors import FewerError
from fewer.progress import warn


class SentenceConfig(PlanConfig):
    """How text becomes batches. Sizes are in labels, end labels counted."""

    max_size: int = Field(4000, ge=1)
    piece: int | None = Field(None, ge=2)  # join all sentences and cut the text into pieces of so many labels


class SentenceBatches(Batches[TextBatch]):
    """The sentences of a token store as batches; with `piece`, equal pieces of the whole text instead."""

    def __init__(self, store: TokenStore, config: SentenceConfig, seed: int = 1):
        self.store, self.config, self.seed = store, config, seed
        self.count = len(store) if config.piece is None else -(-len(store.labels) // config.piece)
        self._check_lengths()

    def plan(self, sub_epoch: int) -> Plan:
        return make_plan(self.config, self.seed, sub_epoch, self.count, self.lengths)

    def load(self, items: Items, sub_epoch: int, step: int = 0) -> TextBatch:
        piece = self.config.piece
        if piece is None:
            sentences = [self.store[item] for item in items.tolist()]
        else:
            sentences = [
                self.store.labels[item * piece : (item + 1) * piece].astype(np.int64) for item in items.tolist()
            ]
        labels, lengths = pad([torch.from_numpy(one) for one in sentences], empty=torch.zeros(0, dtype=torch.long))
        name = "sentence" if piece is None else "piece"
        return TextBatch([f"{name}-{item}" for item in items.tolist()], labels, lengths)

    def lengths(self, items: Items) -> np.ndarray:
        """Labels of each item. (n,) int64"""
        if self.config.piece is None:
            return self.store.lengths(items)
        return np.minimum(self.config.piece, len(self.store.labels) - items * self.config.piece)

    def _check_lengths(self) -> None:
        limit = min([self.config.max_size, *self.config.max_size_from.values()])
        count, longest, where = 0, 0, 0
        for first in range(0, self.count, 1 << 16):
            lengths = self.lengths(np.arange(first, min(first + (1 << 16), self.count)))
            count += int((lengths > limit).sum())
            if lengths.max() > longest:
                longest, where = int(lengths.max()), first + int(lengths.argmax())
        if not count:
            return
        message = f"{self.store.folder}: {count} of {self.count} sentences do not fit into a batch of {limit} labels; "
        message += f"the longest, sentence {where}, has {longest}"
        if not self.config.skip_long:
            raise FewerError(f"{message}; raise max_size, or leave them out with skip_long")
        warn(f"{message}: left out")
