"""The recipes on mini LibriSpeech: all of them without data, and one table in miniature on a tiny random Whisper."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewer.config import parse_config
from fewer.data.corpora.prepare import PrepareOptions, prepare
from fewer.data.corpora.split import Split
from fewer.data.token_store import read_text
from fewer.data.tokenizers import train_sentencepiece
from fewer.errors import FewerError
from fewer.experiments.config import ExperimentConfig
from fewer.experiments.experiment import train_values
from fewer.experiments.layers import TABLES, load_experiment, load_train_config, names
from fewer.experiments.run import describe, run_experiment
from fewer.training import cost
from fewer.training.configs import AedTrainConfig
from tests.cli.running import Fewer
from tests.data.corpora.builders import write_audio, write_lines
from tests.data.test_pretrained import save_whisper
from tests.experiments.miniatures import said, spoken

RECIPES = ["mini-a-encoder", "mini-a", "mini-encoder", "mini-b", "mini-c", "mini-d-100", "mini-e", "mini-lstm-lm"]
EXPERIMENTS = ["mini-a-ilme", "mini-b-end", "mini-b-ilme", "mini-c-ilme", "mini-cross", "mini-lms", "mini-small-dec"]
EXPERIMENTS = sorted([*EXPERIMENTS, "mini-b-seeds", "mini-train-with-lm"])
METHODS = ["none", "sf", "dr", "zero", "enc_avg", "ctx_avg", "seq_avg", "mini_lstm", "decoder_like", "lodr", "learned"]
METHODS += ["distilled"]
SPEAKERS = {"train-clean-5": {"10": 12}, "dev-clean": {"20": 3, "30": 3}}  # with their utterances


@pytest.mark.parametrize("name", [*RECIPES, *EXPERIMENTS])
def test_a_dry_run_needs_neither_data_nor_whisper(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cost, "matmul_speed", lambda device: 1e12)
    command = ["train", name] if name in RECIPES else ["run", name, "run"]
    code, out, _ = Fewer(monkeypatch, capsys)(*command, "--dry-run")
    assert code == 0
    assert "floating-point operations" in out
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_names_models_that_are_given_and_n_grams() -> None:
    assert "whisper: whisper-tiny.en, as it is" in describe(load_experiment("whisper-first-pass"))
    told = describe(load_experiment("mini-cross"))
    text, mix = "data/speechocean762/text.jsonl, data/gutenberg.txt.xz", "data/speechocean762/tune.jsonl"
    assert f"mini-speechocean: 8-gram of {text}, mixed to fit {mix}" in told


def test_no_mini_experiment_is_left_out() -> None:
    assert [name for name in names(TABLES) if name.startswith("mini-")] == EXPERIMENTS


@pytest.mark.parametrize("name", ["mini-a-ilme", "mini-b-ilme", "mini-c-ilme"])
def test_every_method_is_tuned_on_the_first_speakers_and_reported_on_the_others(name: str) -> None:
    config = load_experiment(name)
    assert [row.key for row in config.rows] == METHODS
    assert (config.tune.stem, list(config.sets)) == ("dev-clean-tune", ["dev-clean-report"])


@pytest.mark.parametrize("name", ["mini-c", "mini-d-100"])
def test_other_decoders_differ_from_mini_b_in_the_decoder_alone(name: str) -> None:
    one, other = (aed_recipe(recipe).model_dump() for recipe in ("mini-b", name))
    assert {key for key in one if one[key] != other[key]} == {"model"}
    assert one["model"] | {"decoder": None} == other["model"] | {"decoder": None}


def test_the_encoder_of_mini_b_is_that_of_mini_encoder() -> None:
    encoder, b, e = (aed_recipe(recipe) for recipe in ("mini-encoder", "mini-b", "mini-e"))
    assert encoder.encoder_first == encoder.sub_epochs
    assert (
        (encoder.model, encoder.features, encoder.data.train)
        == (b.model, b.features, b.data.train)
        == (
            e.model,
            e.features,
            e.data.train,
        )
    )
    assert (b.encoder_first, b.initial_part, e.initial_part) == (0, "encoder", "all")
    assert (str(b.initial), str(e.initial)) == ("models/mini-encoder", "models/mini-b")


def test_the_encoder_of_mini_a_is_that_of_mini_a_encoder() -> None:
    encoder, a = (aed_recipe(recipe) for recipe in ("mini-a-encoder", "mini-a"))
    assert (encoder.encoder_first, a.encoder_first) == (encoder.sub_epochs, 0)
    assert (encoder.features, encoder.data.train) == (a.features, a.data.train)
    built = encoder.model.encoder.model_copy(update={"dropout": a.model.encoder.dropout})
    assert encoder.model.model_copy(update={"encoder": built}) == a.model
    assert (str(a.initial), a.initial_part, a.growing) == ("models/mini-a-encoder", "encoder", None)


def test_a_dry_run_counts_an_utterance_once_where_its_speed_is_random() -> None:
    config = aed_recipe("mini-a")
    assert config.expected is not None
    amount = cost.phases(config)[-1].amount
    assert amount is not None
    assert amount.labels == config.expected.labels


def aed_recipe(name: str) -> AedTrainConfig:
    config = load_train_config(name)
    assert isinstance(config, AedTrainConfig)
    return config


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the recipe finds its data: a few utterances in LibriSpeech's layout, some text, and a tiny Whisper."""
    root, rng = tmp_path_factory.mktemp("mini"), np.random.default_rng(3)
    for name, speakers in SPEAKERS.items():
        for speaker, count in speakers.items():
            chapter = root / "LibriSpeech" / name / speaker / "1"
            texts = {f"{speaker}-1-{number:04d}": said(rng, number).upper() for number in range(count)}
            for id, text in texts.items():
                write_audio(chapter / f"{id}.flac", spoken(text))
            write_lines(chapter / f"{speaker}-1.trans.txt", *(f"{id} {text}" for id, text in texts.items()))
    data = root / "data" / "mini-librispeech"
    split = Split.parse("dev-clean=dev-clean-tune:1,dev-clean-report")
    prepare("librispeech", root / "LibriSpeech", data, PrepareOptions(splits=(split,)))
    (data / "dev-clean-100.jsonl").write_text((data / "dev-clean-tune.jsonl").read_text())
    train_sentencepiece(read_text(data / "train-clean-5.jsonl"), 12).save(data / "tokenizer.json")
    write_lines(root / "data" / "gutenberg.txt", *(f'"{said(rng, number)}."' for number in range(60)))
    save_whisper(root / "whisper")
    return root


