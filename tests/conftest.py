"""What every test may count on, wherever and in whatever order it runs. What several of them need is made once.

Tests run side by side, so each takes one thread; random numbers, hypothesis's examples among them, are the same every
time; texts for the terminal are as for one of 80 columns.
"""

import os
import random
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as the command line does; see fewer.compute.bfloat16
os.environ["COLUMNS"] = "80"

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.recognisers.fixtures import real, real_manifest, theirs, tiny, whisper

__all__ = ["real", "real_manifest", "theirs", "tiny", "whisper"]

for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS", "GITHUB_ACTIONS", "TERMINAL_WIDTH"):
    os.environ.pop(name, None)  # rich and typer would colour or bend what they print
torch.set_num_threads(1)
settings.register_profile(
    "fewer", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fewer")


def seed_all() -> None:
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """What a fixture draws does not depend on who was first to need it."""
    seed_all()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    seed_all()


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
