"""The trainer: steps, dev evaluation, checkpoints. It knows nothing of speech or language; a `Task` does.

Everything random in a step comes from a seed derived from where training stands, the learning rate is a function of the
finished sub-epochs, and a step's batches are a function of the sub-epoch. So a checkpoint needs weights, moments and
a few numbers only, and a run that was killed ends in the same weights as one that was not.
"""

import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import SGD, Adam, Optimizer

from fewer.compute.bfloat16 import check_bfloat16
from fewer.compute.world import World
from fewer.config import Config, complaints
from fewer.data.plan import Plan
from fewer.errors import FewerError
from fewer.progress import Bar
from fewer.store.checkpoint import Checkpoint, CheckpointFolder, load_moments, load_weights, training_tensors
from fewer.training.records import Records
from fewer.training.schedule import Finished, ScheduleConfig, learning_rate
from fewer.training.seeds import seed_moment
from fewer.training.shares import Share, read_shares
from fewer.training.task import Losses, Moment, Task, to_device

POINTS = 20  # curve points within a sub-epoch


class OptimizerConfig(Config):
    kind: Literal["adam", "sgd"] = "adam"
    betas: tuple[float, float] = (0.9, 0.999)  # adam only
    epsilon: float = 1e-8  # adam only
    clip: float | None = Field(default=None, gt=0)  # largest norm of the whole gradient; None: no clipping


class TrainerConfig(Config):
    seed: int = Field(default=1, ge=0)
    sub_epochs: int = Field(ge=1)  # how long to train
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig
    reduction: Literal["mean", "sum"] = "mean"  # mean: over the labels of the global batch; sum: as the original
    final: Literal["best", "last"] = "best"  # which weights training ends with: best on dev at full size, or the last
    bf16: bool = False  # compute in bfloat16 where torch's autocast deems it safe
    device: str = "auto"  # auto: a GPU if there is one
    workers: int = Field(default=0, ge=0)  # processes that read batches ahead; 0: the training process reads
    checkpoint_minutes: float = Field(default=10.0, ge=0)  # time between checkpoints within a sub-epoch
    tensorboard: bool = False  # curves for tensorboard besides curves.jsonl


@dataclass
class Progress:
    """Where a run stands and what is behind it; all of it is in checkpoints."""

    sub_epoch: int = 1  # the one under way
    step: int = 0  # steps done in it
    total_steps: int = 0  # steps done in the whole run
    stage: int = 0  # of growing, that the weights belong to
    sums: dict[str, float] = field(default_factory=dict)  # of this sub-epoch: losses and labels
    seconds: float = 0.0  # spent in this sub-epoch
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry for each finished sub-epoch

    def finished(self, watched: Callable[[int], str]) -> list[Finished]:
        """watched: names the dev loss of a sub-epoch that the learning rate follows."""
        named = [(entry, watched(entry["sub_epoch"])) for entry in self.history]
        return [Finished(entry["rate"], entry[f"dev_{kind}"], kind) for entry, kind in named]

    def best(self, watched: Callable[[int], str]) -> int | None:
        """The sub-epoch with the lowest dev loss among those of the last stage that have the same kind of loss."""
        if not self.history:
            return None
        stage, kind = self.history[-1]["stage"], watched(self.history[-1]["sub_epoch"])
        same = [entry for entry in self.history if (entry["stage"], watched(entry["sub_epoch"])) == (stage, kind)]
        best: int = min(same, key=lambda entry: entry[f"dev_{kind}"])["sub_epoch"]
        return best


def _progress(value: Any, source: Path) -> Progress:
    """What a checkpoint says of where the run stands."""
    try:
        return TypeAdapter(Progress).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise FewerError(f"{complaints(error, source)}; delete this checkpoint") from error


