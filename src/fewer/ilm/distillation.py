"""Teaching a small context Whisper's own posteriors, averaged over audio.

A posterior is a softmax of the output layer, so all of the teacher's are known from what that layer reads: D numbers
for each label, computed once and kept on disk beside the labels.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.data.batches import TextBatch, UtteranceConfig, pad
from fewer.data.manifest import Manifest
from fewer.data.plan import Items
from fewer.data.text import SentenceBatches, SentenceConfig
from fewer.data.token_store import TokenStore
from fewer.ilm.methods import IlmConfig
from fewer.models.encoded import length_mask
from fewer.progress import Bar
from fewer.recognisers.whisper.internal_lm import WhisperLm
from fewer.recognisers.whisper.recogniser import WhisperRecogniser
from fewer.training.task import Losses, Moment, Task


@dataclass(frozen=True)
class TaughtBatch(TextBatch):
    """Transcripts with what the output layer of the teacher reads at each label."""

    teacher: Tensor  # (B, N, D)


class TaughtBatches(SentenceBatches):
    """The transcripts of a token store with the teacher's states, which lie in a file in the same order."""

    def __init__(self, store: TokenStore, teacher: Path, size: int, config: SentenceConfig, seed: int):
        super().__init__(store, config, seed)
        self.teacher, self.size = teacher, size

    def load(self, items: Items, sub_epoch: int, step: int = 0) -> TaughtBatch:
        batch = super().load(items, sub_epoch, step)
        states = np.memmap(self.teacher, "<f4", "r", shape=(len(self.store.labels), self.size))
        ends = self.store.ends[items].astype(np.int64)
        spans = zip(ends.tolist(), batch.label_lengths.tolist(), strict=True)
        rows = [torch.from_numpy(states[end - length : end].copy()) for end, length in spans]
        return TaughtBatch(batch.ids, batch.labels, batch.label_lengths, pad(rows, torch.zeros(0, self.size))[0])


class TeachingTask(Task):
    """Minimise the mean KL from P_AED(· | y_<i, x) to P_ILM(· | y_<i): the best ILM is then the average over x."""

    def __init__(self, config: IlmConfig, recogniser: WhisperRecogniser, train: TaughtBatches, dev: TaughtBatches):
        self.config, self.recogniser, self.train, self.dev = config, recogniser, train, dev

    def stage(self, sub_epoch: int) -> int:
        return 0

    def build(self, stage: int) -> nn.Module:
        return self.recogniser.language_model(self.recogniser.new_context(self.config))

    def grow(self, old: nn.Module, new: nn.Module) -> None:
        raise NotImplementedError("an internal LM does not grow")

    def losses(self, module: Any, batch: TaughtBatch, moment: Moment) -> Losses:
        mask = length_mask(batch.label_lengths, batch.labels.shape[1])
        decoder = self.recogniser.decoder
        teacher = functional.log_softmax(decoder.logits(batch.teacher[mask]), dim=-1)  # (labels, V)
        student = functional.log_softmax(decoder.logits(module.hidden(batch.labels)[mask]), dim=-1)
        divergence = functional.kl_div(student, teacher, reduction="sum", log_target=True)
        return Losses(divergence, {"ce": divergence.detach()})

    def penalty(self, module: nn.Module) -> Tensor | None:
        return None


@torch.inference_mode()
def write_teacher(recogniser: WhisperRecogniser, manifest: Path, store: TokenStore, path: Path) -> None:
    """Compute the teacher's states of a manifest whose transcripts are in `store`."""
    utterances = Manifest(manifest)
    lm: WhisperLm = recogniser.language_model(recogniser.attention)
    partial = path.with_suffix(".partial")
    states = np.memmap(partial, "<f4", "w+", shape=(len(store.labels), recogniser.decoder.size))
    sentences = np.cumsum([bool(text.strip()) for text in utterances.texts()]) - 1  # empty ones are not in the store
    batches = recogniser.batches(utterances, UtteranceConfig(max_size=16_000, max_sequences=32, order="sorted"), True)
    with Bar(f"posteriors of {manifest.stem}", len(utterances)) as bar:
        for group in batches.plan(1):
            for items in group:
                batch = batches.load(items, 1)
                hidden = lm.hidden(batch.labels, recogniser.encode(batch))  # (B, N, D)
                for row, (item, length) in enumerate(zip(items.tolist(), batch.label_lengths.tolist(), strict=True)):
                    end = int(store.ends[sentences[item]])
                    states[end - length : end] = hidden[row, :length].cpu().numpy()
                bar.advance(len(items))
    states.flush()
    partial.rename(path)
