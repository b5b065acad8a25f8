"""Recognisers and language models train in bfloat16 to about the same loss."""

from pathlib import Path

import pytest

from fewer.training.configs import parse_train_config
from fewer.training.records import read_curves
from fewer.training.run import train_model
from tests.training.test_run import LMS
from tests.training.tones import aed_values, lm_values, write_tones


@pytest.mark.parametrize("kind", ["lstm", "zoneout_lstm", "feed_forward", *LMS])
def test_bfloat16_comes_to_about_the_same_loss(tmp_path: Path, kind: str) -> None:
    write_tones(tmp_path, train=8, dev=3)
    values = lm_values(tmp_path, LMS[kind]) if kind in LMS else aed_values(tmp_path)
    if kind not in LMS:
        values["model"]["decoder"]["state"] = kind
    losses = []
    for bf16 in (False, True):
        train_model(parse_train_config(values | {"bf16": bf16}, "x"), tmp_path / str(bf16))
        losses.append(read_curves(tmp_path / str(bf16))[-1]["dev_ce"])
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert kind == "lstm_lm" or losses[0] != losses[1]
