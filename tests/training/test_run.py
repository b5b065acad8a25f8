"""Whole training runs on a corpus of tones, from a configuration to a model folder."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from fewer.compute.world import alone
from fewer.data.tokenizers import load_tokenizer
from fewer.errors import FewerError
from fewer.locks import exclusive
from fewer.models.aed import AED
from fewer.store.model_folder import load_model
from fewer.store.ngram_files import save_ngram
from fewer.training.aed_task import AedTask
from fewer.training.configs import KINDS, AedTrainConfig, LmTrainConfig, parse_train_config
from fewer.training.ngram import estimate
from fewer.training.run import make_task, train_model
from fewer.training.task import Moment
from tests.training.processes import run_in_two_processes, run_killed, run_to_end
from tests.training.runs import finished, train
from tests.training.tones import aed_values, lm_values, write_tones

LMS = {
    "lstm_lm": {"kind": "lstm_lm", "embedding": 4, "size": 8},
    "transformer_lm": {
        "kind": "transformer_lm",
        "layers": 2,
        "size": 8,
        "feed_forward": 16,
        "heads": 2,
        "embedding": 4,
    },
    "decoder_like_lm": {"kind": "decoder_like_lm", "size": 8, "embedding": 4, "readout": 8},
}


@pytest.fixture
def lm_folder(tones: Path) -> Path:
    return tones / "lm"


def test_a_recogniser_passes_through_all_of_its_schedule(tones: Path, tmp_path: Path) -> None:
    train(aed_values(tones), tmp_path / "run")
    loaded = load_model(tmp_path / "run")
    assert loaded.aed.config.encoder.layers == 3
    assert loaded.features is not None
    assert loaded.features.dim == 12
    assert not any(parameter.requires_grad for parameter in loaded.aed.parameters())
    lines = finished(tmp_path / "run")
    assert [line["stage"] for line in lines] == [0, 0, 1, 1, 1]
    assert [line["rate"] for line in lines] == pytest.approx([0.003, 0.01, 0.009, 0.0081, 0.00729])
    smoothed = [line["train_loss"] - line["train_ce"] - line["train_ctc"] for line in lines]
    assert smoothed == pytest.approx([0, 0, 0, *smoothed[3:]], abs=1e-5)
    assert min(abs(value) for value in smoothed[3:]) > 1e-3
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        "config.yaml",
        "run.json",
        "train.log",
        "curves.jsonl",
        "checkpoints",
        "model.safetensors",
        "tokenizer.json",
        "statistics.safetensors",
    }
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["seed"] == 1
    assert run["starts"][0]["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("state", ["zoneout_lstm", "feed_forward"])
def test_the_other_decoders_train_too(tones: Path, tmp_path: Path, state: str) -> None:
    values = aed_values(tones)
    values["model"]["decoder"] |= {"state": state}
    train(values, tmp_path / "run")
    assert load_model(tmp_path / "run").aed.config.decoder.state == state


@pytest.mark.parametrize("kind", LMS)
def test_language_models_learn_from_text(tones: Path, tmp_path: Path, kind: str) -> None:
    values = lm_values(tones, LMS[kind]) | {"sub_epochs": 6}
    if kind == "transformer_lm":
        newbob = {"decay": 0.8, "measure": "perplexity", "window": 1, "hold": 1, "relative_to_rate": False}
        values |= {"optimizer": {"kind": "sgd", "clip": 1.0}, "reduction": "sum"}
        values |= {"schedule": {"peak": 0.2, "newbob": newbob}}
    train(values, tmp_path / "run")
    lines = finished(tmp_path / "run")
    assert lines[-1]["dev_ce"] < lines[0]["dev_ce"]
    model = load_model(tmp_path / "run").lm
    log_probs = model.log_probs(torch.tensor([[2, 3, 0]]))
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(1, 3))


def test_a_recogniser_killed_at_random_moments_ends_in_the_same_weights(tones: Path, tmp_path: Path) -> None:
    values = aed_values(tones) | {"checkpoint_minutes": 0, "sub_epochs": 6}
    run_to_end(train, values, tmp_path / "whole")
    rng = random.Random(2)
    for _ in range(4):
        run_killed(rng.randint(1, 40), tmp_path / "killed", train, values, tmp_path / "killed")
    run_to_end(train, values, tmp_path / "killed")
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert files[0] == files[1]


def test_two_processes_train_the_same_recogniser_as_one(tones: Path, tmp_path: Path) -> None:
    """Uneven shares: batches of odd sizes, and steps of one batch and of two."""
    values = aed_values(tones)
    values["model"]["encoder"]["dropout"] = values["model"]["decoder"]["dropout"] = 0.0
    values["optimizer"] = {"kind": "sgd"}
    values["schedule"] = {"peak": 0.5}
    train(values, tmp_path / "one")
    run_in_two_processes(train, values, tmp_path / "two")
    one, two = (load_model(tmp_path / name).aed.state_dict() for name in ("one", "two"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-4, atol=1e-5)
    assert finished(tmp_path / "one")[-1]["dev_ce"] < finished(tmp_path / "one")[0]["dev_ce"] - 0.01
    for first, second in zip(finished(tmp_path / "one"), finished(tmp_path / "two"), strict=True):
        assert first["dev_ce"] == pytest.approx(second["dev_ce"], rel=1e-5)


def test_training_with_an_external_lm(tones: Path, lm_folder: Path, tmp_path: Path) -> None:
    values = aed_values(tones) | {"external_lm": {"model": str(lm_folder), "scale": 0.7}, "ctc_scale": 0.5, "l2": 0.0}
    config = parse_train_config(values, "x")
    assert isinstance(config, AedTrainConfig)
    train(values, tmp_path / "run")
    loaded, lm = load_model(tmp_path / "run"), load_model(lm_folder).lm
    task, _ = make_task(config, tmp_path / "run", loaded.tokenizer, alone())
    assert isinstance(task, AedTask)
    (items, *_) = task.dev.plan(1)[0]
    batch = task.dev.load(items, 1)
    losses = task.losses(loaded.aed, batch, Moment(5, 0, training=False))
    encoded = loaded.aed.encode(batch.features, batch.feature_lengths)
    joint = loaded.aed.teacher_forced(encoded, batch.labels).logits.log_softmax(-1) + 0.7 * lm.log_probs(batch.labels)
    expected = 0.0
    for b, length in enumerate(batch.label_lengths.tolist()):
        for n in range(length):
            scores = joint[b, n]
            expected -= (scores[batch.labels[b, n]] - scores.logsumexp(0)).item()
    assert losses.parts["ce"].item() == pytest.approx(expected, rel=1e-5)
    assert losses.total.item() == pytest.approx(expected + 0.5 * losses.parts["ctc"].item(), rel=1e-5)
    assert task.penalty(loaded.aed) is None
    assert not any("lm" in name for name in loaded.aed.state_dict())


def test_an_n_gram_can_be_the_external_lm(tones: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(tones / "tokenizer.json")
    lines = (tones / "train.txt").read_text().splitlines()
    stream = torch.tensor([label for line in lines for label in (*tokenizer.encode(line), tokenizer.end)])
    save_ngram(tmp_path / "lm.safetensors", estimate(stream, 2, tokenizer.size, tokenizer.end), tokenizer.labels)
    external = {"model": str(tmp_path / "lm.safetensors"), "scale": 0.5}
    config = parse_train_config(aed_values(tones) | {"external_lm": external}, "test.yaml")
    assert isinstance(config, AedTrainConfig)
    (tmp_path / "run").mkdir()
    task, marks = make_task(config, tmp_path / "run", tokenizer, alone())
    plain, plain_marks = make_task(
        config.model_copy(update={"external_lm": None}), tmp_path / "run", tokenizer, alone()
    )
    assert len(marks) == len(plain_marks) + 1
    module, batch = task.build(0).eval(), task.dev.load(task.dev.plan(1)[0][0], 1)
    moment = Moment(1, 0, training=False)
    assert task.losses(module, batch, moment).parts["ce"] != plain.losses(module, batch, moment).parts["ce"]


def test_a_guide_holds_in_the_first_sub_epochs_of_training_alone(tones: Path, tmp_path: Path) -> None:
    values = aed_values(tones) | {"guide": {"last": 2, "scale": 3.0}}
    config = parse_train_config(values, "test.yaml")
    (tmp_path / "run").mkdir()
    task, _ = make_task(config, tmp_path / "run", load_tokenizer(tones / "tokenizer.json"), alone())
    module, batch = task.build(0).eval(), task.dev.load(task.dev.plan(1)[0][0], 1)
    guided, later, dev = (
        task.losses(module, batch, moment) for moment in (Moment(2, 0), Moment(3, 0), Moment(1, 0, training=False))
    )
    assert "off_diagonal" not in later.parts | dev.parts
    expected = later.total + 3.0 * guided.parts["off_diagonal"]
    torch.testing.assert_close(guided.total, expected)


def test_an_external_lm_with_another_tokenizer_is_refused(tones: Path, lm_folder: Path, tmp_path: Path) -> None:
    from fewer.data.tokenizers import train_characters

    other = tmp_path / "tokenizer.json"
    train_characters(["dcbaa"]).save(other)
    train_characters(["abbcccdddd"]).save(other)
    values = aed_values(tones) | {"external_lm": {"model": str(lm_folder), "scale": 1.0}, "tokenizer": str(other)}
    with pytest.raises(FewerError, match=r"external_lm.model: .* another tokenizer"):
        train(values, tmp_path / "run")


class NoData:
    pass


def task_of(changes: dict[str, Any]) -> AedTask:
    config = AedTrainConfig.model_validate(aed_values(Path("nowhere")) | {"model": small_model()} | changes)
    return AedTask(config, NoData(), NoData())  # type: ignore[arg-type]


ENCODER_KEY = ("encoder.", "attention.key.")


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        (None, (*ENCODER_KEY, "decoder.state.", "decoder.output.")),
        (["encoder", "state", "output"], ("encoder.", "decoder.state.", "decoder.output.")),
        (["key"], ("attention.key.",)),
    ],
)
def test_l2_is_on_the_parts_that_decay(parts: list[str] | None, names: tuple[str, ...]) -> None:
    task = task_of({"l2": 0.5, "l2_parts": parts})
    model = AED(task.config.model)
    penalty = task.penalty(model)
    assert penalty is not None
    penalty.backward()
    decayed = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert decayed == {name for name, _ in model.named_parameters() if name.startswith(names)}
    if "decoder.output." in names:
        torch.testing.assert_close(model.decoder.output.weight.grad, model.decoder.output.weight.detach())


def test_l2_of_the_layers_grows_with_the_width_only_if_asked_to() -> None:
    growing = {"starts": [3], "first_layers": 2}
    scaled, constant = (task_of({"l2": 0.5, "growing": growing | {"scale_regularisation": on}}) for on in (True, False))
    for stage, share in ((0, 0.5), (1, 1.0)):
        model: Any = scaled.build(stage)
        gradients = []
        for task in (scaled, constant):
            model.zero_grad()
            penalty = task.penalty(model)
            assert penalty is not None
            penalty.backward()
            gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
        for name, gradient in gradients[0].items():
            expected = share if name.startswith("encoder.layers.") else 1.0
            torch.testing.assert_close(gradient, expected * gradients[1][name])


def test_newbob_can_follow_the_smoothed_loss_of_the_dev_set(tones: Path, tmp_path: Path) -> None:
    """It is the divergence from the smoothed targets, and the plain cross entropy before smoothing begins."""
    values = aed_values(tones)
    values["schedule"]["newbob"] = values["schedule"]["newbob"] | {"measure": "smoothed"}
    config = parse_train_config(values, "values")
    assert isinstance(config, AedTrainConfig)
    task, _ = make_task(config, tmp_path, load_tokenizer(config.tokenizer), alone("cpu"))
    torch.manual_seed(1)
    module = task.build(1).eval()
    batch = next(iter(task.dev.load(items, 1) for group in task.dev.plan(1) for items in group))
    with torch.no_grad():
        early, late = (task.losses(module, batch, Moment(sub_epoch, 0, training=False)).parts for sub_epoch in (1, 5))
        encoded = module.encode(batch.features, batch.feature_lengths)  # type: ignore[operator]
        logits = module.teacher_forced(encoded, batch.labels).logits  # type: ignore[operator]
    assert config.smoothing_from > 1
    assert float(early["smoothed"]) == pytest.approx(float(early["ce"]))
    labels = logits.shape[-1]
    expected = 0.0
    for row, targets, length in zip(logits.log_softmax(-1), batch.labels, batch.label_lengths, strict=True):
        for log_probs, target in zip(row[:length], targets[:length], strict=True):
            q = torch.full((labels,), config.smoothing / (labels - 1))
            q[target] = 1 - config.smoothing
            expected += float((q * (q.log() - log_probs)).sum())
    assert float(late["smoothed"]) == pytest.approx(expected, rel=1e-5)
    assert task.steering(5) == "smoothed"
    assert task.watched(5) == "ce"  # by which the final weights are chosen


def small_model() -> dict[str, Any]:
    return aed_values(Path("nowhere"))["model"] | {"vocab_size": 6}


def test_a_run_can_go_on_when_a_later_version_has_more_options(
    tones: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Newer(LmTrainConfig):
        new_option: bool = False

    values = lm_values(tones, LMS["lstm_lm"])
    train(values, tmp_path / "run")
    monkeypatch.setitem(KINDS, "lstm_lm", Newer)
    train(values | {"sub_epochs": 4}, tmp_path / "run")
    assert len(finished(tmp_path / "run")) == 4
    with pytest.raises(FewerError, match="new_option: false there, true now"):
        train(values | {"new_option": True}, tmp_path / "run")


def test_a_run_is_not_made_shorter_than_it_is(tones: Path, tmp_path: Path) -> None:
    values = lm_values(tones, LMS["lstm_lm"])
    train(values, tmp_path / "run")
    before = {name: (tmp_path / "run" / name).read_bytes() for name in ("config.yaml", "model.safetensors")}
    with pytest.raises(FewerError, match="in sub-epoch 3 already, but sub_epochs is 2; set it to 3 or more"):
        train(values | {"sub_epochs": 2}, tmp_path / "run")
    assert before == {name: (tmp_path / "run" / name).read_bytes() for name in before}
    train(values | {"sub_epochs": 4}, tmp_path / "run")
    assert "sub_epochs: 4\n" in (tmp_path / "run" / "config.yaml").read_text()


def test_a_changed_configuration_is_noticed_and_named(tones: Path, tmp_path: Path) -> None:
    values = lm_values(tones, LMS["lstm_lm"])
    train(values, tmp_path / "run")
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    with pytest.raises(FewerError, match=r"another configuration(.|\n)*model.size: 8 there, 9 now"):
        train(lm_values(tones, LMS["lstm_lm"] | {"size": 9}), tmp_path / "run")
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    train(values | {"sub_epochs": 4}, tmp_path / "run")  # longer is no other configuration
    assert len(finished(tmp_path / "run")) == 4
    whole = tmp_path / "whole"
    train(values | {"sub_epochs": 4}, whole)
    assert (whole / "model.safetensors").read_bytes() == (tmp_path / "run" / "model.safetensors").read_bytes()


def test_changed_data_is_noticed(tones: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("ab\nba\n")
    values = lm_values(tones, LMS["lstm_lm"])
    values["data"]["train"] = [str(text)]
    values["data"]["batches"] = {"max_size": 40}
    train(values, tmp_path / "run")
    text.write_text("ab\nba\ncd\n")
    with pytest.raises(FewerError, match="another configuration or other data"):
        train(values, tmp_path / "run")


def test_a_transcript_of_the_same_length_is_other_data(tmp_path: Path) -> None:
    write_tones(tmp_path, train=4, dev=2)
    train(aed_values(tmp_path) | {"sub_epochs": 3}, tmp_path / "run")
    manifest = tmp_path / "train.jsonl"
    text = (tmp_path / "train.txt").read_text().splitlines()[0]
    changed = text[:-1] + ("a" if text[-1] == "b" else "b")
    lines = manifest.read_text()
    manifest.write_text(lines.replace(f'"text": "{text}"', f'"text": "{changed}"'))
    assert manifest.read_text() != lines
    with pytest.raises(FewerError, match="another configuration or other data"):
        train(aed_values(tmp_path) | {"sub_epochs": 3}, tmp_path / "run")


def test_a_folder_of_something_else_is_left_alone(tones: Path, tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_text("")
    with pytest.raises(FewerError, match="is not empty and not a run"):
        train(lm_values(tones, LMS["lstm_lm"]), tmp_path)


def test_a_tokenizer_of_another_size_is_refused(tones: Path, tmp_path: Path) -> None:
    with pytest.raises(FewerError, match=r"model.vocab_size is 7, but .*tokenizer.json has 6 labels"):
        train(lm_values(tones, LMS["lstm_lm"] | {"vocab_size": 7}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_not_a_finished_model_folder_is_named(tones: Path, tmp_path: Path) -> None:
    with pytest.raises(FewerError, match="is not a model folder"):
        load_model(tmp_path)
    values = lm_values(tones, LMS["lstm_lm"])
    train(values, tmp_path / "run")
    weights = tmp_path / "run" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-3])
    with pytest.raises(FewerError, match=r"model.safetensors is damaged or cut short"):
        load_model(tmp_path / "run")
    weights.unlink()
    with pytest.raises(FewerError, match="not finished"):
        load_model(tmp_path / "run")
    train(values, tmp_path / "run")
    assert weights.read_bytes() == whole
    with pytest.raises(FewerError, match="this is a lstm_lm, but a recogniser"):
        _ = load_model(tmp_path / "run").aed


def test_an_unreadable_utterance_stops_training_by_name(tones: Path, tmp_path: Path) -> None:
    write_tones(tmp_path / "tones", train=4, dev=2)
    (tmp_path / "tones" / "audio" / "train-2.wav").write_bytes(b"no audio")
    with pytest.raises(FewerError, match=r"train-2"):
        train(aed_values(tmp_path / "tones"), tmp_path / "run")


def test_a_folder_in_which_another_training_runs_is_left_alone(tones: Path, tmp_path: Path) -> None:
    config = parse_train_config(lm_values(tones, {"kind": "lstm_lm", "embedding": 4, "size": 8}), "lm.yaml")
    with exclusive(tmp_path / "run"), pytest.raises(FewerError, match=r"run is in use by"):
        train_model(config, tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
    (tmp_path / "run" / ".config.yaml.tmp4711").write_text("half")
    train_model(config, tmp_path / "run")
    assert not [path.name for path in (tmp_path / "run").rglob(".*")]
