"""Reading training configurations: what is trained, layers, and complaints that name the field."""

from pathlib import Path

import pytest

from fewer.errors import FewerError
from fewer.training.configs import (
    AedTrainConfig,
    LmTrainConfig,
    changed_keys,
    effective,
    parse_train_config,
)
from tests.training.tones import aed_values, lm_values, write_tones


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_tones(folder, train=4, dev=2)
    return folder


def test_the_kind_of_model_decides_what_a_configuration_may_say(tones: Path) -> None:
    assert isinstance(parse_train_config(aed_values(tones), "x"), AedTrainConfig)
    values = lm_values(tones, {"kind": "lstm_lm", "size": 4})
    config = parse_train_config(values, "x")
    assert isinstance(config, LmTrainConfig)
    assert config.model.vocab_size == 6  # the tokenizer's: a, b, c, d, the end label and the unknown one
    with pytest.raises(FewerError, match=r"my\.yaml: unknown key 'growing'"):
        parse_train_config(values | {"growing": {"starts": [2]}}, "my.yaml")
    with pytest.raises(FewerError, match=r"model.kind: .* one of aed, lstm_lm, .*'gru'"):
        parse_train_config(values | {"model": {"kind": "gru"}}, "my.yaml")
    for nothing in ({}, None, [1], {"model": 3}):
        with pytest.raises(FewerError, match="what is to be trained"):
            parse_train_config(nothing, "my.yaml")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"growing": {"starts": [2, 3]}}, "give 1 sub-epochs"),
        ({"growing": {"starts": [1]}}, "from sub-epoch 2 on"),
        ({"growing": {"starts": [6]}}, "growing.starts: training ends with sub-epoch 5.* set sub_epochs to 6 or"),
        ({"ctc_scale": 0}, "model.ctc and ctc_scale"),
        ({"features": {"kind": "mfcc", "dim": 13}}, "features.dim is 13, but model.encoder.features is 12"),
        ({"initial": "somewhere"}, "does not grow"),
        ({"initial_part": "encoder"}, "of which model"),
        ({"schedule": {"peak": -1}}, "schedule.peak: .* greater than 0"),
        ({"smoothing": 1.5}, "smoothing: .* less than 1"),
        ({"scedule": {}}, "unknown key 'scedule'; did you mean 'schedule'"),
    ],
)
def test_what_cannot_be_is_said_with_the_field(tones: Path, change: dict, complaint: str) -> None:
    with pytest.raises(FewerError, match=complaint):
        parse_train_config(aed_values(tones) | change, "my.yaml")


def test_only_what_decides_the_weights_counts_as_a_change(tones: Path) -> None:
    values = aed_values(tones)
    config = parse_train_config(values, "x")
    longer = parse_train_config(values | {"sub_epochs": 9, "workers": 2, "checkpoint_minutes": 1}, "x")
    assert changed_keys(effective(config), effective(longer)) == []
    end = changed_keys(effective(config, ending=True), effective(longer, ending=True))
    assert end == ["sub_epochs: 5 there, 9 now"]
    other = parse_train_config(values | {"smoothing": 0.2, "augment": None}, "x")
    changes = changed_keys(effective(config), effective(other))
    assert changes[-1] == "smoothing: 0.1 there, 0.2 now"
    assert changes[0].startswith("augment: {")
