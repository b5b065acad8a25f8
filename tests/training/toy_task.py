"""A task small enough to train in a second, with everything the trainer must cope with: dropout, growing, L2."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fewer.compute.world import World, alone, joined
from fewer.data.plan import Items, Plan, PlanConfig, make_plan
from fewer.data.reading import Batches
from fewer.training.objective import l2, smoothed_cross_entropy
from fewer.training.task import Losses, Moment, Task
from fewer.training.trainer import Trainer, TrainerConfig

LABELS = 7


@dataclass(frozen=True)
class ToyBatch:
    ids: list[str]
    labels: Tensor
    label_lengths: Tensor


class ToyNet(nn.Module):
    """Guesses each label from the one before it."""

    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.embedding = nn.Embedding(LABELS, width)
        self.output = nn.Linear(width, LABELS)
        self.frozen = nn.Parameter(torch.full((LABELS,), 0.5), requires_grad=False)
        self.rare = nn.Parameter(torch.zeros(()))  # used by batches without item 0 only
        self.dropout = nn.Dropout(dropout)

    def forward(self, labels: Tensor, use_rare: bool) -> Tensor:
        before = torch.cat([torch.zeros_like(labels[:, :1]), labels[:, :-1]], dim=1)
        logits = self.output(self.dropout(self.embedding(before))) + self.frozen
        return functional.log_softmax(logits + self.rare if use_rare else logits, dim=-1)


class ToyData(Batches[ToyBatch]):
    """Sequences of 1–9 labels."""

    def __init__(self, items: int, accumulate: int):
        self.config = PlanConfig(max_size=40, max_sequences=6, accumulate=accumulate, sub_epochs=2)
        rng = np.random.default_rng(0)
        self.sequences = [rng.integers(0, LABELS, rng.integers(1, 10)) for _ in range(items)]

    def plan(self, sub_epoch: int) -> Plan:
        lengths = np.array([len(sequence) for sequence in self.sequences])
        return make_plan(self.config, 1, sub_epoch, len(lengths), lambda items: lengths[items])

    def load(self, items: Items, sub_epoch: int, step: int = 0) -> ToyBatch:
        labels = [torch.tensor(self.sequences[item]) for item in items]
        lengths = torch.tensor([len(sequence) for sequence in labels])
        ids = [f"item-{item}" for item in items]
        return ToyBatch(ids, nn.utils.rnn.pad_sequence(labels, batch_first=True), lengths)


class ToyTask(Task):
    """Item number `poison` makes the loss infinite after the first sub-epoch, or its gradient alone."""

    def __init__(
        self,
        dropout: float = 0.0,
        grows_at: int = 0,
        accumulate: int = 1,
        poison: int = -1,
        items: int = 50,
        poison_gradient: bool = False,
    ):
        self.dropout, self.grows_at, self.poison, self.poison_gradient = dropout, grows_at, poison, poison_gradient
        self.train, self.dev = ToyData(items, accumulate), ToyData(items, accumulate)

    def stage(self, sub_epoch: int) -> int:
        return int(0 < self.grows_at <= sub_epoch)

    def build(self, stage: int) -> nn.Module:
        return ToyNet((3, 5)[stage], self.dropout)

    def grow(self, old: nn.Module, new: nn.Module) -> None:
        for before, after in zip(old.parameters(), new.parameters(), strict=True):
            after[tuple(slice(size) for size in before.shape)] = before

    def losses(self, module: nn.Module, batch: ToyBatch, moment: Moment) -> Losses:
        log_probs = module(batch.labels, use_rare="item-0" not in batch.ids)
        total = smoothed_cross_entropy(log_probs, batch.labels, batch.label_lengths, 0.1)
        if f"item-{self.poison}" in batch.ids and moment.training and moment.sub_epoch > 1:
            total = total + (0 * module.rare).sqrt() if self.poison_gradient else total * float("inf")  # type: ignore[operator]
        return Losses(total, {"ce": smoothed_cross_entropy(log_probs.detach(), batch.labels, batch.label_lengths)})

    def penalty(self, module: nn.Module) -> Tensor | None:
        return l2(module.output.parameters(), 0.01)


def toy_config(**changes: object) -> TrainerConfig:
    values = {
        "sub_epochs": 4,
        "schedule": {"peak": 0.05, "warm_up_from": 0.01, "warm_up": 2, "newbob": {"window": 1, "hold": 1}},
        "checkpoint_minutes": 0,
        "device": "cpu",
    }
    return TrainerConfig.model_validate(values | changes)


def train_toy(task: ToyTask, config: TrainerConfig, folder: str, world: World | None = None) -> dict[str, Tensor]:
    """Train and return the final weights."""
    torch.set_num_threads(1)
    trainer = Trainer(task, config, folder, world or alone(), "toy")
    return {name: tensor.clone() for name, tensor in trainer.run().state_dict().items()}


def toy_process(folder: str, options: dict[str, int | float], changes: dict[str, object]) -> None:
    """A process that trains the toy task, alone or as one of those that its environment names; keeps the result."""
    with joined("cpu") as world:
        weights = train_toy(ToyTask(**options), toy_config(**changes), folder, world)  # type: ignore[arg-type]
        if world.first:
            torch.save(weights, f"{folder}/weights.pt")