class Trainer:
    """Trains a task's module in a run folder, going on from the last checkpoint there."""

    def __init__(self, task: Task, config: TrainerConfig, folder: str | Path, world: World, fingerprint: str):
        """`fingerprint`: of everything that decides the result; a checkpoint with another one is not touched."""
        self.task, self.config, self.world, self.fingerprint = task, config, world, fingerprint
        self.folder = Path(folder)
        self.checkpoints = CheckpointFolder(self.folder / "checkpoints")
        self.progress = Progress()
        self.module: nn.Module
        self.optimizer: Optimizer
        self.forward: nn.Module
        self.records: Records | None = None

    def run(self, fall_back: bool = False) -> nn.Module:
        """Train to the end; returns the module with its final weights."""
        if self.config.bf16:
            check_bfloat16(self.world.device.type)
        self._restore(self.checkpoints.newest(fall_back))
        if self.world.first:
            done = self.progress
            self.records = Records(self.folder, done.total_steps, len(done.history), self.config.tensorboard)
        while self.progress.sub_epoch <= self.config.sub_epochs:
            self._grow_if_due()
            plan, dev = self.task.train.plan(self.progress.sub_epoch), self.task.dev.plan(1)
            title = f"sub-epoch {self.progress.sub_epoch}/{self.config.sub_epochs}"
            with self._bar(title, len(plan) - self.progress.step + len(dev)) as bar:
                self._train_sub_epoch(plan, bar)
                self._finish_sub_epoch(dev, bar)
        if self.records is not None:
            self.records.close()
        self.world.wait()  # for the first process to have written its last checkpoint
        if self.config.final == "best" and (best := self.progress.best(self.task.watched)) is not None:
            path = self.checkpoints.path(best + 1)
            load_weights(self.module, self.checkpoints.read(path).tensors, path)
        return self.module.eval()

    def _restore(self, checkpoint: Checkpoint | None) -> None:
        if checkpoint is None:
            self.progress = Progress(stage=self.task.stage(1))
            self._use(self._built(self.progress.stage))
            return
        if checkpoint.facts.get("fingerprint") != self.fingerprint:
            raise FewerError(
                f"{self.folder} holds a run with another configuration or other data; "
                "give another folder, or delete this one to start anew"
            )
        source = checkpoint.path or self.checkpoints.folder
        self.progress = _progress(checkpoint.facts.get("progress"), source)
        begun = len(self.progress.history) + (self.progress.step > 0)
        if begun > self.config.sub_epochs:
            raise FewerError(
                f"{self.folder} holds a run that is in sub-epoch {begun} already, but sub_epochs is "
                f"{self.config.sub_epochs}; set it to {begun} or more, or give another folder"
            )
        self._use(self._built(self.progress.stage))
        load_weights(self.module, checkpoint.tensors, source)
        load_moments(self.optimizer, self.module, checkpoint.tensors, source)

    def _built(self, stage: int) -> nn.Module:
        seed_moment(self.config.seed, "build", stage)
        return self.task.build(stage).to(self.world.device)

    def _use(self, module: nn.Module) -> None:
        """Train this module from now on, with an optimiser that has no moments yet."""
        self.module = module
        self.optimizer = make_optimizer(self.config.optimizer, trained(module))
        self.forward = _Forward(self.task, module, anchored=self.world.size > 1)
        if self.world.size > 1:
            self.forward = DistributedDataParallel(self.forward)

    def _grow_if_due(self) -> None:
        stage = self.task.stage(self.progress.sub_epoch)
        if stage == self.progress.stage:
            return
        module = self._built(stage)
        with torch.no_grad():
            self.task.grow(self.module, module)
        self._use(module)
        self.progress.stage = stage

    def _train_sub_epoch(self, plan: Plan, bar: "Bar | _Silent") -> None:
        progress, config = self.progress, self.config
        rate = learning_rate(config.schedule, progress.finished(self.task.steering))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        before = progress.total_steps - progress.step  # the sub-epoch
        start, workers = progress.step, config.workers
        shares = read_shares(self.task.train, plan, self.world, progress.sub_epoch, start, before, workers)
        self.module.train()
        saved = began = time.monotonic()
        spent = progress.seconds
        for share, batches in shares:
            self._step(share, batches, Moment(progress.sub_epoch, progress.total_steps))
            progress.step, progress.total_steps = share.step + 1, progress.total_steps + 1
            now = time.monotonic()
            progress.seconds = spent + now - began
            if self.records is not None and progress.step % max(len(plan) // POINTS, 1) == 0:
                self.records.point("step", progress.total_steps, self._train_means() | {"rate": rate})
            if now - saved >= 60 * config.checkpoint_minutes and progress.step < len(plan):
                self._save()
                saved = now
            bar.advance(note=self._note())

    def _step(self, share: Share, batches: list[Any], moment: Moment) -> None:
        """One optimiser step on this process's share of the global batch."""
        labels = share.weight * sum(int(batch.label_lengths.sum()) for batch in batches)
        (all_labels,) = self.world.sum([labels])
        scale = self.world.size * (1 / all_labels if self.config.reduction == "mean" else 1.0)  # DDP takes the mean
        seed_moment(self.config.seed, "step", moment.sub_epoch, moment.step, self.world.rank)
        self.optimizer.zero_grad(set_to_none=True)
        parts: list[dict[str, Tensor]] = []
        for index, batch in enumerate(batches):
            last = index == len(batches) - 1
            with nullcontext() if last or self.world.size == 1 else self.forward.no_sync():  # type: ignore[operator]
                losses, penalty = self._losses(batch, moment, with_penalty=last)
                total = share.weight * losses.total
                if penalty is not None:
                    total = total + penalty * (share.planned / self.world.size)
                (scale * total).backward()
            parts.append({"loss": losses.total.detach(), **losses.parts})
        for parameter in self.task.frozen(self.module, moment.sub_epoch):
            parameter.grad = None  # Adam would make whole steps of a mere penalty, and count those of no gradient
        norm = get_total_norm([p.grad for p in trained(self.module) if p.grad is not None])
        self._count(parts, batches, share.weight, all_labels, float(norm))
        if self.config.optimizer.clip is not None:
            clip_grads_with_norm_(trained(self.module), self.config.optimizer.clip, norm)
        self.optimizer.step()

    def _losses(self, batch: Any, moment: Moment, with_penalty: bool) -> tuple[Losses, Tensor | None]:
        device = self.world.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self.config.bf16):
            return self.forward(to_device(batch, device), moment, with_penalty)

    def _count(
        self, parts: list[dict[str, Tensor]], batches: list[Any], weight: float, labels: float, norm: float
    ) -> None:
        """Add the step's losses to the sub-epoch's sums; stop if a loss or the gradient is not finite."""
        names = list(parts[0])
        values = torch.stack([torch.stack([part[name].float() for name in names]) for part in parts]).tolist()
        bad = [batch for batch, row in zip(batches, values, strict=True) if not all(map(math.isfinite, row))]
        sums = [weight * sum(column) for column in zip(*values, strict=True)]
        *sums, any_bad = self.world.sum([*sums, float(len(bad))])
        if any_bad or not math.isfinite(norm):
            named = [list(batch.ids) for batch in (bad if any_bad else batches)]
            ids = [id for rank in self.world.gather(named) for group in rank for id in group]
            raise FewerError(self._not_finite("a loss" if any_bad else "the gradient", ids))
        for name, value in zip([*names, "labels"], [*sums, labels], strict=True):
            self.progress.sums[name] = self.progress.sums.get(name, 0.0) + value

    def _not_finite(self, what: str, ids: list[str]) -> str:
        progress = self.progress
        return (
            f"{what} is not finite in sub-epoch {progress.sub_epoch}, step {progress.step + 1}, in the batch of "
            f"{', '.join(ids)}; {self._last_good()}. Look at these utterances, or lower the learning rate"
        )

    def _last_good(self) -> str:
        files = self.checkpoints.files()
        return f"the last good checkpoint is {files[-1]}" if files else "there is no checkpoint yet"

    def _finish_sub_epoch(self, dev: Plan, bar: "Bar | _Silent") -> None:
        progress, began = self.progress, time.monotonic()
        means = self.evaluate(dev, bar)
        entry: dict[str, Any] = {
            "sub_epoch": progress.sub_epoch,
            "stage": progress.stage,
            "rate": self.optimizer.param_groups[0]["lr"],
            "seconds": round(progress.seconds + time.monotonic() - began, 1),
        }
        entry |= {f"train_{name}": value for name, value in self._train_means().items()}
        entry |= {f"dev_{name}": value for name, value in means.items()}
        progress.history.append(entry)
        progress.sub_epoch, progress.step, progress.sums, progress.seconds = progress.sub_epoch + 1, 0, {}, 0.0
        if self.records is not None:
            self.records.point("sub_epoch", progress.total_steps, entry)
            self.records.tell(describe(entry, self.config.sub_epochs, self.task.watched(entry["sub_epoch"])))
        self._save()

    @torch.no_grad()
    def evaluate(self, plan: Plan, bar: "Bar | _Silent") -> dict[str, float]:
        """Mean dev losses per label, in evaluation mode, every process on its share."""
        self.module.eval()
        moment = Moment(self.progress.sub_epoch, self.progress.total_steps, training=False)
        sums: dict[str, float] = {"labels": 0.0}
        for share, batches in read_shares(self.task.dev, plan, self.world, 1, 0, 0, self.config.workers):
            for batch in batches:
                losses = self.task.losses(self.module, to_device(batch, self.world.device), moment)
                sums["labels"] += share.weight * float(batch.label_lengths.sum())
                for name, value in losses.parts.items():
                    sums[name] = sums.get(name, 0.0) + share.weight * float(value)
            bar.advance()
        totals = dict(zip(sums, self.world.sum(list(sums.values())), strict=True))
        means = {name: value / totals["labels"] for name, value in totals.items() if name != "labels"}
        if not math.isfinite(means[self.task.watched(moment.sub_epoch)]):
            raise FewerError(
                f"the dev loss is not finite after sub-epoch {self.progress.sub_epoch}; {self._last_good()}. "
                "Lower the learning rate"
            )
        return means

    def _train_means(self) -> dict[str, float]:
        sums = self.progress.sums
        return {name: value / sums["labels"] for name, value in sums.items() if name != "labels"}

    def _note(self) -> str:
        means = self._train_means()
        return f"loss {means['loss']:.3f}" + (f" ppl {perplexity(means['ce']):.2f}" if "ce" in means else "")

    def _bar(self, description: str, total: int) -> "Bar | _Silent":
        return Bar(description, total) if self.world.first else _Silent()

    def _save(self) -> None:
        if not self.world.first:
            return
        progress = self.progress
        facts = {"fingerprint": self.fingerprint, "progress": asdict(progress)}
        tensors = training_tensors(self.module, self.optimizer)
        self.checkpoints.write(progress.sub_epoch, progress.step, Checkpoint(tensors, facts))
        best = progress.best(self.task.watched)
        self.checkpoints.prune(None if best is None else self.checkpoints.path(best + 1))


