"""The trainer on a toy task: resuming, distribution, growing, errors."""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from fewer.compute.world import alone
from fewer.errors import FewerError
from fewer.progress import Bar
from fewer.training.records import read_curves
from fewer.training.seeds import seed_moment
from fewer.training.task import Moment
from fewer.training.trainer import Progress, Trainer
from tests.training.processes import run_in_group, run_killed, run_to_end
from tests.training.toy_task import ToyTask, toy_config, toy_process, train_toy


def equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    trainer = Trainer(ToyTask(), toy_config(sub_epochs=8), tmp_path, alone(), "toy")
    trainer.run()
    losses = [entry["dev_ce"] for entry in trainer.progress.history]
    assert losses[-1] < 0.95 * losses[0]


def test_a_run_killed_at_random_moments_ends_in_the_same_weights(tmp_path: Path) -> None:
    options = {"dropout": 0.3, "grows_at": 3, "accumulate": 2}
    changes = {"sub_epochs": 12}
    run_to_end(toy_process, str(tmp_path / "whole"), options, changes)
    killed, rng = tmp_path / "killed", random.Random(4)
    for _ in range(8):
        run_killed(rng.randint(1, 40), killed, toy_process, str(killed), options, changes)
    run_to_end(toy_process, str(killed), options, changes)
    assert equal(torch.load(tmp_path / "whole/weights.pt"), torch.load(tmp_path / "killed/weights.pt"))
    curves = [read_curves(tmp_path / name) for name in ("whole", "killed")]
    for line in (line for curve in curves for line in curve):
        line.pop("seconds", None)
    assert curves[0] == curves[1]
    left = {path.name for path in (tmp_path / "killed/checkpoints").iterdir()}
    assert len(left) <= 3
    assert not any(name.startswith(".") for name in left)


def test_stopping_after_any_step_and_going_on_gives_the_same_weights(tmp_path: Path) -> None:
    task, config = ToyTask(dropout=0.3, grows_at=2), toy_config(sub_epochs=3)
    whole = train_toy(task, config, str(tmp_path / "whole"))

    class Stop(Exception):
        pass

    class Stopping(Trainer):
        def _save(self) -> None:
            super()._save()
            raise Stop

    stops = 0
    while True:
        try:
            Stopping(task, config, tmp_path / "stopped", alone(), "toy").run()
            break
        except Stop:
            stops += 1
    assert stops == sum(len(task.train.plan(sub_epoch)) for sub_epoch in (1, 2, 3))
    assert equal(whole, train_toy(task, config, str(tmp_path / "stopped")))


def test_the_toy_result_depends_on_the_seed(tmp_path: Path) -> None:
    results = [
        train_toy(ToyTask(dropout=0.3), toy_config(seed=seed), str(tmp_path / f"{seed}-{n}"))
        for n, seed in enumerate([1, 1, 2])
    ]
    assert equal(results[0], results[1])
    assert not equal(results[0], results[2])


@pytest.mark.parametrize(("processes", "accumulate", "items"), [(2, 1, 50), (2, 3, 50), (3, 1, 4)])
def test_many_processes_give_the_result_of_one(tmp_path: Path, processes: int, accumulate: int, items: int) -> None:
    options = {"accumulate": accumulate, "grows_at": 2, "items": items}
    changes: dict[str, Any] = {"sub_epochs": 3, "optimizer": {"kind": "sgd", "clip": 1.0}, "seed": 3}
    single = train_toy(ToyTask(**options), toy_config(**changes), str(tmp_path / "single"))
    assert run_ranks(processes, tmp_path / "many", options, changes) == [0] * processes
    many = torch.load(tmp_path / "many/weights.pt")
    for name, tensor in single.items():
        torch.testing.assert_close(many[name], tensor, rtol=1e-4, atol=1e-6)
    points = [
        [line for line in read_curves(tmp_path / name) if line["kind"] == "sub_epoch"] for name in ("single", "many")
    ]
    for one, other in zip(*points, strict=True):
        assert one["train_loss"] == pytest.approx(other["train_loss"], rel=1e-4)
        assert one["dev_ce"] == pytest.approx(other["dev_ce"], rel=1e-4)


