"""Tests run side by side, so each takes one thread. What several of them need is made once."""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of tones, with a recogniser (`aed`) and a language model (`lm`) trained on it."""
    from fewer.training.configs import parse_train_config
    from fewer.training.run import train_model
    from tests.training.tones import aed_values, lm_values, write_tones

    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder)
    train_model(parse_train_config(aed_values(folder), "aed.yaml"), folder / "aed")
    lm = {"kind": "lstm_lm", "embedding": 4, "size": 8}
    train_model(parse_train_config(lm_values(folder, lm), "lm.yaml"), folder / "lm")
    return folder
