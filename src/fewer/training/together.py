"""Training in several processes of this machine, as torchrun would start them."""

from pathlib import Path
from typing import Any

from fewer.compute.processes import together
from fewer.training.configs import TrainConfig, parse_train_config
from fewer.training.run import train_model


def train_together(config: TrainConfig, folder: str | Path, processes: int) -> None:
    """`train_model` in so many processes of this machine; the threads are divided among them.

    When one of them fails, or this process is interrupted or killed, all of them end.
    """
    if processes == 1:
        train_model(config, folder)
    else:
        together(_train, processes, config.model_dump(mode="json"), str(folder))


def _train(values: dict[str, Any], folder: str) -> None:
    train_model(parse_train_config(values, folder), folder)
