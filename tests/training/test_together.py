"""Training in several processes of this machine."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from fewer.errors import FewerError
from fewer.training import together
from fewer.training.configs import TrainConfig, parse_train_config
from fewer.training.run import train_model
from fewer.training.together import train_together
from tests.training.processes import SECONDS
from tests.training.tones import lm_values


@pytest.fixture
def config(tones: Path) -> TrainConfig:
    return parse_train_config(lm_values(tones, {"kind": "lstm_lm", "embedding": 4, "size": 8}), "test.yaml")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that are started."""
    group: list[Any] = []
    start = together._start
    monkeypatch.setattr(together, "_start", lambda *given: group.append(start(*given)) or group[-1])
    return group


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_two_processes_train_the_same_model_as_one(config: TrainConfig, tmp_path: Path) -> None:
    train_model(config, tmp_path / "one")
    train_together(config, tmp_path / "two", 2)
    for name, weight in weights(tmp_path / "two").items():
        torch.testing.assert_close(weight, weights(tmp_path / "one")[name], atol=1e-4, rtol=1e-4)


def test_one_process_is_this_one(config: TrainConfig, tmp_path: Path, started: list[Any]) -> None:
    train_together(config, tmp_path / "one", 1)
    assert not started
    assert weights(tmp_path / "one")


def test_what_a_process_complains_of_is_said_here(config: TrainConfig, tmp_path: Path, started: list[Any]) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine")
    with pytest.raises(FewerError, match=r"run is not empty and not a run of `fewer train`"):
        train_together(config, tmp_path / "run", 2)
    assert len(started) == 2
    assert all(process.returncode for process in started)


def test_a_killed_process_is_reported(
    config: TrainConfig, tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nread job\nkill -9 $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(killed))
    with pytest.raises(FewerError, match=r"was killed by signal 9.*it goes on where it stopped"):
        train_together(config, tmp_path / "run", 2)
    assert all(process.returncode for process in started)


def test_interrupted_it_leaves_no_process(
    config: TrainConfig, tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(together, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        train_together(config, tmp_path / "run", 2)
    assert len(started) == 2
    assert all(process.returncode for process in started)


def test_processes_end_when_nobody_waits_for_them(config: TrainConfig, tmp_path: Path) -> None:
    shared = {"MASTER_ADDR": together.HERE, "MASTER_PORT": "1", "WORLD_SIZE": "2"}
    process = together._start(0, shared, {"config": config.model_dump(mode="json"), "folder": str(tmp_path / "run")})
    assert process.stdin is not None
    process.stdin.close()  # as when the process that started it was killed
    assert process.wait(SECONDS) != 0
