"""Training runs on the corpus of tones, as several files of tests start them and look at them."""

from pathlib import Path
from typing import Any

import torch

from fewer.training.configs import parse_train_config
from fewer.training.records import read_curves
from fewer.training.run import train_model
from tests.training.tones import aed_values


def ungrown(tones: Path) -> dict[str, Any]:
    """A recogniser that has its full size from the beginning."""
    return {key: value for key, value in aed_values(tones).items() if key != "growing"}


def train(values: dict[str, Any], folder: Path) -> None:
    """In this process or in one of its own."""
    torch.set_num_threads(1)
    train_model(parse_train_config(values, "test.yaml"), folder)


def finished(folder: Path) -> list[dict[str, Any]]:
    return [line for line in read_curves(folder) if line["kind"] == "sub_epoch"]
