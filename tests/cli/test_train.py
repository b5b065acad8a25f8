"""fewer train from the command line."""

from pathlib import Path

import pytest

from tests.cli.running import Fewer
from tests.training.tones import lm_values, write_tones, write_yaml


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder, train=8, dev=4)
    return write_yaml(folder / "lm.yaml", lm_values(folder, {"kind": "lstm_lm", "embedding": 4, "size": 8}))


def test_training_leaves_a_model_and_goes_on_when_asked_for_more(fewer: Fewer, config: Path, tmp_path: Path) -> None:
    code, out, talk = fewer("train", config, tmp_path / "run")
    assert (code, out) == (0, "")
    assert "sub-epoch 3/3" in talk
    assert (tmp_path / "run" / "model.safetensors").exists()
    code, _, talk = fewer("train", config, tmp_path / "run", "--set", "sub_epochs=4")
    assert code == 0
    assert "sub-epoch 3/4" not in talk
    assert "sub-epoch 4/4" in talk
    code, _, talk = fewer("train", config, tmp_path / "run", "--set", "schedule.peak=1")
    assert code == 1
    assert "schedule.peak: 0.05 there, 1.0 now" in talk


def test_a_damaged_checkpoint_needs_a_word_to_go_on(fewer: Fewer, config: Path, tmp_path: Path) -> None:
    assert fewer("train", config, tmp_path / "run")[0] == 0
    weights = (tmp_path / "run" / "model.safetensors").read_bytes()
    last = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1]
    last.write_bytes(last.read_bytes()[:-1])
    code, _, talk = fewer("train", config, tmp_path / "run")
    assert code == 1
    assert last.name in talk
    assert "--fall-back" in talk
    assert fewer("train", config, tmp_path / "run", "--fall-back")[0] == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == weights


def test_a_dry_run_prints_and_writes_nothing(fewer: Fewer, config: Path, tmp_path: Path) -> None:
    code, out, _ = fewer("train", config, tmp_path / "run", "--dry-run")
    assert code == 0
    assert "parameters" in out
    assert "steps" in out
    assert not (tmp_path / "run").exists()


def test_errors_are_one_message_with_the_field(fewer: Fewer, config: Path) -> None:
    code, out, talk = fewer("train", config, "--dry-run", "--set", "schedule.peek=1")
    assert (code, out) == (1, "")
    assert talk == f"fewer: {config}: unknown key 'schedule.peek'; did you mean 'peak'?\n"
    code, _, talk = fewer("train", config)
    assert code == 1
    assert "give a folder" in talk