def test_a_dry_run_with_data_needs_no_whisper_either(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(cost, "matmul_speed", lambda device: 1e12)
    monkeypatch.setattr(cost, "RawFeatures", lambda config: pytest.fail("it loads the model"))
    assert Fewer(monkeypatch, capsys)("train", "mini-encoder", "--dry-run")[0] == 0


def small(place: Path) -> ExperimentConfig:
    """mini-b-ilme with its own rows and data, but a small recogniser."""
    values = load_experiment("mini-b-ilme").model_dump(mode="json", exclude_none=True)
    for source in values["recognisers"].values():
        train: dict[str, Any] = train_values(source["train"])
        train["features"] |= {"model": str(place / "whisper"), "pool": 1}
        train["model"]["encoder"] |= {"features": 16, "input_pool": 1}
        train["model"] |= {"decoder": {"size": 8, "embedding": 4, "readout": 8}, "energy": 8}
        del train["model"]["vocab_size"]
        train["data"]["batches"] = {"max_size": 200}
        train |= {"sub_epochs": 2, "schedule": {"peak": 0.01}, "device": "cpu"}
        source["train"] = train
    values["lms"]["mini-gutenberg"]["ngram"]["text"] = ["data/gutenberg.txt"]
    values |= {"beam": 2, "tuning": {"budget": 3, "space": {"step": 0.1}}, "lm_text": []}
    values["ilm"] = {"all": {"units": 4, "passes": 1, "batch": 40}}
    return parse_config(ExperimentConfig, values, "mini-b-ilme in small")


def test_a_table_in_miniature_encodes_every_set_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    config = small(place)
    results = run_experiment(config, "run")
    assert [row["method"] for row in results["rows"]] == METHODS
    features = place / "data" / "mini-librispeech" / "features"
    sets = ["dev-clean-100", "dev-clean-report", "dev-clean-tune", "train-clean-5"]
    assert sorted(folder.name for folder in features.iterdir()) == sets
    assert all((features / name / "index-1.npy").exists() for name in sets)

    facts = json.loads((place / "models" / "mini-gutenberg.json").read_text())
    assert facts["case"] == "librispeech"
    other = config.lms["mini-gutenberg"].model_copy(
        update={"ngram": config.lms["mini-gutenberg"].ngram.model_copy(update={"order": 3})}  # type: ignore[union-attr]
    )
    with pytest.raises(FewerError, match=r"gutenberg\.safetensors was estimated with another(.|\n)*order: 8 there"):
        run_experiment(config.model_copy(update={"lms": {"mini-gutenberg": other}}), "other")
