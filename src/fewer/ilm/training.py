"""Training the small contexts with everything else frozen: Mini-LSTM, learned vector, state net, distillation."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.compute.world import World
from fewer.data.batches import Batch, TextBatch
from fewer.data.reading import Batches
from fewer.ilm.methods import IlmConfig, new_context
from fewer.models.aed import AED
from fewer.models.context import Context
from fewer.models.encoded import length_mask
from fewer.models.internal_lm import InternalLm
from fewer.training.lm_task import LmTask
from fewer.training.schedule import NewbobConfig, ScheduleConfig
from fewer.training.task import Losses, Moment, Task
from fewer.training.trainer import Trainer, TrainerConfig


def train_on_text(
    config: IlmConfig,
    aed: AED,
    train: Batches[TextBatch],
    dev: Batches[TextBatch],
    folder: Path,
    world: World,
    fingerprint: str,
) -> Context:
    """The context with which the decoder gives the transcripts the lowest perplexity."""
    task = LmTask(lambda: InternalLm(aed.decoder, new_context(config, aed)), train, dev, config.smoothing)
    return train_context(config, task, folder, world, fingerprint)


def distil(
    config: IlmConfig,
    aed: AED,
    train: Batches[Batch],
    dev: Batches[Batch],
    folder: Path,
    world: World,
    fingerprint: str,
) -> Context:
    """The context with which the decoder comes closest to the recogniser's posteriors, averaged over audio."""
    return train_context(config, DistilTask(config, aed, train, dev), folder, world, fingerprint)


class DistilTask(Task):
    """Minimise the mean KL from P_AED(· | y_<i, x) to P_ILM(· | y_<i): the best ILM is then the average over x."""

    def __init__(self, config: IlmConfig, aed: AED, train: Batches[Batch], dev: Batches[Batch]):
        self.config, self.aed, self.train, self.dev = config, aed.eval().requires_grad_(False), train, dev

    def stage(self, sub_epoch: int) -> int:
        return 0

    def build(self, stage: int) -> nn.Module:
        return InternalLm(self.aed.decoder, new_context(self.config, self.aed))

    def grow(self, old: nn.Module, new: nn.Module) -> None:
        raise NotImplementedError("an internal LM does not grow")

    def losses(self, module: Any, batch: Batch, moment: Moment) -> Losses:
        with torch.no_grad():
            encoded = self.aed.encode(batch.features, batch.feature_lengths)
            teacher = functional.log_softmax(self.aed.teacher_forced(encoded, batch.labels).logits, dim=-1)
        student = module.log_probs(batch.labels)  # (B, N, V)
        mask = length_mask(batch.label_lengths, batch.labels.shape[1])
        divergence = (functional.kl_div(student, teacher, reduction="none", log_target=True).sum(-1) * mask).sum()
        return Losses(divergence, {"ce": divergence.detach()})

    def penalty(self, module: nn.Module) -> Tensor | None:
        return None


def train_context(config: IlmConfig, task: Any, folder: Path, world: World, fingerprint: str) -> Context:
    """Train the task's module, an internal LM whose context alone has weights to train."""
    settings = TrainerConfig(
        seed=config.seed,
        sub_epochs=config.passes,
        schedule=schedule(config),
        device=str(world.device),
    )
    module: Any = Trainer(task, settings, folder, world, fingerprint).run()
    context: Context = module.context
    return context


def schedule(config: IlmConfig) -> ScheduleConfig:
    """The rate without warm-up, halved after every pass that hardly improves the dev set."""
    newbob = NewbobConfig(decay=0.5, window=1, hold=1, threshold=-0.002, relative_to_rate=False)
    return ScheduleConfig(peak=config.learning_rate, newbob=newbob)
