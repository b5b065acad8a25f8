"""The paper's configurations: their networks, their schedules, and each of them trained in small on a corpus of tones.

What is trained in small is the recipe itself: `shrunk` divides its dims and renumbers its sub-epochs, in order.
"""

import itertools
from pathlib import Path
from typing import Any

import pytest

from fewer.data.augment import SpecAugmentConfig
from fewer.data.extractor import PretrainedConfig
from fewer.errors import FewerError
from fewer.experiments.layers import RECIPES, load_train_config, read_layers
from fewer.store.model_folder import load_model
from fewer.training import cost
from fewer.training.configs import (
    AedTrainConfig,
    LmTrainConfig,
    TrainConfig,
    parse_train_config,
)
from fewer.training.cost import parameter_counts, phases
from fewer.training.records import read_curves
from fewer.training.run import train_model
from fewer.training.trainer import OptimizerConfig
from tests.cli.test_train import Fewer
from tests.training.tones import RATE, write_tones

LIBRI, SWB = 10025, 534  # labels

# Parts of the recognisers (SPEC §1), counted by hand. An LSTM of n units has 4 gates, each with n·(input + n + 1).
CONVOLUTIONS = (3 * 3 * 1 * 32 + 32) + (3 * 3 * 32 * 32 + 32)
BLSTMS = 2 * 4 * 1024 * (320 + 1024 + 1) + 5 * 2 * 4 * 1024 * (2048 + 1024 + 1)  # 320: 10 bins × 32 filters
ATTENTION = (2048 * 1024 + 1024) + 1024 + 1024 + 2048  # W_h and b, W_β, v, fertility
FF_STATE = (3 * 621 + 2048) * 1024 + 1024  # three labels and c; its energy needs no W_s


def lstm_recogniser(labels: int, units: int) -> int:
    state = 4 * units * (621 + 2048 + units + 1) + units * 1024  # the LSTM and W_s
    return CONVOLUTIONS + BLSTMS + ATTENTION + state + readout(labels, units + 621 + 2048) + ctc(labels)


def ff_recogniser(labels: int) -> int:
    return CONVOLUTIONS + BLSTMS + ATTENTION + FF_STATE + readout(labels, 1024 + 621 + 2048) + ctc(labels)


def readout(labels: int, inputs: int) -> int:
    """Embedding, linear to 1000, maxout to 500, softmax."""
    return labels * 621 + (inputs * 1000 + 1000) + (500 * labels + labels)


def ctc(labels: int) -> int:
    return (labels + 1) * (2048 + 1)


def transformer(labels: int, layers: int) -> int:
    layer = 4 * 1024 * 1024 + (1024 * 4096 + 4096) + (4096 * 1024 + 1024) + 2 * 2 * 1024  # Q K V O, FF, two norms
    return labels * 128 + 128 * 1024 + layers * layer + 2 * 1024 + (1024 * labels + labels)


