"""Training in several processes of this machine."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fewer.errors import FewerError
from fewer.training.configs import TrainConfig, parse_train_config
from fewer.training.run import train_model
from fewer.training.together import train_together
from tests.training.tones import lm_values


@pytest.fixture
def config(tones: Path) -> TrainConfig:
    return parse_train_config(lm_values(tones, {"kind": "lstm_lm", "embedding": 4, "size": 8}), "test.yaml")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_two_processes_train_the_same_model_as_one(config: TrainConfig, tmp_path: Path) -> None:
    train_model(config, tmp_path / "one")
    train_together(config, tmp_path / "two", 2)
    for name, weight in weights(tmp_path / "two").items():
        torch.testing.assert_close(weight, weights(tmp_path / "one")[name], atol=1e-4, rtol=1e-4)


def test_one_process_is_this_one(config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", None)  # nothing can be started
    train_together(config, tmp_path / "one", 1)
    assert weights(tmp_path / "one")


def test_what_a_process_complains_of_is_said_here(config: TrainConfig, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    with pytest.raises(FewerError, match=r"run is not empty and not a run of `fewer train`"):
        train_together(config, tmp_path / "run", 2)
