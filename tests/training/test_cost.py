"""The dry run: parameter counts, phases, steps and operations against numbers worked out by hand."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fewer.data.tokenizers import train_characters
from fewer.errors import FewerError
from fewer.models.aed import AED
from fewer.models.lm import LstmLmConfig, TransformerLmConfig
from fewer.store.model_folder import build_model
from fewer.training.configs import AedTrainConfig, parse_train_config
from fewer.training.cost import Amount, dry_run, forward_flops, matmul_speed, parameter_counts, phases
from fewer.training.gpus import find_gpu
from fewer.training.objective import smoothed_cross_entropy
from fewer.training.resources import activation_bytes
from fewer.training.trainer import duration
from tests.training.tones import aed_values, lm_values, write_tones

PAPER = {
    "tokenizer": "nowhere.json",
    "model": {"kind": "aed", "vocab_size": 10025},
    "data": {
        "train": "nowhere.jsonl",
        "dev": "nowhere.jsonl",
        "batches": {"max_size": 10000, "max_size_from": {1: 20000, 26: 10000}, "accumulate": 2, "sub_epochs": 20},
    },
    "growing": {"starts": [26, 31, 36, 41]},
    "smoothing_from": 46,
    "sub_epochs": 300,
    "schedule": {"peak": 8e-4, "warm_up_from": 3e-4, "warm_up": 10, "newbob": {}},
    "expected": {"utterances": 280_000, "hours": 960, "labels": 13_000_000},
}


def test_the_librispeech_schedule() -> None:
    table = phases(parse_train_config(PAPER, "x"))
    spans = [(phase.first, phase.last, phase.max_size, phase.smoothing) for phase in table]
    assert spans == [
        (1, 25, 20000, 0.0),
        (26, 30, 10000, 0.0),
        (31, 35, 10000, 0.0),
        (36, 40, 10000, 0.0),
        (41, 45, 10000, 0.0),
        (46, 300, 10000, 0.1),
    ]
    encoders = [phase.model.encoder for phase in table]  # type: ignore[union-attr]
    assert [(e.layers, e.size) for e in encoders] == [(2, 512), (3, 640), (4, 768), (5, 896), (6, 1024), (6, 1024)]
    frames = 960 * 360_000 / 20
    assert [phase.amount.steps for phase in table if phase.amount] == [432, *[864] * 5]
    assert frames / 20_000 / 2 == 432


def test_parameter_counts_add_up_to_the_model() -> None:
    config = parse_train_config(PAPER, "x").model
    counts = parameter_counts(config)
    with torch.device("meta"):
        model = AED(config)  # type: ignore[arg-type]
    assert sum(counts.values()) == sum(parameter.numel() for parameter in model.parameters())
    assert counts["encoder.layers.1"] == 2 * 4 * 1024 * (2048 + 1024 + 1)
    assert counts["decoder.state.lstm"] == 4 * 1000 * (621 + 2048 + 1000 + 1)
    assert counts["ctc"] == 10026 * 2049


def test_operations_of_a_small_recogniser_by_hand() -> None:
    config = AedTrainConfig.model_validate(
        aed_values(Path("nowhere")) | {"model": aed_values(Path("x"))["model"] | {"vocab_size": 6}}
    ).model
    amount = Amount(sequences=2, labels=10, frames=120, steps=1)
    conv = 120 * (12 * 9 * 1 * 2 + 6 * 9 * 2 * 2)
    layers = 120 * 2 * 32 * (6 + 8) + 40 * 2 * 32 * (16 + 8) + 20 * 2 * 32 * (16 + 8)
    on_encoder = 20 * (16 * 8 + 16 + 16 * 7)
    on_labels = 10 * (8 * 8 + 32 * (4 + 16) + 32 * 8 + 8 * (8 + 4 + 16) + 4 * 6)
    attention = 10 * 10 * (2 * 8 + 16)
    assert forward_flops(config, amount) == 2 * (conv + layers + on_encoder + on_labels + attention)


def test_steps_come_from_the_data_when_it_is_here(tmp_path: Path) -> None:
    write_tones(tmp_path)
    config = parse_train_config(aed_values(tmp_path), "x")
    first = phases(config)[0]
    assert first.amount is not None
    from fewer.compute.world import alone
    from fewer.data.tokenizers import load_tokenizer
    from fewer.training.run import make_task

    (tmp_path / "run").mkdir()
    task, _ = make_task(config, tmp_path / "run", load_tokenizer(config.tokenizer), alone())
    plan = task.train.plan(1)
    labels = sum(int(task.train.load(items, 1).label_lengths.sum()) for group in plan for items in group)
    assert (first.amount.steps, first.amount.sequences) == (len(plan), len(plan.items))
    assert first.amount.labels == pytest.approx(labels)
    text = dry_run(config)
    assert "curriculum: sub-epochs 1–1 only subsets 'clean'" in text
    assert "2 × 4, pools 6" in text
    assert "GFLOP/s measured here" in text


def test_a_dry_run_of_language_models(tmp_path: Path) -> None:
    write_tones(tmp_path)
    values = lm_values(tmp_path, {"kind": "lstm_lm", "embedding": 4, "size": 8, "layers": 2})
    (phase,) = phases(parse_train_config(values, "x"))
    assert phase.amount is not None
    lines = (tmp_path / "train.txt").read_text().splitlines()
    assert phase.amount.labels == pytest.approx(sum(len(line) + 1 for line in lines) / 2)
    values["data"]["train"] = ["nowhere.txt"]
    assert "cost unknown" in dry_run(parse_train_config(values, "x"))
    values["expected"] = {"sentences": 1000, "labels": 20_000}
    text = dry_run(parse_train_config(values, "x"))
    assert "2 × 8" in text
    assert f"{3 * 250:,} steps" in text


def test_a_dry_run_reads_a_text_as_training_does(tmp_path: Path) -> None:
    """In the spelling that is asked for, and without the lines that it leaves empty."""
    write_tones(tmp_path)
    train_characters(["ABCD "]).save(tmp_path / "tokenizer.json")
    (tmp_path / "text.txt").write_text("“ab,”  cd!\n\n \n12 ab\nd-c\n")
    values = lm_values(tmp_path, {"kind": "lstm_lm", "embedding": 4, "size": 8})
    values["data"] |= {"train": [str(tmp_path / "text.txt")], "case": "librispeech"}
    (phase,) = phases(parse_train_config(values, "x"))
    assert phase.amount is not None
    assert (2 * phase.amount.sequences, 2 * phase.amount.labels) == (2, len("AB CD") + len("D C") + 2)


def test_what_is_expected_of_a_text_spares_reading_it(tmp_path: Path) -> None:
    write_tones(tmp_path)
    values = lm_values(tmp_path, {"kind": "lstm_lm", "embedding": 4, "size": 8})
    values["expected"] = {"sentences": 1000, "labels": 20_000}
    (phase,) = phases(parse_train_config(values, "x"))
    assert phase.amount is not None
    assert 2 * phase.amount.labels == 20_000


def test_a_frozen_lm_costs_its_forward_passes() -> None:
    values = PAPER | {"external_lm": {"model": "models/lm", "scale": 0.3}}
    config = parse_train_config(values, "x")
    lm = LstmLmConfig(vocab_size=10025, embedding=128, size=1000)
    alone, together = phases(config)[-1], phases(config, lm)[-1]
    labels = 255 * 13_000_000 / 20  # of all sub-epochs of the phase
    assert together.flops - alone.flops == pytest.approx(2 * labels * (4 * 1000 * (128 + 1000) + 1000 * 10025))
    assert "without the forward passes of the frozen LM models/lm" in dry_run(config)
    assert "with forward passes of the frozen LM (15,834,225 parameters)" in dry_run(config, frozen=lm)


def test_a_named_gpu_s_time_memory_and_disk_are_told() -> None:
    config = parse_train_config(PAPER, "x")
    flops = sum(phase.flops for phase in phases(config))
    text = dry_run(config, find_gpu("v100"))
    spent = duration(flops / 4.71e12)
    assert f"on one V100, at 30% (assumed) of its published peak of 15.7 TFLOP/s in float32: about {spent}" in text
    fast = parse_train_config(PAPER | {"bf16": True}, "x")
    assert "of its published peak of 312 TFLOP/s in bfloat16" in dry_run(fast, find_gpu("A100"))
    parameters = 190_165_484
    assert f"{16 * parameters / 1e9:.2g} GB for weights, gradients and moments" in text
    assert f"disk: about {(3 * 12 + 4) * parameters / 1e9:.2g} GB" in text
    with pytest.raises(FewerError, match="there is no GPU 'abacus' in the table; it has GTX-1080-Ti, V100"):
        find_gpu("abacus")


def kept(module: torch.nn.Module, run: Callable[[], object]) -> float:
    """Bytes that a forward pass keeps for the backward pass, weights not counted."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    del result
    return sum(size for place, size in storages.items() if place not in weights)


@pytest.mark.parametrize(
    "model",
    [
        LstmLmConfig(vocab_size=2000, size=300, layers=2, embedding=64),
        TransformerLmConfig(vocab_size=2000, layers=4, size=128, feed_forward=512, heads=4, embedding=64),
    ],
)
def test_memory_of_activations_is_about_what_a_batch_keeps(model: LstmLmConfig | TransformerLmConfig) -> None:
    """On the CPU, within a factor of two; of recognisers a CPU's LSTMs keep twice as much as a GPU's."""
    lm, labels = build_model(model), torch.randint(1, 2000, (8, 40))
    lengths = torch.full((8,), 40)
    real = kept(lm, lambda: smoothed_cross_entropy(lm.log_probs(labels), labels, lengths))
    assert 0.5 < activation_bytes(model, 320, 1.0) / real < 2


def test_the_speed_of_matrix_products_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by 0.01 s whenever it is asked: before the second product, and after each one."""
    ticks = itertools.count()
    monkeypatch.setattr("fewer.training.cost.time.monotonic", lambda: 0.01 * next(ticks))
    assert matmul_speed(torch.device("cpu"), seconds=0.035) == pytest.approx(2 * 1024**3 * 4 / 0.05)
