"""What dry runs of experiments tell about estimation, tuning and decoding."""

from pathlib import Path

import pytest

from fewer.experiments.config import ExperimentConfig
from fewer.experiments.cost import decoder_flops, experiment_costs, experiment_lines, frozen_lm
from fewer.experiments.layers import load_experiment, load_train_config
from fewer.models.aed import AedConfig
from fewer.models.lm import TransformerLmConfig
from fewer.training import cost
from fewer.training.cost import Amount, forward_flops
from fewer.training.gpus import find_gpu


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost, "_speed", lambda device: 1e12)


def only(name: str, *methods: str) -> ExperimentConfig:
    config = load_experiment(name)
    return config.model_copy(update={"rows": tuple(row for row in config.rows if row.method in methods)})


def test_a_search_costs_decoder_lm_and_internal_lm_for_each_hypothesis() -> None:
    training = load_train_config("libri-lstm")
    aed, lm = training.model, load_train_config("libri-transformer-lm").model
    assert isinstance(aed, AedConfig)
    assert isinstance(lm, TransformerLmConfig)
    share = 5.1 / 960.9  # of dev-other in the training set's hours
    labels, sequences, frames = 12_000_000 * share, 281_241 * share, 5.1 * 360_000
    none, sf, zero = (experiment_costs(only("libri-lstm-ilme", method)).tuning for method in ("none", "sf", "zero"))
    assert none == pytest.approx(6 * forward_flops(aed, Amount(sequences, 32 * labels, frames, 0)))
    assert none is not None
    assert sf is not None
    beams = Amount(32 * sequences, 32 * labels, 0, 0)
    assert sf - none == pytest.approx(6 * forward_flops(lm, beams))
    assert zero is not None
    assert zero - sf == pytest.approx(6 * decoder_flops(aed, beams))
    of_the_decoder = 4 * 1000 * (621 + 2048 + 1000) + (1000 + 621 + 2048) * 1000 + 500 * 10025 + 1000 * 1024
    assert decoder_flops(aed, beams) == pytest.approx(2 * 32 * labels * of_the_decoder, rel=0.01)


def test_both_averages_cost_one_pass_and_the_mini_lstm_its_part_of_one() -> None:
    training = load_train_config("libri-lstm").model
    assert isinstance(training, AedConfig)
    whole = Amount(281_241, 12_000_000, 960.9 * 360_000, 0)
    one, both = (experiment_costs(only("libri-lstm-ilme", *m)).ilm for m in (("enc_avg",), ("enc_avg", "ctx_avg")))
    assert one == both == pytest.approx(forward_flops(training, whole))
    mini = experiment_costs(only("libri-lstm-ilme", "mini_lstm")).ilm
    assert mini == pytest.approx(0.4 * 3 * decoder_flops(training, whole))
    assert experiment_costs(only("libri-lstm-ilme", "zero", "seq_avg", "dr")).ilm == 0


def test_what_is_not_known_is_said() -> None:
    lines = experiment_lines(load_experiment("whisper-first-pass"), find_gpu("A100"))
    assert [line.split(";")[0] for line in lines] == [
        "internal LMs: cost unknown",
        "tuning: cost unknown",
        "decoding: cost unknown",
    ]


def test_the_frozen_lm_is_that_of_the_recipe_of_its_name() -> None:
    assert frozen_lm(load_train_config("libri-train-with-lm")) == load_train_config("libri-transformer-lm").model
    assert frozen_lm(load_train_config("libri-lstm")) is None
    other = load_train_config("libri-train-with-lm", ["external_lm.model=models/mine"])
    assert frozen_lm(other) is None


def test_lines_tell_a_gpu_and_this_machine() -> None:
    lines = experiment_lines(load_experiment("swb-lstm-ilme"), find_gpu("H100"))
    assert lines[1].startswith("tuning: ")
    assert "at most 48 decodes of data/hub5/hub5e00.jsonl, beam 12" in lines[1]
    assert any("decoding: on one H100, at 5% (assumed) of its published peak of 67 TFLOP/s" in line for line in lines)
    assert any("internal LMs: at the 1,000 GFLOP/s measured here" in line for line in lines)
