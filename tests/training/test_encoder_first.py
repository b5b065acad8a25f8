"""The encoder learns by CTC alone first, and the decoder rests."""

from pathlib import Path

import pytest
import torch

from fewer.compute.world import alone
from fewer.data.tokenizers import load_tokenizer
from fewer.errors import FewerError
from fewer.models.aed import AED
from fewer.store.model_folder import load_model
from fewer.training.configs import parse_train_config
from fewer.training.run import make_task
from fewer.training.schedule import Finished, learning_rate
from fewer.training.seeds import seed_moment
from fewer.training.task import Moment
from tests.training.processes import run_in_two_processes
from tests.training.runs import finished, train, ungrown
from tests.training.tones import aed_values


def test_the_encoder_can_learn_by_ctc_alone_before_the_decoder_does(tones: Path, tmp_path: Path) -> None:
    config = parse_train_config(aed_values(tones) | {"encoder_first": 2}, "test.yaml")
    (tmp_path / "run").mkdir()
    task, _ = make_task(config, tmp_path / "run", load_tokenizer(tones / "tokenizer.json"), alone())
    module, batch = task.build(0).train(), task.train.load(task.train.plan(1)[0][0], 1)
    first, dev = task.losses(module, batch, Moment(2, 0)), task.losses(module, batch, Moment(2, 0, training=False))
    first.total.backward()
    torch.testing.assert_close(first.total, config.ctc_scale * first.parts["ctc"])
    assert all(weight.grad is None for weight in module.decoder.parameters())
    assert first.parts.keys() == {"ctc"}
    assert dev.parts.keys() == {"ce", "ctc"}
    learning = {name for name, weight in module.named_parameters() if weight.grad is not None}
    frozen = {id(weight) for weight in task.frozen(module, 2)}
    assert learning == {name for name, weight in module.named_parameters() if id(weight) not in frozen}
    assert task.frozen(module, 3) == []
    task.losses(module, batch, Moment(3, 0)).total.backward()
    assert any(weight.grad is not None for weight in module.decoder.parameters())


def test_the_decoder_rests_while_the_encoder_comes_first(tones: Path, tmp_path: Path) -> None:
    """L2 alone would draw its weights to zero, and fast: Adam does not see how small the gradient is."""
    values = ungrown(tones)
    values |= {"encoder_first": 2, "sub_epochs": 2, "final": "last", "l2": 1e-4}
    train(values, tmp_path / "run")
    trained = load_model(tmp_path / "run").aed
    seed_moment(1, "build", 0)  # as at the beginning
    new, weights = AED(trained.config).state_dict(), trained.state_dict()
    assert {name.split(".")[0] for name in new if not torch.equal(weights[name], new[name])} == {"encoder", "ctc"}


def test_two_processes_let_the_decoder_rest_as_one_does(tones: Path, tmp_path: Path) -> None:
    values = ungrown(tones)
    values["model"]["encoder"]["dropout"] = values["model"]["decoder"]["dropout"] = 0.0
    values |= {"encoder_first": 2, "sub_epochs": 3, "final": "last", "l2": 0.0, "schedule": {"peak": 1e-3}}
    train(values, tmp_path / "one")
    run_in_two_processes(train, values, tmp_path / "two")
    one, two = (load_model(tmp_path / name).aed.state_dict() for name in ("one", "two"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-3, atol=1e-5)


def test_while_the_encoder_comes_first_its_ctc_loss_is_what_counts(tones: Path, tmp_path: Path) -> None:
    """The dev cross entropy of a decoder that has not learnt anything says nothing."""
    newbob = {"window": 1, "hold": 1, "threshold": -0.001, "decay": 0.5, "relative_to_rate": False, "floor": 0}
    values = ungrown(tones)
    values |= {"encoder_first": 3, "sub_epochs": 5, "schedule": {"peak": 0.01, "newbob": newbob}}
    train(values, tmp_path / "run")
    lines = finished(tmp_path / "run")
    assert ["train_ce" in line for line in lines] == [False] * 3 + [True] * 2
    kinds = ["ctc"] * 3 + ["ce"] * 2
    history: list[Finished] = []
    for line, kind in zip(lines, kinds, strict=True):
        assert line["rate"] == learning_rate(parse_train_config(values, "test.yaml").schedule, history)
        history.append(Finished(line["rate"], line[f"dev_{kind}"], kind))
    log = (tmp_path / "run" / "train.log").read_text().splitlines()
    assert ["dev ctc" in line for line in log] == ["dev ppl" not in line for line in log] == [True] * 3 + [False] * 2


def test_an_encoder_cannot_learn_first_without_ctc(tones: Path) -> None:
    values = aed_values(tones) | {"encoder_first": 2, "ctc_scale": 0.0}
    values["model"] = values["model"] | {"ctc": False}
    with pytest.raises(FewerError, match="encoder_first: it is CTC"):
        parse_train_config(values, "test.yaml")
