"""A Mini-LSTM that is taught the recogniser's own posteriors, averaged over audio.

A posterior is a softmax of the output layer, so all of the teacher's are known from what that layer reads: H numbers
for each label, computed once and kept on disk beside the labels.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.data.batches import Batch, TextBatch, pad
from fewer.data.manifest import Manifest
from fewer.data.plan import Items
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import TokenStore
from fewer.files import fingerprint
from fewer.ilm.estimate import IN_ORDER, Estimation
from fewer.ilm.method import IlmMethod
from fewer.ilm.methods.mini_lstm import new_context
from fewer.ilm.on_batches import on_batches
from fewer.ilm.training import internal_lm, train_context
from fewer.models.context import Context
from fewer.models.encoded import length_mask
from fewer.training.task import Losses, Moment, Task


@dataclass(frozen=True)
class TaughtBatch(TextBatch):
    """Transcripts with what the output layer of the teacher reads at each label."""

    teacher: Tensor  # (B, N, H)


class TaughtBatches(SentenceBatches):
    """The transcripts of a token store with the teacher's states, which lie in a file in the same order."""

    def __init__(self, store: TokenStore, teacher: Path, config: SentenceConfig, seed: int):
        super().__init__(store, config, seed)
        self.teacher = teacher

    def load(self, items: Items, sub_epoch: int, step: int = 0) -> TaughtBatch:
        batch = super().load(items, sub_epoch, step)
        states = np.memmap(self.teacher, "<f4", "r").reshape(len(self.store.labels), -1)  # (labels, H)
        ends = self.store.ends[items].astype(np.int64)
        spans = zip(ends.tolist(), batch.label_lengths.tolist(), strict=True)
        rows = [torch.from_numpy(states[end - length : end].copy()) for end, length in spans]
        empty = torch.zeros(0, states.shape[1])
        return TaughtBatch(batch.ids, batch.labels, batch.label_lengths, pad(rows, empty)[0])


class TeachingTask(Task):
    """Minimise the mean KL from P_AED(· | y_<i, x) to P_ILM(· | y_<i): the best ILM is then the average over x."""

    def __init__(self, estimation: Estimation, train: TaughtBatches, dev: TaughtBatches):
        self.estimation, self.train, self.dev = estimation, train, dev

    def build(self, stage: int) -> nn.Module:
        module: nn.Module = internal_lm(self.estimation)
        return module

    def losses(self, module: Any, batch: TaughtBatch, moment: Moment) -> Losses:
        mask = length_mask(batch.label_lengths, batch.labels.shape[1])
        teacher = functional.log_softmax(module.logits(batch.teacher[mask]), dim=-1)  # (labels, V)
        student = functional.log_softmax(module.logits(module.hidden(batch.labels)[mask]), dim=-1)
        divergence = functional.kl_div(student, teacher, reduction="sum", log_target=True)
        return Losses(divergence, {"kl": divergence.detach()})

    def watched(self, sub_epoch: int) -> str:
        return "kl"


def distil(estimation: Estimation) -> Context:
    task = TeachingTask(estimation, taught(estimation, estimation.train), taught(estimation, estimation.dev))
    return train_context(estimation, task, fingerprint(estimation.marks, "kl"))


def taught(estimation: Estimation, manifest: Path) -> TaughtBatches:
    """The transcripts of a manifest with the teacher's states, computed if need be."""
    store, config = estimation.tokens(manifest), estimation.config
    path = store.folder / f"teacher-{estimation.recogniser.fingerprint[:16]}.f32"
    if not estimation.engine.same(path.exists()):
        write_teacher(estimation, manifest, store, path)
    return TaughtBatches(store, path, SentenceConfig(max_size=config.batch), config.seed)


@torch.inference_mode()
def write_teacher(estimation: Estimation, manifest: Path, store: TokenStore, path: Path) -> None:
    """Compute the teacher's states of a manifest whose transcripts are in `store`."""
    recogniser, utterances, engine = estimation.recogniser, Manifest(manifest), estimation.engine
    lm = recogniser.language_model(recogniser.attention)
    said = np.array([bool(text.strip()) for text in utterances.texts()])
    sentences = np.cumsum(said) - 1  # empty ones are not in the store
    batches = recogniser.batches(utterances, IN_ORDER, transcripts=True)
    groups = [items for group in batches.plan(1) for items in group]
    places = {utterances.id(int(item)): int(item) for items in groups for item in items}
    partial = path.with_suffix(".partial")

    @torch.inference_mode()
    def read_by_output(batch: Batch) -> np.ndarray:
        """(B, N, H)"""
        return lm.hidden(batch.labels.to(recogniser.device), recogniser.encode(batch)).cpu().numpy()

    def write(batch: Batch) -> None:
        hidden, file = read_by_output(batch), np.memmap(partial, "<f4", "r+")
        states = file.reshape(len(store.labels), -1)  # (labels, H)
        for row, (id, length) in enumerate(zip(batch.ids, batch.label_lengths.tolist(), strict=True)):
            if said[places[id]]:
                end = int(store.ends[sentences[places[id]]])
                states[end - length : end] = hidden[row, :length]
        file.flush()

    if engine.first:
        width = read_by_output(batches.load(groups[0][:1], 1)).shape[2]
        np.memmap(partial, "<f4", "w+", shape=(len(store.labels), width)).flush()
    engine.wait()
    for _ in on_batches(engine, batches, write, recogniser.device, f"posteriors of {manifest.stem}"):
        pass
    engine.wait()
    if engine.first:
        partial.rename(path)
    engine.wait()


METHOD = IlmMethod(
    "distilled",
    "Internal LM: a small LSTM context taught by the recogniser's own posteriors.",
    symbol="Distilled",
    order=(4, 6),
    needs=("audio", "dev"),
    context=new_context,
    estimate=distil,
)
