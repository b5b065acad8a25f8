"""Training the small contexts with everything else frozen."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation
from fewer.models.context import Context
from fewer.training.lm_task import LmTask
from fewer.training.objective import l2
from fewer.training.schedule import NewbobConfig, ScheduleConfig
from fewer.training.task import Task
from fewer.training.trainer import Trainer, TrainerConfig


def train_on_text(estimation: Estimation) -> Context:
    """The context with which the decoder gives the transcripts the lowest perplexity."""
    config = estimation.config
    train, dev = estimation.sentences(estimation.train, config.parts), estimation.sentences(estimation.dev)
    penalised: Callable[[Any], Tensor] | None = None
    if config.l2:
        penalised = lambda module: l2(module.context.linear.parameters(), config.l2)  # noqa: E731
    task = LmTask(lambda: internal_lm(estimation), train, dev, config.smoothing, penalised)
    return train_context(estimation, task, estimation.marks)


def internal_lm(estimation: Estimation) -> Any:
    """The decoder under the method's context with new weights: a module whose context alone learns."""
    return estimation.recogniser.language_model(estimation.new_context())


def train_context(estimation: Estimation, task: Task, marks: str) -> Context:
    """Train the task's module, an `internal_lm`."""
    config, world = estimation.config, estimation.world
    options: dict[str, Any] = {"schedule": schedule(config), "device": str(world.device)}
    settings = TrainerConfig(seed=config.seed, sub_epochs=config.sub_epochs, **options)
    module: Any = Trainer(task, settings, estimation.out, world, marks).run()
    context: Context = module.context
    return context


def schedule(config: IlmConfig) -> ScheduleConfig:
    """The rate without warm-up; by default halved after every part of a pass that hardly improves the dev set."""
    newbob = config.newbob or NewbobConfig(decay=0.5, window=1, hold=1, threshold=-0.002, relative_to_rate=False)
    return ScheduleConfig(peak=config.learning_rate, newbob=newbob)
