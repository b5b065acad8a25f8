"""Training that starts from weights that are there, and the statistics that belong to them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from fewer.compute.world import alone
from fewer.data.tokenizers import load_tokenizer
from fewer.errors import FewerError
from fewer.training.configs import parse_train_config
from fewer.training.run import make_task
from tests.training.runs import finished, train, ungrown
from tests.training.tones import aed_values, write_tones


def test_training_can_start_from_a_trained_model(tones: Path, tmp_path: Path) -> None:
    values = ungrown(tones)
    train(values, tmp_path / "first")
    train(values | {"initial": str(tmp_path / "first"), "sub_epochs": 1}, tmp_path / "second")
    first, second = finished(tmp_path / "first"), finished(tmp_path / "second")
    assert second[0]["train_ctc"] < first[0]["train_ctc"]
    wider = json.loads(json.dumps(values))
    wider["model"]["energy"] = 9
    with pytest.raises(FewerError, match=r"first/model.safetensors: 'attention.* another model's file"):
        train(wider | {"initial": str(tmp_path / "first")}, tmp_path / "third")


def test_training_can_start_from_the_encoder_of_another_recogniser(tones: Path, tmp_path: Path) -> None:
    values = ungrown(tones)
    train(values, tmp_path / "first")
    values["model"]["decoder"]["state"] = "zoneout_lstm"
    values["model"]["energy"] = 9
    still = values | {"sub_epochs": 1, "schedule": {"peak": 1e-12}, "l2": 0.0}
    train(still | {"initial": str(tmp_path / "first"), "initial_part": "encoder"}, tmp_path / "second")
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    for name, weight in second.items():
        if name.startswith(("encoder.", "ctc.")):
            torch.testing.assert_close(weight, first[name])
        elif name in ("decoder.output.weight", "decoder.embedding.weight"):
            assert not torch.allclose(weight, first[name])
    wider = json.loads(json.dumps(still))
    wider["model"]["encoder"]["size"] += 1
    with pytest.raises(FewerError, match=r"first/model.safetensors: 'encoder.* another model's file"):
        train(wider | {"initial": str(tmp_path / "first"), "initial_part": "encoder"}, tmp_path / "third")


def test_weights_are_not_taken_for_other_features(tones: Path, tmp_path: Path) -> None:
    values = ungrown(tones)
    values |= {"initial": str(tones / "aed"), "features": values["features"] | {"kind": "log_mel"}}
    with pytest.raises(FewerError, match=r"initial: .*aed was trained on other features \(kind was mfcc, is log_mel"):
        train(values, tmp_path / "run")


def test_statistics_come_with_the_weights_unless_others_are_given(tones: Path, tmp_path: Path) -> None:
    write_tones(tmp_path / "other", train=4, dev=2)
    values = ungrown(tones)
    values["data"] |= {"train": str(tmp_path / "other" / "train.jsonl"), "dev": str(tmp_path / "other" / "dev.jsonl")}
    values |= {"sub_epochs": 1}
    train(values, tmp_path / "own")
    train(values | {"initial": str(tones / "aed")}, tmp_path / "initial")
    values["data"] |= {"statistics": str(tmp_path / "own" / "statistics.safetensors")}
    train(values | {"initial": str(tones / "aed")}, tmp_path / "given")
    folders = (tones / "aed", tmp_path / "own", tmp_path / "initial", tmp_path / "given")
    there, own, initial, given = ((folder / "statistics.safetensors").read_bytes() for folder in folders)
    assert there != own
    assert (initial, given) == (there, own)


def test_statistics_can_be_measured_where_training_hears_no_speech_as_it_is(tones: Path, tmp_path: Path) -> None:
    values = aed_values(tones)
    values["features"] |= {"cache": {"folder": str(tmp_path / "cache"), "dtype": "float32"}}
    values["data"]["batches"] |= {"speeds": [0.9, 1.1]}
    (tmp_path / "run").mkdir()
    config = parse_train_config(values, "test.yaml")
    make_task(config, tmp_path / "run", load_tokenizer(tones / "tokenizer.json"), alone())
    found, expected = (load_file(folder / "statistics.safetensors") for folder in (tmp_path / "run", tones / "aed"))
    torch.testing.assert_close(found["mean"], expected["mean"])