def run_ranks(processes: int, folder: Path, options: dict[str, Any], changes: dict[str, Any]) -> list[int | None]:
    """Train in many processes as torchrun starts them; their exit codes."""
    return run_in_group(processes, _train_or_tell, str(folder), options, changes)


def _train_or_tell(folder: str, options: dict[str, Any], changes: dict[str, Any]) -> None:
    try:
        toy_process(folder, options, changes)
    except FewerError as error:
        Path(f"{folder}/error-{os.environ['RANK']}").write_text(str(error))
        raise SystemExit(1) from error


def test_a_loss_that_is_not_finite_stops_all_processes_with_its_ids(tmp_path: Path) -> None:
    assert run_ranks(2, tmp_path, {"poison": 7, "accumulate": 2}, {}) == [1, 1]
    for rank in range(2):
        message = (tmp_path / f"error-{rank}").read_text()
        assert "a loss is not finite in sub-epoch 2" in message
        assert "item-7" in message
        assert len(message.split("item-")) - 1 <= 6  # the one bad batch, not the whole step


def test_accumulated_batches_and_the_penalty_are_summed_and_divided_by_all_labels(tmp_path: Path) -> None:
    """One SGD step by hand: w − rate·∇(Σ losses + batches·L2)/labels."""
    task = ToyTask(accumulate=100)
    config = toy_config(sub_epochs=1, optimizer={"kind": "sgd"}, schedule={"peak": 0.5})
    seed_moment(config.seed, "build", 0)
    net = task.build(0)
    (group,) = list(task.train.plan(1))
    batches = [task.train.load(items, 1) for items in group]
    loss = sum(task.losses(net, batch, Moment(1, 0)).total for batch in batches)
    penalty = task.penalty(net)
    assert penalty is not None
    labels = sum(int(batch.label_lengths.sum()) for batch in batches)
    ((loss + len(batches) * penalty) / labels).backward()
    weights = train_toy(task, config, str(tmp_path))
    for name, parameter in net.named_parameters():
        step = 0 if parameter.grad is None else 0.5 * parameter.grad
        torch.testing.assert_close(weights[name], parameter.detach() - step)


def test_frozen_weights_are_neither_trained_nor_saved(tmp_path: Path) -> None:
    weights = train_toy(ToyTask(), toy_config(), str(tmp_path))
    assert torch.equal(weights["frozen"], torch.full((7,), 0.5))
    trainer = Trainer(ToyTask(), toy_config(), tmp_path, alone(), "toy")
    checkpoint = trainer.checkpoints.newest()
    assert checkpoint is not None
    assert "model.output.weight" in checkpoint.tensors
    assert not any("frozen" in name for name in checkpoint.tensors)


def test_a_loss_that_is_not_finite_names_the_batch_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(FewerError, match=r"a loss is not finite in sub-epoch 2, .*item-7\b") as caught:
        train_toy(ToyTask(poison=7), toy_config(), str(tmp_path))
    trainer = Trainer(ToyTask(), toy_config(), tmp_path, alone(), "toy")
    last = trainer.checkpoints.files()[-1]
    assert str(last) in str(caught.value)
    checkpoint = trainer.checkpoints.read(last)
    assert all(tensor.isfinite().all() for tensor in checkpoint.tensors.values())
    train_toy(ToyTask(), toy_config(), str(tmp_path))  # and it can go on from there


def test_a_gradient_that_is_not_finite_stops_before_it_reaches_the_weights(tmp_path: Path) -> None:
    task = ToyTask(poison=7, poison_gradient=True)
    trainer = Trainer(task, toy_config(), tmp_path, alone(), "toy")
    with pytest.raises(FewerError, match=r"the gradient is not finite in sub-epoch 2, .*item-7\b"):
        trainer.run()
    assert all(tensor.isfinite().all() for tensor in trainer.module.state_dict().values())


def test_another_configuration_is_noticed(tmp_path: Path) -> None:
    train_toy(ToyTask(), toy_config(sub_epochs=1), str(tmp_path))
    with pytest.raises(FewerError, match="another configuration"):
        Trainer(ToyTask(), toy_config(), tmp_path, alone(), "something else").run()


