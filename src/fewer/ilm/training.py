"""Training the small contexts with everything else frozen."""

from typing import Any

from fewer.ilm.config import IlmConfig
from fewer.ilm.estimate import Estimation
from fewer.models.context import Context
from fewer.training.lm_task import LmTask
from fewer.training.schedule import NewbobConfig, ScheduleConfig
from fewer.training.task import Task
from fewer.training.trainer import Trainer, TrainerConfig


def train_on_text(estimation: Estimation) -> Context:
    """The context with which the decoder gives the transcripts the lowest perplexity."""
    train, dev = estimation.sentences(estimation.train), estimation.sentences(estimation.dev)
    task = LmTask(lambda: internal_lm(estimation), train, dev, estimation.config.smoothing)
    return train_context(estimation, task, estimation.marks)


def internal_lm(estimation: Estimation) -> Any:
    """The decoder under the method's context with new weights: a module whose context alone learns."""
    return estimation.recogniser.language_model(estimation.new_context())


def train_context(estimation: Estimation, task: Task, marks: str) -> Context:
    """Train the task's module, an `internal_lm`."""
    config, world = estimation.config, estimation.world
    options: dict[str, Any] = {"schedule": schedule(config), "device": str(world.device)}
    settings = TrainerConfig(seed=config.seed, sub_epochs=config.passes, **options)
    module: Any = Trainer(task, settings, estimation.out, world, marks).run()
    context: Context = module.context
    return context


def schedule(config: IlmConfig) -> ScheduleConfig:
    """The rate without warm-up, halved after every pass that hardly improves the dev set."""
    newbob = NewbobConfig(decay=0.5, window=1, hold=1, threshold=-0.002, relative_to_rate=False)
    return ScheduleConfig(peak=config.learning_rate, newbob=newbob)