PARAMETERS = {
    "libri-lstm": lstm_recogniser(LIBRI, 1000),
    "libri-lstm-500": lstm_recogniser(LIBRI, 500),
    "libri-lstm-300": lstm_recogniser(LIBRI, 300),
    "libri-lstm-100": lstm_recogniser(LIBRI, 100),
    "libri-train-with-lm": lstm_recogniser(LIBRI, 1000),
    "libri-ff": ff_recogniser(LIBRI),
    "swb-lstm": lstm_recogniser(SWB, 1000),
    "swb-lstm-500": lstm_recogniser(SWB, 500),
    "swb-lstm-300": lstm_recogniser(SWB, 300),
    "swb-lstm-100": lstm_recogniser(SWB, 100),
    "swb-ff": ff_recogniser(SWB),
    "libri-transformer-lm": transformer(LIBRI, 24),
    "swb-transformer-lm": transformer(SWB, 6),
    "libri-dr-lm": LIBRI * 128 + 4 * 1000 * (128 + 1000 + 1) + (1000 + 1) * LIBRI,
    "swb-dr-lm": SWB * 256 + 4 * 1024 * (256 + 1024 + 1) + (1024 + 1) * SWB,
    "libri-decoder-like-lm": 4 * 1000 * (621 + 1000 + 1) + readout(LIBRI, 1000 + 621),
    "swb-decoder-like-lm": 4 * 1000 * (621 + 1000 + 1) + readout(SWB, 1000 + 621),
    "ted-lstm-lm": LIBRI * 128 + 4 * 2048 * ((128 + 2048 + 1) + 3 * (2048 + 2048 + 1)) + (2048 + 1) * LIBRI,
}
MILLIONS = {"libri-lstm": 190.2, "swb-lstm": 160.1, "libri-transformer-lm": 313.9, "swb-transformer-lm": 76.3}
AEDS = [name for name in PARAMETERS if not name.endswith("-lm") or name == "libri-train-with-lm"]
LMS = [name for name in PARAMETERS if name not in AEDS]


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recipes name their data by relative paths: run where there is none."""
    monkeypatch.chdir(tmp_path)


def test_no_training_recipe_is_left_out() -> None:
    layers = {path.stem: read_layers(path) for path in RECIPES.glob("*.yaml")}
    paper = {name for name, values in layers.items() if "model" in values and not name.startswith("mini-")}
    assert paper == set(PARAMETERS)


def test_a_part_of_recipes_cannot_be_trained_by_itself() -> None:
    with pytest.raises(FewerError, match="sub_epochs: this field is missing"):
        load_train_config(RECIPES / "parts" / "aed.yaml")


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_counted_by_hand(name: str) -> None:
    assert sum(parameter_counts(load_train_config(name).model).values()) == PARAMETERS[name]
    assert PARAMETERS[name] / 1e6 == pytest.approx(MILLIONS.get(name, PARAMETERS[name] / 1e6), abs=0.05)


@pytest.mark.parametrize("name", AEDS)
def test_schedules_are_the_paper_s(name: str) -> None:
    config = aed_recipe(name)
    starts = {"libri": [26, 31, 36, 41, 46], "swb": [21, 25, 29, 33, 37]}[name.split("-")[0]]
    starts = [31, 37, 43, 49, 55] if name == "libri-ff" else starts
    first, epochs, sub_epochs = (20_000, 15, 300) if name.startswith("libri") else (15_000, 100 / 3, 200)
    large = 24 if name == "libri-ff" else 20 if name.startswith("libri") else 16  # sub-epochs with larger batches
    table = [(phase.first, phase.last, _network(phase), phase.max_size, phase.smoothing) for phase in phases(config)]
    ends = [start - 1 for start in starts[1:]]
    assert table == [
        (1, large, (2, 512, (6,)), first, 0.0),
        (large + 1, starts[0] - 1, (2, 512, (6,)), 10_000, 0.0),
        (starts[0], ends[0], (3, 640, (3, 2)), 10_000, 0.0),
        (starts[1], ends[1], (4, 768, (3, 2)), 10_000, 0.0),
        (starts[2], ends[2], (5, 896, (3, 2)), 10_000, 0.0),
        (starts[3], ends[3], (6, 1024, (3, 2)), 10_000, 0.0),
        (starts[4], sub_epochs, (6, 1024, (3, 2)), 10_000, 0.1),
    ]
    assert config.sub_epochs / config.data.batches.sub_epochs == pytest.approx(epochs)
    dropouts = [phase.model.encoder.dropout for phase in phases(config)[1:]]  # type: ignore[union-attr]
    assert dropouts == pytest.approx([0.15, 0.1875, 0.225, 0.2625, 0.3, 0.3])
    assert {phase.model.decoder.dropout for phase in phases(config)} == {0.3}  # type: ignore[union-attr]


def _network(phase: cost.Phase) -> tuple[int, int, tuple[int, ...]]:
    encoder = phase.model.encoder  # type: ignore[union-attr]
    return encoder.layers, encoder.size, encoder.pools


@pytest.mark.parametrize("name", AEDS)
def test_every_recogniser_keeps_its_corpus_s_options(name: str) -> None:
    """What files are layered from must not lose anything on the way (SPEC §1, §2)."""
    config, libri = aed_recipe(name), name.startswith("libri")
    schedule, newbob, batches = config.schedule, config.schedule.newbob, config.data.batches
    assert newbob is not None
    assert (schedule.warm_up_from, schedule.peak) == ((3e-4, 8e-4) if libri else (1e-4, 1e-3))
    assert (newbob.window, newbob.decay) == ((20, 0.9) if libri else (6, 0.7))
    assert (schedule.warm_up, newbob.threshold, newbob.hold, newbob.floor) == (10, -0.01, 3, 1 / 50)
    assert (newbob.measure, newbob.relative_to_rate, config.reduction) == ("smoothed", True, "sum")
    assert (batches.accumulate, batches.max_sequences, batches.order) == (2 if libri else 1, 200, "bins")
    curriculum = [(1, 20, "clean", None), (1, 5, None, 50), (5, 10, None, 150)] if libri else []
    assert [(rule.first, rule.last, rule.subsets, rule.max_mean_chars) for rule in batches.curriculum] == curriculum
    features = config.features
    assert not isinstance(features, PretrainedConfig)
    assert (features.kind, features.dim, features.clip) == (("mfcc", 40, 3.0) if libri else ("gammatone", 40, None))
    assert (features.normalise, features.scale) == ("global" if libri else "scale", 3.0)
    assert config.augment == SpecAugmentConfig(schedule="librispeech" if libri else "switchboard")
    assert (config.smoothing, config.ctc_scale) == (0.1, 1.0)
    published = {"libri-ff": (0.0, None), "swb-ff": (5e-4, ("encoder", "state", "output"))}
    assert (config.l2, config.l2_parts) == published.get(name, (1e-4, None))
    assert config.growing is not None
    assert (config.growing.new_layer, config.growing.scale_regularisation) == ("top", True)
    assert config.model.decoder.joint_initial
    assert (config.model.encoder.dropout, config.model.decoder.dropout) == (0.3, 0.3)
    state = "feed_forward" if name.endswith("ff") else "lstm" if libri else "zoneout_lstm"
    assert config.model.decoder.state == state
    assert config.optimizer == OptimizerConfig(kind="adam", betas=(0.9, 0.999), epsilon=1e-8, clip=None)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_dry_run_needs_no_data(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost, "matmul_speed", lambda device: 1e12)  # measuring it takes half a second each
    code, out, _ = Fewer(monkeypatch, capsys)("train", name, "--dry-run")
    assert code == 0
    assert f"{PARAMETERS[name]:,}" in out
    assert " steps, " in out
    assert "floating-point operations" in out
    if name in AEDS:
        networks = ["2 × 512, pools 6", "3 × 640, pools 3·2", "4 × 768", "5 × 896", "6 × 1024"]
        assert sorted(networks, key=out.index) == networks
    if name.startswith("libri") and name in AEDS:
        assert "curriculum: sub-epochs 1–20 only subsets 'clean'" in out


def aed_recipe(name: str) -> AedTrainConfig:
    config = load_train_config(name)
    assert isinstance(config, AedTrainConfig)
    return config


DIMS = {"size", "embedding", "readout", "energy", "feed_forward", "filters"}
LONGER = 3  # sub-epochs that a compressed schedule goes on after its last change


def compress(numbers: set[int]) -> dict[int, int]:
    """Number sub-epochs anew, 1, 2, 3, … in the same order."""
    return {number: rank for rank, number in enumerate(sorted(numbers | {1}), 1)}


def shrunk(config: TrainConfig, tones: Path, lm: Path | None = None) -> dict[str, Any]:
    """The recipe with dims ÷ 64, batches ÷ 100, its changes one sub-epoch after the other, and tones for data."""
    values = config.model_dump(mode="json", exclude={"expected"})
    values["model"] = smaller(values["model"])
    del values["model"]["vocab_size"]
    values["tokenizer"], values["device"] = str(tones / "tokenizer.json"), "cpu"
    values["schedule"]["newbob"]["threshold"] = -1000  # no improvement is enough: the rate decays as soon as it may
    batches = values["data"]["batches"]
    batches["sub_epochs"] = min(batches["sub_epochs"], 2)
    if isinstance(config, LmTrainConfig):
        values["data"] |= {"train": [str(tones / "train.txt")], "dev": [str(tones / "dev.jsonl")], "case": "none"}
        batches["max_size"] //= 25
        return values | {"sub_epochs": LONGER + 2}
    values["data"] |= {"train": str(tones / "train.jsonl"), "dev": str(tones / "dev.jsonl")}
    values["schedule"] |= {key: 10 * values["schedule"][key] for key in ("peak", "warm_up_from")}  # few steps must do
    values["features"]["sampling_rate"] = RATE
    values["augment"] |= {"time_size": 2, "frames_per_mask": 10, "onset": [5, 10]}
    if lm is not None:
        values["external_lm"]["model"] = str(lm)
    assert config.growing is not None
    rules = config.data.batches.curriculum
    limits = config.data.batches.max_size_from
    changes = {*config.growing.starts, config.smoothing_from, config.schedule.warm_up, *limits}
    number = compress(changes | {start for rule in rules for start in (rule.first, rule.last + 1)})
    values["growing"]["starts"] = [number[start] for start in config.growing.starts]
    values["smoothing_from"] = number[config.smoothing_from]
    values["schedule"]["warm_up"] = number[config.schedule.warm_up]
    batches["max_size"] //= 100
    batches["max_size_from"] = {number[start]: limit // 100 for start, limit in limits.items()}
    for rule in batches["curriculum"]:
        rule["first"], rule["last"] = number[rule["first"]], number[rule["last"] + 1] - 1
        if rule["max_mean_chars"]:
            rule["max_mean_chars"] = 2 + rule["max_mean_chars"] / 250  # tones have 2 to 5 characters
    return values | {"sub_epochs": max(number.values()) + LONGER}


def smaller(model: dict[str, Any]) -> dict[str, Any]:
    """All dims of a model ÷ 64."""
    return {
        key: smaller(value) if isinstance(value, dict) else max(round(value / 64), 2) if key in DIMS else value
        for key, value in model.items()
    }


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder, train=28, dev=4)
    return folder


@pytest.fixture(scope="module")
def lm(tones: Path) -> Path:
    """The LM that libri-train-with-lm names, trained in small."""
    return run("libri-transformer-lm", tones)[1]


def run(name: str, tones: Path, lm: Path | None = None) -> tuple[TrainConfig, Path]:
    config = parse_train_config(shrunk(load_train_config(name), tones, lm), name)
    train_model(config, tones / name)
    return config, tones / name


def finished(folder: Path) -> list[dict[str, Any]]:
    return [line for line in read_curves(folder) if line["kind"] == "sub_epoch"]


@pytest.mark.parametrize("name", AEDS)
def test_a_recogniser_in_small_passes_through_its_schedule(
    name: str, tones: Path, request: pytest.FixtureRequest
) -> None:
    needs_lm = load_train_config(name).external_lm is not None  # type: ignore[union-attr]
    config, folder = run(name, tones, request.getfixturevalue("lm") if needs_lm else None)
    assert isinstance(config, AedTrainConfig)
    assert config.growing is not None
    lines = finished(folder)
    assert len(lines) == config.sub_epochs
    stages = [line["stage"] for line in lines]
    assert sorted(set(stages)) == [0, 1, 2, 3, 4, 5]
    assert [stages.index(stage) + 1 for stage in range(1, 6)] == [*config.growing.starts, config.smoothing_from]
    unsmoothed = [line["dev_smoothed"] == pytest.approx(line["dev_ce"]) for line in lines]
    assert unsmoothed == [sub_epoch < config.smoothing_from for sub_epoch in range(1, config.sub_epochs + 1)]
    smoothed = [abs(line["train_loss"] - line["train_ce"] - line["train_ctc"]) for line in lines]
    onset = config.smoothing_from - 1
    assert max(smoothed[:onset]) < 1e-4 < 1e-3 < min(smoothed[onset:])
    check_rates(config, [line["rate"] for line in lines])
    check_batches(config, [0, *(line["step"] for line in lines)])
    encoder = load_model(folder).aed.config.encoder
    assert (encoder.layers, encoder.size) == (6, 16)


def check_rates(config: TrainConfig, rates: list[float]) -> None:
    """A linear warm-up to the peak; then each rate is held as long as it must be and decays."""
    schedule, newbob = config.schedule, config.schedule.newbob
    assert newbob is not None
    warm, after = rates[: schedule.warm_up], rates[max(schedule.warm_up, 1) - 1 :]
    assert after[0] == pytest.approx(schedule.peak)
    if warm:
        assert len(warm) > 1
        assert warm[0] == schedule.warm_up_from
        steps = [b - a for a, b in itertools.pairwise(warm)]
        assert steps == pytest.approx([steps[0]] * len(steps))
    held = [(rate, len(list(group))) for rate, group in itertools.groupby(after)]
    assert len(held) > 1
    assert held[0][1] == max(newbob.hold, 2)  # it takes two dev results to see that there is no progress
    assert all(length == newbob.hold for _, length in held[1:-1])
    for (rate, _), (following, _) in itertools.pairwise(held):
        assert following == pytest.approx(rate * newbob.decay)


def check_batches(config: AedTrainConfig, totals: list[int]) -> None:
    """What a sub-epoch sees shows in its steps: few under the curriculum, more when batches become smaller."""
    steps = [after - before for before, after in itertools.pairwise(totals)]
    plan = config.data.batches
    smaller_from = max(plan.max_size_from) - 1
    curriculum = max((rule.last for rule in plan.curriculum if rule.max_mean_chars), default=0)
    assert max(steps[curriculum:smaller_from]) < min(steps[smaller_from:])
    if curriculum:
        shortest = next(rule.last for rule in plan.curriculum if rule.max_mean_chars)
        assert max(steps[:shortest]) < min(steps[max(rule.last for rule in plan.curriculum) :])


@pytest.mark.parametrize("name", LMS)
def test_a_language_model_in_small_passes_through_its_schedule(name: str, tones: Path) -> None:
    config, folder = run(name, tones)
    lines = finished(folder)
    assert len(lines) == config.sub_epochs
    check_rates(config, [line["rate"] for line in lines])
    assert load_model(folder).lm.vocab_size == 6
    assert config.model.initial == ("fan_in" if "transformer" in name else "normal")  # type: ignore[union-attr]