def test_a_damaged_checkpoint_is_named_and_left_out_only_when_told_to(tmp_path: Path) -> None:
    whole = train_toy(ToyTask(), toy_config(), str(tmp_path / "whole"))
    train_toy(ToyTask(), toy_config(sub_epochs=2), str(tmp_path / "cut"))
    trainer = Trainer(ToyTask(), toy_config(), tmp_path / "cut", alone(), "toy")
    last = trainer.checkpoints.files()[-1]
    last.write_bytes(last.read_bytes()[:-5])
    with pytest.raises(FewerError, match=f"{last.name} is damaged"):
        trainer.run()
    fallen_back = Trainer(ToyTask(), toy_config(), tmp_path / "cut", alone(), "toy").run(fall_back=True)
    assert equal(whole, fallen_back.state_dict())


def test_growing_starts_from_the_old_weights_without_moments(tmp_path: Path) -> None:
    class Looking(Trainer):
        def _grow_if_due(self) -> None:
            before = self.module
            super()._grow_if_due()
            if self.module is not before:
                assert not self.optimizer.state
                assert torch.equal(self.module.output.weight[:, :3], before.output.weight)  # type: ignore[union-attr,index]
                self.seen = True

    trainer = Looking(ToyTask(grows_at=3), toy_config(), tmp_path, alone(), "toy")
    trainer.run()
    assert trainer.seen
    assert trainer.progress.best(trainer.task.watched) in (3, 4)


def test_the_final_weights_are_the_best_ones_unless_the_last_are_asked_for(tmp_path: Path) -> None:
    task = ToyTask()
    wild = {"sub_epochs": 6, "schedule": {"peak": 3.0}}
    best = Trainer(task, toy_config(**wild), tmp_path, alone(), "toy")
    losses = []
    for final in ("best", "last"):
        trainer = Trainer(task, toy_config(final=final, **wild), tmp_path, alone(), "toy")
        trainer.run()
        losses.append(trainer.evaluate(task.dev.plan(1), Bar("dev"))["ce"])
        best = trainer
    history = [entry["dev_ce"] for entry in best.progress.history]
    assert min(history) < history[-1]
    assert losses == pytest.approx([min(history), history[-1]])


def test_the_best_sub_epoch_is_one_judged_as_the_last_one_is() -> None:
    losses = [(3.0, 0.1), (0.2, 0.3), (0.4, 0.05), (0.5, 0.01)]  # ce and ctc of a sub-epoch
    history = [{"sub_epoch": n, "stage": 0, "dev_ce": ce, "dev_ctc": ctc} for n, (ce, ctc) in enumerate(losses, 1)]
    progress = Progress(history=history)
    assert progress.best(lambda sub_epoch: "ce") == 2
    assert progress.best(lambda sub_epoch: "ctc") == 4
    assert progress.best(lambda sub_epoch: "ctc" if sub_epoch < 3 else "ce") == 3


def test_batches_read_by_worker_processes_give_the_same_weights(tmp_path: Path) -> None:
    results = [
        train_toy(ToyTask(dropout=0.3), toy_config(sub_epochs=1, workers=workers), str(tmp_path / str(workers)))
        for workers in (0, 2)
    ]
    assert equal(*results)


def test_bfloat16_trains_to_about_the_same_loss(tmp_path: Path) -> None:
    losses = []
    for bf16 in (False, True):
        trainer = Trainer(ToyTask(), toy_config(bf16=bf16), tmp_path / str(bf16), alone(), "toy")
        trainer.run()
        losses.append(trainer.progress.history[-1]["dev_ce"])
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)


def test_tensorboard_that_is_not_installed_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(FewerError, match=r"pip install 'fewer\[tensorboard\]'"):
        train_toy(ToyTask(), toy_config(tensorboard=True), str(tmp_path))


def test_curves_and_tensorboard(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    train_toy(ToyTask(), toy_config(sub_epochs=2, tensorboard=True), str(tmp_path))
    lines = [json.loads(line) for line in (tmp_path / "curves.jsonl").read_text().splitlines()]
    assert [line["sub_epoch"] for line in lines if line["kind"] == "sub_epoch"] == [1, 2]
    assert all(line["rate"] > 0 for line in lines)
    assert list((tmp_path / "tensorboard").glob("events*"))
    assert "sub-epoch 2/2" in (tmp_path / "train.log").read_text()