class _Forward(nn.Module):
    """A task's losses as one forward pass, which DistributedDataParallel can wrap.

    It waits for every weight's gradient, but a batch need not use every weight: `anchored` adds 0·w for each.
    """

    def __init__(self, task: Task, module: nn.Module, anchored: bool):
        super().__init__()
        self.task, self.module, self.anchored = task, module, anchored

    def forward(self, batch: Any, moment: Moment, with_penalty: bool) -> tuple[Losses, Tensor | None]:
        losses = self.task.losses(self.module, batch, moment)
        if self.anchored:
            anchor = 0.0 * torch.stack([parameter.sum() for parameter in trained(self.module)]).sum()
            losses = replace(losses, total=losses.total + anchor)
        return losses, self.task.penalty(self.module) if with_penalty else None


class _Silent:
    """A bar that shows nothing, for all processes but the first."""

    def __enter__(self) -> "_Silent":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        pass


def make_optimizer(config: OptimizerConfig, parameters: list[nn.Parameter]) -> Optimizer:
    """The rate is set at each sub-epoch."""
    if config.kind == "adam":
        return Adam(parameters, lr=0.0, betas=config.betas, eps=config.epsilon, fused=True)
    return SGD(parameters, lr=0.0, fused=True)


def trained(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def perplexity(cross_entropy: float) -> float:
    return math.exp(min(cross_entropy, 700.0))


def describe(entry: dict[str, Any], sub_epochs: int, watched: str = "ce") -> str:
    """A finished sub-epoch in one line."""
    left = entry["seconds"] * (sub_epochs - entry["sub_epoch"])
    loss = entry[f"dev_{watched}"]
    dev = f"dev ppl {perplexity(loss):.2f}" if watched == "ce" else f"dev {watched} {loss:.3f}"
    return (
        f"sub-epoch {entry['sub_epoch']}/{sub_epochs}: loss {entry['train_loss']:.3f}, {dev}, "
        f"{duration(entry['seconds'])}, {duration(left)} left"
    )


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, whatever reads best."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"
